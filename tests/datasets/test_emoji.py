"""The emoji data set: classes, drawings, pictures, splits; on made-up packages and real ones."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import emoji_packages as made
from zslearn.datasets import _emoji as _emoji_pictures
from zslearn.datasets import fetch_emoji, load_emoji, save_emoji_images
from zslearn.datasets._emoji import (
    STYLES,
    Drawing,
    DrawingError,
    Emoji,
    Icons,
    checked_svg,
    emoji_classes,
    emoji_splits,
    emoji_texts,
    find_emoji,
    icon_name,
    languages,
    read_icons,
    render,
    unseen_emoji,
)

pytest.importorskip("resvg_py")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def fetched(tmp_path_factory):
    base = tmp_path_factory.mktemp("emoji")
    with made.made_packages(base / "npm") as archives:
        yield fetch_emoji(base / "data", source=archives)


@pytest.fixture
def own(fetched, tmp_path):
    """A copy of the packages that a test may change."""
    return shutil.copytree(fetched, tmp_path / "data" / "emoji")


def encoder(texts):
    """Sentence vectors that need no model: which words there are."""
    words = sorted({word for item in made.EMOJI for word in (*item[0].split(), *item[3])})
    rows = np.array([[word in text for word in words] for text in texts], dtype=float)
    return rows + 0.01


# ------------------------------------------------------------------------------------ classes


def test_the_classes_are_what_every_style_draws(fetched):
    classes = emoji_classes(fetched, read_icons(fetched))
    assert [emoji.label for emoji in classes] == made.CLASSES
    assert classes[5] == Emoji("smiling cat", "😸", "1F638", 0, "smiling-cat")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("piñata", "pinata"),
        ("rescue worker’s helmet", "rescue-workers-helmet"),
        ("Japanese “bargain” button", "japanese-bargain-button"),
        ("keycap: 10", "keycap-10"),
        ("ON! arrow", "on-arrow"),
    ],
)
def test_names_of_drawings(label, name):
    assert icon_name(label) == name


def test_words_of_a_class(fetched):
    classes = emoji_classes(fetched, read_icons(fetched))
    assert languages(fetched) == ["de", "en"]
    assert emoji_texts(fetched, classes)["smiling cat"] == ("smiling cat", ["cat", "smile"])
    assert emoji_texts(fetched, classes, "de")["lion"][0] == "Löwe"
    with pytest.raises(ValueError, match="'dee'; there are de, en. Did you mean 'de'"):
        emoji_texts(fetched, classes, "dee")


def test_an_alias_that_turns_a_drawing_is_no_drawing(own):
    path = own / "thin" / "icons.json"
    content = json.loads(path.read_text())
    content["aliases"] |= {
        "turned": {"parent": "sad-cat", "hFlip": True},
        "loop": {"parent": "loop"},
        "far": {"parent": "nothing"},
        "odd": {"parent": 3},
        "mad": [],
    }
    path.write_text(json.dumps(content))
    icons = Icons(path)
    assert icons.resolve("lion") == "lion-face"
    assert not any(icons.resolve(name) for name in ("turned", "loop", "far", "odd", "mad"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("[]", "no set of icons"),
        ('{"icons": []}', "'icons' is no mapping"),
        ('{"icons": {}, "aliases": 1}', "'aliases' is no mapping"),
    ],
)
def test_damaged_icons(own, text, message):
    (own / "round" / "icons.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_icons(own)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"body": 1}, "has no drawing"),
        ({"width": "8"}, "width is no number"),
        ({"width": True}, "width is no number"),
        ({"height": 1e9}, "impossible size"),
        ({"height": 0}, "impossible size"),
        ({"left": float("nan")}, "impossible size"),
        ({"top": float("inf")}, "impossible size"),
    ],
)
def test_impossible_boxes(own, change, message):
    path = own / "round" / "icons.json"
    content = json.loads(path.read_text())
    content["icons"]["sad-cat"] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"icon 'sad-cat'.*{message}"):
        Icons(path).drawing("sad-cat")


@pytest.mark.parametrize("content", ["{}", "[1]", '[{"label": "a"}]'])
def test_damaged_words(own, content):
    (own / "emojibase" / "en" / "data.json").write_text(content)
    with pytest.raises(ValueError, match="no list of emoji"):
        emoji_classes(own, read_icons(own))


# ----------------------------------------------------------------------------------- drawings


def drawing(body, width=16.0, height=16.0):
    return Drawing(body, 0.0, 0.0, width, height)


def test_a_drawing_lies_in_the_middle_on_white():
    picture = render(drawing('<path fill="#ff0000" d="M0 0h16v16H0z"/>'))
    assert picture.shape == (128, 128, 3)
    assert picture.dtype == np.uint8
    expected = np.full((128, 128, 3), 255)
    expected[8:120, 8:120] = (255, 0, 0)
    np.testing.assert_array_equal(picture, expected)
    # Half as high as wide: white above and below.
    wide = render(drawing('<path fill="#0000ff" d="M0 0h16v8H0z"/>', height=8.0))
    assert (wide[64, 64] == (0, 0, 255)).all()
    assert (wide[30, 64] == 255).all()


def bomb(levels):
    """Each group shows the one before it ten times."""
    groups = ['<g id="g0"><path d="M0 0h1"/></g>']
    for n in range(levels):
        groups.append(f'<g id="g{n + 1}">' + f'<use href="#g{n}"/>' * 10 + "</g>")
    return f'<defs>{"".join(groups)}</defs><use href="#g{levels}"/>'


HOSTILE = {
    "a file": ('<image href="{file}" width="16" height="16"/>', "element"),
    "a file by its old name": ('<image xlink:href="{file}" width="9"/>', "element"),
    "an address": ('<use href="http://example.org/a.svg#b"/>', "outside of the drawing"),
    "a file to use": ('<use href="{file}#a"/>', "outside of the drawing"),
    "a file to use, old": ('<use xlink:href="{file}"/>', "outside of the drawing"),
    "a fill": ('<path fill="url({file})" d="M0 0h9v9z"/>', "outside of the drawing"),
    "a style": ('<path style="fill: URL( \'{file}\' )" d="M0 0"/>', "outside of the drawing"),
    "a hidden style": ('<path style="fill:u\\72l(x)" d="M0 0"/>', "hide"),
    "an import": ("<style>@import url({file})</style>", "element"),
    "a filter with a file": ('<filter id="f"><feImage href="{file}"/></filter>', "element"),
    "a program": ("<script>alert(1)</script>", "element"),
    "another language": ("<foreignObject><p/></foreignObject>", "element"),
    "text": ("<text>hello</text>", "element"),
    "another namespace": ('<x:path xmlns:x="http://example.org"/>', "element"),
    "an entity": ('<!DOCTYPE a [<!ENTITY x "y">]>', "declarations"),
    "an instruction": ('<?xml-stylesheet href="{file}"?>', "declarations"),
    "no XML": ("<g>", "no XML"),
    "the end": ('</svg><image href="{file}"/><svg>', "no XML"),
    "depth": ("<g>" * 100 + "</g>" * 100, "too deep"),
    "great depth": ("<g>" * 20_000 + "</g>" * 20_000, "too deep"),
    "many elements": ("<g/>" * 20_000, "too many elements"),
    "length": ("<g/>" + " " * (1 << 20), "characters"),
    "a bomb": (bomb(9), "unfolds"),
    "a circle": ('<g id="a"><use href="#a"/></g>', "circle"),
    "a wide circle": ('<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>', "circle"),
    "a mask of itself": ('<mask id="a"><g mask="url(#a)"/></mask><g mask="url(#a)"/>', "circle"),
    "a huge blur": ('<filter><feGaussianBlur stdDeviation="1e30"/></filter>', "blurs"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_drawings_are_refused(name, tmp_path):
    file = tmp_path / "secret.png"
    Image.new("RGB", (4, 4), "red").save(file)
    body, message = HOSTILE[name]
    with pytest.raises(DrawingError, match=message):
        render(drawing(body.replace("{file}", str(file))))


def test_what_the_renderer_would_do_with_a_file(tmp_path):
    """The reason for the checks: without them it reads any file."""
    import resvg_py

    file = tmp_path / "secret.png"
    Image.new("RGB", (4, 4), "red").save(file)
    body = f'<image href="{file}" width="16" height="16"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{body}</svg>'
    shown = resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True)
    assert shown != resvg_py.svg_to_bytes(svg_string=svg.replace(body, ""))
    with pytest.raises(DrawingError):
        checked_svg(drawing(body))


def test_references_within_a_drawing_are_drawn():
    body = (
        '<defs><linearGradient id="a"><stop stop-color="#00ff00"/></linearGradient>'
        '<path id="p" d="M0 0h16v16H0z"/><g id="q"><use href="#p"/></g></defs>'
        '<use xlink:href="#q" fill="url(#a)"/>'
    )
    assert (render(drawing(body))[64, 64] == (0, 255, 0)).all()


def test_an_error_names_the_icon(own, tmp_path):
    path = own / "square" / "icons.json"
    content = json.loads(path.read_text())
    content["icons"]["sad-cat"]["body"] = '<image href="/etc/hostname"/>'
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"square.icons\.json: icon 'sad-cat' is refused: it"):
        load_emoji(folder=own, cache=tmp_path / "cache")


# ------------------------------------------------------------------------------------- splits


def many(n_classes):
    return [Emoji(f"e{n}", "x", f"{n:x}", [0, 3, 4, 8][n % 4], f"e{n}") for n in range(n_classes)]


def test_a_fifth_of_each_group_is_unseen():
    classes = many(400)
    unseen = unseen_emoji(classes)
    for group in (0, 3, 4, 8):
        assert sum(u for u, e in zip(unseen, classes, strict=True) if e.group == group) == 20
    np.testing.assert_array_equal(unseen, unseen_emoji(classes))


def test_splits(fetched, tmp_path):
    classes = many(100)
    splits = emoji_splits(classes, tmp_path)
    assert list(splits) == ["ns", "style-round", "style-square", "style-thin"]
    ns = splits["ns"]
    assert (ns.train.size, ns.test_seen.size, ns.test_unseen.size) == (160, 80, 60)
    # One style of each seen class, not always the same.
    assert len(set((ns.test_seen // 3).tolist())) == 80
    assert set((ns.test_seen % 3).tolist()) == {0, 1, 2}
    for position, style in enumerate(made.STYLES):
        split = splits[f"style-{style}"]
        np.testing.assert_array_equal(split.unseen_classes, ns.unseen_classes)
        assert set((split.test_unseen % 3).tolist()) == {position}
        assert set((split.test_seen % 3).tolist()) == {position}
        assert position not in split.train % 3
        assert (split.train.size, split.test_seen.size, split.test_unseen.size) == (160, 80, 20)


# ------------------------------------------------------------------------- the whole data set


@pytest.fixture(scope="module")
def loaded(fetched, tmp_path_factory):
    pytest.importorskip("efficientnet_lite_pytorch")
    cache = tmp_path_factory.mktemp("cache")
    return load_emoji(folder=fetched.parent, cache=cache, encoder=encoder), cache


@pytest.mark.slow
def test_the_data_set(loaded, fetched):
    data, _ = loaded
    assert data.X.shape == (36, 1280)
    assert data.X.dtype == np.float32
    assert data.images.shape == (36, 128, 128, 3)
    assert data.y.tolist() == [label for label in made.CLASSES for _ in made.STYLES]
    assert data.version == "emoji-1/ns"
    assert sorted({*data.seen_classes, *data.unseen_classes}) == sorted(made.CLASSES)
    # The mean of the vectors of the name and of the keywords.
    expected = encoder(["smiling cat", "cat, smile"]).mean(axis=0)
    np.testing.assert_allclose(data.signatures.loc["smiling cat"], expected)
    # The pictures are those of the class and the style.
    icon = Icons(fetched / "square" / "icons.json").drawing("sad-cat")
    np.testing.assert_array_equal(data.images[6 * 3 + 1], render(icon))
    with pytest.raises(ValueError, match="no split 'style-thn'.*Did you mean"):
        load_emoji("style-thn", folder=fetched)


@pytest.mark.slow
def test_nothing_is_drawn_or_computed_twice(loaded, fetched, monkeypatch):
    data, cache = loaded

    def fail(*args, **kwargs):
        raise AssertionError("again")

    monkeypatch.setattr(_emoji_pictures, "render", fail)
    monkeypatch.setattr(_emoji_pictures, "read_icons", fail)
    monkeypatch.setattr("zslearn.images.Backbone.features_of_pixels", fail)
    again = load_emoji("style-thin", folder=fetched, cache=cache, encoder=encoder)
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.images, data.images)


@pytest.mark.slow
def test_a_damaged_cache_is_made_again(loaded, fetched, tmp_path):
    data, cache = loaded
    copy = shutil.copytree(cache, tmp_path / "cache")
    (path,) = [p for p in copy.glob("emoji-1_round_*.npz") if "efficientnet" not in p.name]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="cannot be used.*made again"):
        again = load_emoji(folder=fetched, cache=copy, encoder=encoder)
    np.testing.assert_array_equal(again.images, data.images)


@pytest.mark.slow
def test_other_drawings_are_other_pictures(loaded, own, tmp_path):
    data, cache = loaded
    copy = shutil.copytree(cache, tmp_path / "cache")
    path = own / "round" / "icons.json"
    content = json.loads(path.read_text())
    content["icons"]["red-apple"]["body"] = '<path d="M0 0h32v32H0z"/>'
    path.write_text(json.dumps(content))
    again = load_emoji(folder=own, cache=copy, encoder=encoder)
    changed = [i for i in range(36) if (again.images[i] != data.images[i]).any()]
    assert changed == [0]
    assert [i for i in range(36) if (again.X[i] != data.X[i]).any()] == [0]


@pytest.mark.slow
def test_pictures_in_folders_have_the_same_features(loaded, fetched, tmp_path):
    """The way through files, by the features of folders, gives what the arrays give."""
    from zslearn.datasets import read_descriptions
    from zslearn.images import extract_features

    data, cache = loaded
    target = save_emoji_images(tmp_path / "out", folder=fetched, cache=cache)
    assert sorted(p.name for p in target.iterdir()) == [
        *("LICENSES.txt", "classes.csv", "test_seen", "test_unseen", "train", "unseen.txt")
    ]
    assert (target / "unseen.txt").read_text().split("\n")[:-1] == data.unseen_classes.tolist()
    texts = read_descriptions(target / "classes.csv")
    assert texts["smiling cat"] == ["smiling cat", "cat, smile"]
    assert texts["cold face"] == ["cold face"]
    assert "round: @made-up/round 1.0.0, Google, Apache-2.0" in (
        (target / "LICENSES.txt").read_text()
    )
    features = extract_features(target / "test_unseen")
    order = np.lexsort((np.tile(made.STYLES, data.unseen_classes.size), data.y_test_unseen))
    np.testing.assert_array_equal(features.y, data.y_test_unseen[order])
    np.testing.assert_allclose(features.X, data.X_test_unseen[order], rtol=1e-3, atol=1e-4)
    with pytest.raises(FileExistsError, match="name a new folder"):
        save_emoji_images(target, folder=fetched, cache=cache)


@pytest.mark.slow
def test_other_emoji_in_folders(loaded, fetched, tmp_path):
    target = save_emoji_images(tmp_path / "out", folder=fetched, cache=loaded[1], others=True)
    found = {p.name: sorted(f.stem for f in p.iterdir()) for p in (target / "others").iterdir()}
    assert found == {
        "new thing": ["round", "square"],
        "cricket": ["round", "square"],
        "cricket game": ["round", "square", "thin"],
    }
    picture = np.asarray(Image.open(target / "others" / "new thing" / "square.png"))
    drawn = render(Icons(fetched / "square" / "icons.json").drawing("new-thing"))
    np.testing.assert_array_equal(picture, drawn)


@pytest.mark.slow
def test_an_interrupted_export_leaves_nothing(loaded, fetched, tmp_path, monkeypatch):
    def interrupt(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_emoji_images(tmp_path / "out", folder=fetched, cache=loaded[1])
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------- the real packages


@pytest.fixture
def real():
    try:
        return find_emoji()
    except FileNotFoundError:
        pytest.skip("the packages of emoji are not here: zslearn data fetch emoji")


@pytest.mark.slow
def test_real_classes(real):
    classes = emoji_classes(real, read_icons(real))
    assert len(STYLES) == 7
    assert len(classes) == 944
    labels = [emoji.label for emoji in classes]
    assert len(set(labels)) == 944
    assert not any(set('<>:"/\\|?*') & set(label) for label in labels)
    assert {"cat face", "unicorn", "rescue worker’s helmet"} <= set(labels)
    assert not {"cricket", "UP! button", "flag: Chad", "baker"} & set(labels)
    assert unseen_emoji(classes).sum() == 189
    known = languages(real)
    assert len(known) == 28
    for language in known:
        assert len(emoji_texts(real, classes, language)) == 944


@pytest.mark.slow
def test_real_chain_on_the_command_line(real, tmp_path, monkeypatch, capsys):
    """Pictures of animals in folders, features, a model, and predictions of unseen ones."""
    pytest.importorskip("efficientnet_lite_pytorch")
    from zslearn.cli import main

    def animals(folder, icons):
        return [emoji for emoji in emoji_classes(folder, icons) if emoji.group == 3][:60]

    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kept = dict(STYLES)
    try:
        for style in set(STYLES) - {"noto", "noto-v1", "twemoji"}:
            del STYLES[style]
        monkeypatch.setattr(_emoji_pictures, "emoji_classes", animals)
        assert main(["data", "images", "emoji", "pictures"]) == 0
    finally:
        STYLES.clear()
        STYLES.update(kept)
    unseen = (tmp_path / "pictures" / "unseen.txt").read_text().splitlines()
    assert main(["features", "extract", "pictures/train", "--out", "train.npz"]) == 0
    words = ["--describe", "pictures/classes.csv", "--method", "eszsl", "--tune", "none"]
    assert main(["fit", "train.npz", *words, "--out", "emoji.zsl"]) == 0
    words = ["--classes", *unseen, "--out", "answers.csv"]
    assert main(["predict", "emoji.zsl", "pictures/test_unseen", *words]) == 0
    lines = (tmp_path / "answers.csv").read_text().splitlines()[1:]
    assert len(lines) == 3 * len(unseen)
    right = sum(line.split("/")[0] in line.split(",")[1:2] for line in lines)
    assert right / len(lines) > 2 / len(unseen)
