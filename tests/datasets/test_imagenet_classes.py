"""ImageNet's lists of classes, and sets of unseen ones."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zslearn.datasets import imagenet_classes, populated_classes
from zslearn.signatures import WordNet

needs_wordnet = pytest.mark.skipif(
    not Path("/usr/share/wordnet/data.noun").exists(), reason="needs WordNet (wordnet-base)"
)


def fake_lists():
    seen = [f"n{i:08d}" for i in range(999)] + ["n04399382"]
    everything = [f"n{i:08d}" for i in range(21_841)]
    return seen, everything


def write(folder, **lists):
    folder.mkdir(parents=True, exist_ok=True)
    for name, wnids in lists.items():
        path = folder / f"{name.replace('_', '-') if 'unseen' in name else name}.txt"
        path.write_text("\n".join(wnids) + "\n")


def test_lists_of_timm_without_importing_it(tmp_path, monkeypatch):
    seen, everything = fake_lists()
    info = tmp_path / "timm" / "data" / "_info"
    write(info, imagenet_synsets=seen, imagenet22k_synsets=everything)
    (tmp_path / "timm" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    if "timm" in importlib.import_module("sys").modules:
        pytest.skip("timm is imported already")
    assert imagenet_classes() == seen
    assert imagenet_classes("21k") == everything
    assert imagenet_classes("unseen") == everything[999:]
    # The folder over the package, or that of the files, may be given too.
    assert imagenet_classes("unseen", tmp_path) == imagenet_classes("unseen", info)


def test_lists_of_the_published_split(tmp_path, monkeypatch):
    seen, everything = fake_lists()
    write(tmp_path / "imagenet", seen=seen, all_unseen=everything[999:])
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert imagenet_classes("1k") == seen
    assert imagenet_classes("unseen") == everything[999:]
    assert sorted(imagenet_classes("21k")) == everything


def test_missing_lists_name_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for which in ("1k", "21k", "unseen"):
        with pytest.raises(FileNotFoundError, match="pip install timm"):
            imagenet_classes(which)
    with pytest.raises(FileNotFoundError, match="2k: there is no such file or list"):
        imagenet_classes("2k")


@pytest.mark.parametrize("change", [lambda x: x[:-1], lambda x: [*x[:-1], x[0]]])
def test_a_list_of_another_length_is_refused(tmp_path, change):
    seen, _ = fake_lists()
    write(tmp_path, imagenet_synsets=change(seen))
    with pytest.raises(ValueError, match=r"imagenet_synsets\.txt gives 999 different classes"):
        imagenet_classes("1k", tmp_path)


@pytest.mark.slow
@needs_wordnet
def test_hop_sets_agree_with_the_published_lists(data_folder):
    folder = data_folder / "imagenet"
    published = {hops: set((folder / f"{hops}-hop.txt").read_text().split()) for hops in (2, 3)}
    wordnet = WordNet()
    found = {hops: set(imagenet_classes(f"{hops}-hop", folder, wordnet=wordnet)) for hops in (2, 3)}
    assert len(found[2] & published[2]) == len(published[2]) == 1549
    assert len(found[3] & published[3]) == len(published[3]) == 7860
    assert (len(found[2] - published[2]), len(found[3] - published[3])) == (0, 7)


# ------------------------------------------------------------------------ most and least populated

COUNTS = {"b": 5, "a": 5, "c": 9, "d": 0, "e": 1}


def test_most_and_least_populated():
    assert populated_classes(COUNTS, 3) == ["c", "a", "b"]
    assert populated_classes(pd.Series(COUNTS), 2, which="least") == ["e", "a"]
    assert populated_classes(COUNTS, 1, classes=["a", "b"]) == ["a"]


@pytest.mark.parametrize(
    ("counts", "arguments", "message"),
    [
        (COUNTS, {"n_classes": 5}, "Only 4 classes have images; n_classes=5"),
        (COUNTS, {"n_classes": 0}, "n_classes=0"),
        (COUNTS, {"n_classes": 1, "which": "middle"}, "which='middle'"),
        (COUNTS, {"n_classes": 1, "classes": ["a", "z"]}, "lacks 1 of the 2 classes: 'z'"),
        ({"a": 1.5}, {"n_classes": 1}, "no valid number of images for 'a'"),
        ({"a": np.nan}, {"n_classes": 1}, "no valid number of images for 'a'"),
        ({"a": "many"}, {"n_classes": 1}, "no valid number of images for 'a'"),
        ({"a": -1}, {"n_classes": 1}, "no valid number of images for 'a'"),
        (pd.Series([1, 2], index=["a", "a"]), {"n_classes": 1}, "'a' more than once"),
    ],
)
def test_wrong_counts(counts, arguments, message):
    with pytest.raises(ValueError, match=message):
        populated_classes(counts, **arguments)
