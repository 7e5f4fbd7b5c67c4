r"""
Recognise unseen emoji
======================

A model is trained on four fifths of the emoji in seven styles and recognises the others, of which
it only knows the name and some keywords. The drawings come from eight npm packages, 30 MB together,
and are rendered by resvg (``pip install resvg-py==0.5.0``). The documentation does not run this
example. Run it in the folder with the packages::

    mkdir packages
    npm pack --pack-destination packages @iconify-json/noto@1.2.9 @iconify-json/noto-v1@1.2.5 \
        @iconify-json/openmoji@1.2.29 @iconify-json/twemoji@1.2.5 @iconify-json/fluent-emoji@1.2.7 \
        @iconify-json/fluent-emoji-flat@1.2.6 @iconify-json/emojione@1.2.3 emojibase-data@17.0.0
"""

# %%
# The packages
# ------------
#
# Each archive must have the expected SHA-256, so that only known drawings are rendered.

import hashlib
import json
import re
import tarfile
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import resvg_py

from zslearn.baselines import ESZSL
from zslearn.datasets import load_table
from zslearn.images import extract_features
from zslearn.metrics import flat_hit_at_k
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import encode_text, text_signatures

packages, pictures = Path("packages"), Path("emoji-pictures")
digests = {
    "noto-1.2.9": "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad",
    "noto-v1-1.2.5": "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37",
    "openmoji-1.2.29": "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5",
    "twemoji-1.2.5": "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7",
    "fluent-emoji-1.2.7": "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b",
    "fluent-emoji-flat-1.2.6": "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
    "emojione-1.2.3": "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e",
}
words_digest = "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a"


def read_json(file, digest, member):
    """Read a JSON file from an archive with the expected digest."""
    with open(packages / file, "rb") as archive:
        if hashlib.file_digest(archive, "sha256").hexdigest() != digest:
            raise SystemExit(f"{file} is not the expected archive.")
    with tarfile.open(packages / file) as archive:
        return json.load(archive.extractfile(f"package/{member}"))


styles = {
    name.rpartition("-")[0]: read_json(f"iconify-json-{name}.tgz", digest, "icons.json")
    for name, digest in digests.items()
}
words = read_json("emojibase-data-17.0.0.tgz", words_digest, "en/data.json")

# %%
# The classes
# -----------
#
# Classes are the emoji of seven groups (no people, flags or keycaps) that every style contains
# under their English name. Each drawing is rendered as a picture of 128 × 128 pixels on white.

groups = {0, 3, 4, 5, 6, 7, 8}


def icon_name(label):
    """Name of a drawing in the packages: the English name in lower case, with hyphens."""
    letters = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", letters).strip("-")


def find_icon(style, name):
    """Find a drawing by its name or an alias; None if there is none."""
    aliases = styles[style].get("aliases", {})
    while name not in styles[style]["icons"]:
        if aliases.get(name, {}).keys() != {"parent"}:
            return None
        name = aliases[name]["parent"]
    return styles[style]["icons"][name]


def render(style, icon, size=128):
    """Render a drawing as a PNG file on white, with a border that networks crop."""
    width, height = (icon.get(side, styles[style].get(side, 16)) for side in ("width", "height"))
    border = width / 14
    box = f"{-border} {-border} {width + 2 * border} {height + 2 * border}"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{size}" height="{size}" viewBox="{box}">{icon["body"]}</svg>'
    )
    options = {"background": "white", "skip_system_fonts": True}
    try:
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, **options))
    except BaseException as error:  # resvg panics for some drawings at this size
        if type(error).__name__ != "PanicException" or size > 128:
            raise
    return render(style, icon, size + 1)


texts, group_of = {}, {}
for emoji in words:
    icons = {style: find_icon(style, icon_name(emoji["label"])) for style in styles}
    if emoji.get("group") not in groups or "20E3" in emoji["hexcode"] or None in icons.values():
        continue
    label = re.sub(r'[<>:"/\\|?*]', "", emoji["label"])  # it is used as a folder name
    texts[label] = [emoji["label"], ", ".join(emoji.get("tags", [])) or emoji["label"]]
    group_of[label] = emoji["group"]
    for style, icon in icons.items():
        path = pictures / label / f"{style}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(render(style, icon))

# %%
# The data set
# ------------
#
# A small network computes features of the pictures, which takes some minutes on one core. A class
# is described by the mean of two sentence vectors, of its name and of its keywords. A fifth of each
# group is unseen.

found = extract_features(pictures, out="emoji.npz", progress=True)
rng = np.random.default_rng(1)
unseen = []
for group in groups:
    members = [label for label in texts if group_of[label] == group]
    unseen += rng.choice(members, len(members) // 5, replace=False).tolist()
data = load_table(
    found.X,
    found.y,
    text_signatures(texts, progress=True),
    unseen_classes=unseen,
    name="emoji",
)
print(data)

# %%
# ``zslearn bench emoji`` reads the same data from a folder.

folder = Path("emoji")
folder.mkdir(exist_ok=True)
parts = {
    "train": (data.X_train, data.y_train),
    "test_seen": (data.X_test_seen, data.y_test_seen),
    "test_unseen": (data.X_test_unseen, data.y_test_unseen),
}
np.savez(folder / "features.npz", X=np.concatenate([X for X, _ in parts.values()]))
rows = [(label, part) for part, (_, y) in parts.items() for label in y]
pd.DataFrame(rows, columns=["label", "part"]).to_csv(folder / "labels.csv", index=False)
data.signatures.rename_axis("label").to_csv(folder / "signatures.csv")

# %%
# Train the model
# ---------------
#
# Hyper-parameters are chosen on held-out seen classes.

model = ZeroShotSearchCV(ESZSL(), "fast")
model.fit(data.X_train, data.y_train, signatures=data.signatures)
best, _ = model.predict_top_k(data.X_test_unseen, 5, classes=data.unseen_classes)
for k in (1, 5):
    print(f"correct among the best {k}: {flat_hit_at_k(data.y_test_unseen, best, k):.1%}")

# %%
# Search by words
# ---------------
#
# Describe a class in words, and list the pictures of unseen classes with the highest scores for it.

question = "a wild animal with stripes"
model.add_classes({question: encode_text([question])[0]})
scores = model.decision_function(data.X_test_unseen, classes=[question]).ravel()
for row in np.argsort(-scores)[:12]:
    print(f"{scores[row]:.3f}  {data.y_test_unseen[row]}")
