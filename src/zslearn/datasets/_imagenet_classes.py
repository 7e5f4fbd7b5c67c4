"""List ImageNet's classes by wnid, and the sets of unseen classes that the paper tests on."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import dijkstra

from zslearn._utils._messages import name_some, plain
from zslearn._utils._reading import DATA_VARIABLE, data_home, read_lines
from zslearn.signatures._class_graph import ClassGraph, imagenet_branches, imagenet_graph
from zslearn.signatures._wordnet import WordNet

#: Number of classes in each list.
_SIZES = {"1k": 1000, "21k": 21_841, "unseen": 20_842}
#: Files of timm, and of the published split.
_FILES = {
    "1k": ("imagenet_synsets.txt", "seen.txt"),
    "21k": ("imagenet22k_synsets.txt",),
    "unseen": ("all-unseen.txt",),
}
#: The only class of ILSVRC 2012 that is not in the 2011 release.
_ONLY_IN_1K = "n04399382"
_ANIMAL = "n00015388"


def imagenet_classes(
    which: str | os.PathLike[str] = "1k",
    folder: str | os.PathLike[str] | None = None,
    *,
    wordnet: WordNet | None = None,
) -> list[str]:
    """List ImageNet's classes by wnid, from text files of the timm package or your own.

    Parameters
    ----------
    which : {"1k", "21k", "unseen", "2-hop", "3-hop"} or path, default="1k"
        The 1,000 classes of ILSVRC 2012, in label order; the 21,841 classes of the 2011 release;
        the 20,842 of these that are not among the 1,000; those of them near a seen class; or a text
        file with one wnid per line.
    folder : path or None, default=None
        A folder with timm's files ``imagenet_synsets.txt`` and ``imagenet22k_synsets.txt``, or
        with ``seen.txt`` and ``all-unseen.txt``, one wnid per line. None: the installed package
        timm (which is not imported), else the folder ``imagenet`` of ``ZSLEARN_DATA``.
    wordnet : WordNet or None, default=None
        WordNet 3.0, for the hop sets; None loads it.

    Returns
    -------
    list of str
        The wnids without duplicates.

    See Also
    --------
    zslearn.signatures.WordNet : Names and glosses of the classes.

    Notes
    -----
    In the literature, "2-hop" means at most one link from a seen class and "3-hop" at most two, in
    ImageNet's own tree. :ref:`signature_sources` describes how that tree is derived from WordNet
    and how closely the result matches the published lists.
    """
    if found := re.fullmatch(r"([2-9])-hop", str(which)):
        seen, unseen = imagenet_classes("1k", folder), imagenet_classes("unseen", folder)
        return _near_classes(
            WordNet() if wordnet is None else wordnet, seen, unseen, int(found[1]) - 1
        )
    if which in _SIZES:
        return _listed(str(which), folder)
    path = Path(which)
    if not path.is_file():
        raise FileNotFoundError(
            f"{plain(path)}: there is no such file or list of wnids; the lists are "
            f"{', '.join(_SIZES)}, 2-hop and 3-hop."
        )
    wnids = read_lines(path)
    if not wnids:
        raise ValueError(f"{plain(path)} is empty; give one wnid per line.")
    return list(dict.fromkeys(wnids))


def _listed(which: str, folder: str | os.PathLike[str] | None) -> list[str]:
    """Read a list of known length from its file, or derive it from two others."""
    if folder is not None:
        start = Path(folder).expanduser()
        places = [start, start / "timm" / "data" / "_info", start / "imagenet"]
    else:
        spec = importlib.util.find_spec("timm")  # without importing it
        found = (spec.submodule_search_locations or []) if spec else []
        places = [*(Path(place) / "data" / "_info" for place in found), data_home() / "imagenet"]
    lists: dict[str, list[str]] = {}
    for name, files in _FILES.items():
        paths = [place / file for place in places for file in files if (place / file).is_file()]
        if paths and (name == which or which != "1k"):
            wnids = lists[name] = read_lines(paths[0])
            if len(set(wnids)) != len(wnids) or len(wnids) != _SIZES[name]:
                raise ValueError(
                    f"{plain(paths[0])} gives {len(set(wnids))} different classes in {len(wnids)} "
                    f"lines; ImageNet's list {name!r} has {_SIZES[name]}."
                )
    if which == "unseen" and lists.keys() >= {"1k", "21k"}:
        known = set(lists["1k"])
        return [wnid for wnid in lists["21k"] if wnid not in known]
    if which in lists:
        return lists[which]
    if which == "21k" and lists.keys() >= {"1k", "unseen"}:
        return [*(wnid for wnid in lists["1k"] if wnid != _ONLY_IN_1K), *lists["unseen"]]
    where = "" if folder is None else f"{plain(folder)}: "
    raise FileNotFoundError(
        f"{where}ImageNet's class lists were not found. Install timm (pip install timm; it is not "
        f"imported), or give a folder with {_FILES['1k'][0]} and {_FILES['21k'][0]}, or put "
        f"{_FILES['1k'][1]} and {_FILES['unseen'][0]} into the folder imagenet of {DATA_VARIABLE}."
    )


def _near_classes(
    wordnet: WordNet, seen: list[str], candidates: list[str], n_links: int
) -> list[str]:
    """Return the candidates within `n_links` of a seen class, in either direction.

    ImageNet's own tree has a node "misc" above all classes outside its main branches, and a link
    from a seen class to the animals, which WordNet lacks.
    """
    classes = [*seen, *candidates]
    graph = imagenet_graph(wordnet, classes)
    inside = imagenet_branches(wordnet)
    links = [(wnid, "misc") for wnid in classes if wnid not in inside]
    graph = ClassGraph.from_tree([*graph.pairs(), *links, (seen[0], _ANIMAL)])
    sources, targets = graph.find(seen, "seen"), graph.find(candidates, "candidates")
    distance = dijkstra(
        graph.adjacency(), directed=False, indices=sources, unweighted=True, min_only=True
    )
    return [label for label, at in zip(candidates, targets, strict=True) if distance[at] <= n_links]


def populated_classes(
    counts: Mapping[Any, int] | pd.Series,
    n_classes: int,
    *,
    which: Literal["most", "least"] = "most",
    classes: Iterable[Any] | None = None,
) -> list[Any]:
    """List the classes with the most or fewest images, on which the paper tests.

    Parameters
    ----------
    counts : mapping or Series
        Label → number of images.
    n_classes : int
        How many classes to list.
    which : {"most", "least"}, default="most"
        Classes with the most or the fewest images; classes without images are excluded.
    classes : iterable or None, default=None
        The classes to choose among, for example the unseen ones; None: all in `counts`.

    Returns
    -------
    list
        Sorted from the most, or the fewest, images; ties are sorted by label.

    Examples
    --------
    >>> from zslearn.datasets import populated_classes
    >>> populated_classes({"cat": 7, "dog": 9, "yak": 0, "owl": 7, "emu": 2}, 3)
    ['dog', 'cat', 'owl']
    >>> populated_classes({"cat": 7, "dog": 9, "yak": 0, "owl": 7, "emu": 2}, 1, which="least")
    ['emu']
    """
    if which not in ("most", "least"):
        raise ValueError(f"which={which!r} must be 'most' or 'least'.")
    if not isinstance(n_classes, (int, np.integer)) or n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r} must be an integer of at least 1.")
    series = counts if isinstance(counts, pd.Series) else pd.Series(dict(counts))
    if not series.index.is_unique:
        twice = series.index[series.index.duplicated()].unique()
        raise ValueError(f"counts names {name_some(twice)} more than once.")
    numbers = pd.to_numeric(series, errors="coerce")
    wrong = series.index[~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers)))]
    if len(wrong):
        raise ValueError(f"counts has no valid number of images for {name_some(wrong)}.")
    counted = numbers.astype(np.int64)
    among = list(counted.index) if classes is None else list(classes)
    unknown = [label for label in among if label not in counted.index]
    if unknown:
        raise ValueError(
            f"counts lacks {len(unknown)} of the {len(among)} classes: {name_some(unknown)}."
        )
    chosen = counted.loc[among]
    chosen = chosen[chosen > 0]
    if len(chosen) < n_classes:
        raise ValueError(f"Only {len(chosen)} classes have images; n_classes={n_classes}.")
    sign = -1 if which == "most" else 1
    return sorted(chosen.index, key=lambda label: (sign * chosen[label], label))[:n_classes]
