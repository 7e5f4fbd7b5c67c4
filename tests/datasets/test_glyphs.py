import hashlib
import math
import os
import string
import subprocess
import sys
import unicodedata
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip(
    "matplotlib", reason="the glyphs are rendered from matplotlib's fonts"
)

from matplotlib import ft2font  # noqa: E402

from zslearn.datasets import load_glyphs  # noqa: E402

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def parts(character):
    decomposed = unicodedata.normalize("NFD", character)
    return decomposed[0], decomposed[1:]


def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def slow_histogram(image):
    """The descriptor of one image, written out pixel by pixel."""
    height, width = image.shape
    cells = np.zeros((height // 4, width // 4, 9))
    for row in range(height):
        for column in range(width):
            across = down = 0.0
            if 0 < column < width - 1:
                across = float(image[row, column + 1]) - float(image[row, column - 1])
            if 0 < row < height - 1:
                down = float(image[row + 1, column]) - float(image[row - 1, column])
            magnitude = math.sqrt(across**2 + down**2)
            degrees = math.degrees(math.atan2(down, across)) % 180
            lower, share = int(degrees // 20), degrees % 20 / 20
            cells[row // 4, column // 4, lower % 9] += magnitude * (1 - share)
            cells[row // 4, column // 4, (lower + 1) % 9] += magnitude * share
    blocks = []
    for row in range(height // 4 - 1):
        for column in range(width // 4 - 1):
            block = cells[row : row + 2, column : column + 2].ravel()
            block = np.minimum(block / math.sqrt(block @ block + 100), 0.2)
            blocks.append(block / math.sqrt(block @ block + 1e-4))
    return np.concatenate(blocks)


def test_features_equal_a_direct_loop(glyphs):
    rows = np.arange(0, len(glyphs.images), 1543)
    expected = np.array([slow_histogram(glyphs.images[row]) for row in rows])
    np.testing.assert_allclose(glyphs.X[rows], expected, atol=2e-6)


def test_classes_are_those_all_faces_contain(glyphs):
    found = [*FONTS.glob("DejaVu*.ttf"), *FONTS.glob("STIXGeneral*.ttf")]
    faces = [face for face in found if "Display" not in face.name]
    assert len(faces) == 16
    common = set.intersection(*[set(ft2font.FT2Font(str(face)).get_charmap()) for face in faces])
    expected = set()
    for character in map(chr, common):
        decomposed = unicodedata.normalize("NFD", character)
        if (
            unicodedata.normalize("NFC", character) == character
            and decomposed[0] in string.ascii_letters
            and len(decomposed) <= 2
            and all(unicodedata.combining(mark) for mark in decomposed[1:])
        ):
            expected.add(character)
    assert set(glyphs.signatures.index) == expected
    assert len(glyphs.signatures) == len(expected) == 225


def test_shapes(glyphs):
    assert glyphs.images.shape == (10800, 32, 32)
    assert glyphs.images.dtype == np.uint8
    assert glyphs.X.dtype == np.float32
    assert np.isfinite(glyphs.X).all()
    assert Counter(glyphs.y.tolist()) == dict.fromkeys(glyphs.signatures.index, 48)


def test_images_differ_and_have_ink_that_is_not_cut_off(glyphs):
    images = glyphs.images
    assert images.max(axis=(1, 2)).min() > 150
    assert len(np.unique(images.reshape(10800, -1), axis=0)) == 10800
    border = np.concatenate([images[:, [0, -1]], images[:, :, [0, -1]].swapaxes(1, 2)], axis=1)
    assert border.max() < 150
    assert border.mean() < 12


def test_signatures(glyphs):
    table = glyphs.signatures
    assert table.shape == (225, 43)
    assert set(np.unique(table.to_numpy())) == {0.0, 1.0}
    assert (table.sum(axis=1) == 3).all()
    assert not table.duplicated().any()
    assert (table.sum() > 0).all()

    def facts(character):
        row = table.loc[character]
        return set(row[row == 1].index)

    assert facts("a") == {"letter a", "mark none", "lower case"}
    assert facts("Ő") == {"letter o", "mark double acute", "upper case"}
    assert facts("ç") == {"letter c", "mark cedilla", "lower case"}


def test_splits(glyphs):
    assert list(glyphs.splits) == ["ns", "ss-1", "ss-2", "ss-3", "ss-4"]
    for name, split in glyphs.splits.items():
        assert split.version == f"glyphs-1/{name}"
        assert (split.seen_classes.size, split.unseen_classes.size) == (175, 50)
        together = np.concatenate([split.train, split.test_seen, split.test_unseen])
        assert np.array_equal(np.sort(together), np.arange(10800))
        assert (split.train.size, split.test_seen.size) == (6825, 1575)


def test_parts_of_unseen_classes_are_seen_and_faces_are_held_out_whole(glyphs):
    composed = Counter(parts(c)[1] for c in glyphs.signatures.index)
    for split in glyphs.splits.values():
        letters = {parts(c)[0] for c in split.seen_classes}
        marks = Counter(parts(c)[1] for c in split.seen_classes)
        for letter, mark in map(parts, split.unseen_classes):
            assert mark
            assert letter in letters
            assert marks[mark] >= composed[mark] / 2
        train, test = (
            {(i // 48, i % 48 // 3) for i in indices.tolist()}
            for indices in (split.train, split.test_seen)
        )
        assert not train & test
        # Each seen class has its own choice of three faces.
        assert set(Counter(label for label, _ in test).values()) == {3}
        assert {face for _, face in test} == set(range(16))


def test_splits_are_fixed(glyphs):
    """A change here changes published numbers: raise VERSION with it."""
    found = {}
    for name, split in glyphs.splits.items():
        together = np.concatenate([split.train, split.test_seen, split.test_unseen])
        found[name] = digest(together.astype("<i8"))[:16]
    assert found == {
        "ns": "f65f526498cbcd1d",
        "ss-1": "f05b4c51fdb231a7",
        "ss-2": "ede5f8cdadb1d5d9",
        "ss-3": "27ec4125cb096eb5",
        "ss-4": "2f0442b3d78268ce",
    }


@pytest.mark.slow
def test_another_process_renders_the_same(glyphs, tmp_path):
    program = (
        "import hashlib, sys\n"
        "from zslearn.datasets import load_glyphs\n"
        "d = load_glyphs('ss-2', data_home=sys.argv[1])\n"
        "h = hashlib.sha256(d.images.tobytes() + d.X.tobytes() + d.y.tobytes()\n"
        "                   + d.signatures.to_numpy().tobytes() + d.active_split.train.tobytes())\n"
        "print(h.hexdigest(), *d.signatures.columns, sep='|')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"},
    )
    expected = digest(
        glyphs.images, glyphs.X, glyphs.y, glyphs.signatures.to_numpy(), glyphs.splits["ss-2"].train
    )
    assert result.stdout.strip() == "|".join([expected, *glyphs.signatures.columns])
    assert result.stderr == ""
    assert len(os.listdir(tmp_path)) == 1


def test_cache_is_read(glyphs, glyphs_home, monkeypatch):
    monkeypatch.setenv("ZSLEARN_CACHE", str(glyphs_home))
    written = [path.stat().st_mtime_ns for path in glyphs_home.iterdir()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_glyphs("ss-3")
    assert [path.stat().st_mtime_ns for path in glyphs_home.iterdir()] == written
    assert again.split == "ss-3"
    assert np.array_equal(again.X, glyphs.X)
    (name,) = os.listdir(glyphs_home)
    assert name.startswith("glyphs-1_matplotlib-" + matplotlib.__version__)
    assert ft2font.__freetype_version__ in name


@pytest.mark.slow
def test_a_damaged_cache_is_rebuilt_with_one_warning(glyphs, glyphs_home, tmp_path):
    (name,) = os.listdir(glyphs_home)
    whole = (glyphs_home / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="Rendering the glyphs again") as caught:
        data = load_glyphs(data_home=tmp_path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.array_equal(data.X, glyphs.X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_glyphs(data_home=tmp_path)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.slow
def test_unwritable_folder_gives_the_data_with_one_warning(glyphs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be cached in .* ZSLEARN_CACHE") as caught:
        data = load_glyphs(data_home=tmp_path / "file" / "folder")
    assert len(caught) == 1
    assert np.array_equal(data.X, glyphs.X)


def test_refused(tmp_path):
    with pytest.raises(ValueError, match="no split 'ps'; choose one of ns, ss-1, ss-2"):
        load_glyphs("ps", data_home=tmp_path)
    with pytest.raises(ValueError, match="'progress' parameter"):
        load_glyphs(progress="yes")
