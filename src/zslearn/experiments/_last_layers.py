"""A benchmark on real networks: predict the last-layer rows of held-out classes.

The last layer of a network has one row per class. Of the 1,000 classes of ILSVRC some are held out,
and their rows are predicted from signatures by methods trained on the rows of the other classes.
The true row of a held-out class is its test sample: it is recognised if the nearest predicted row
is that of its class. This tests classes, not images, and the network was trained on all of them.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import did_you_mean
from zslearn._utils._progress import Say
from zslearn.baselines import ESZSL
from zslearn.datasets import imagenet_classes, load_glove, load_last_layer
from zslearn.experiments._records import is_record, read_records, write_record
from zslearn.model_selection import WeightedViews, ZeroShotSearchCV
from zslearn.networks import DGP, GCNZ, SGCN
from zslearn.signatures import (
    ClassGraph,
    MultiSignatures,
    WordNet,
    class_graph,
    encode_text,
    hierarchy_distances,
    hierarchy_signatures,
    imagenet_graph,
    word_signatures,
)
from zslearn.synthesis import EXEM, SynC

#: Kind of signatures → the tables it combines.
TRACK_SIGNATURES: dict[str, tuple[str, ...]] = {
    "words": ("words",),
    "text": ("text",),
    "hie": ("hie",),
    "words + hie": ("words", "hie"),
    "words + text + hie": ("words", "text", "hie"),
}
#: Graphs for graph methods: the classes with their ancestors, or ImageNet's own structure.
TRACK_GRAPHS = ("near", "whole")
#: Width of the hierarchy vectors.
_HIE_WIDTH = 200


@dataclass(frozen=True)
class _Inputs:
    """A network, its classes and their signatures.

    `rows` are last-layer rows without intercepts, one per class; `tree` has the classes and their
    ancestors up to one root; `graph` is the one graph methods propagate over. `signatures` maps
    "words", "text" or "hie" to one row per class, and per further node of the graph if known: other
    nodes get the mean over the classes below them. `names` maps classes to readable names.
    """

    network: str
    rows: pd.DataFrame
    tree: ClassGraph
    graph: ClassGraph
    signatures: Mapping[str, pd.DataFrame]
    names: Mapping[str, str]

    @classmethod
    def read(cls, network: str, kinds: Sequence[str], graph: str, **options: Any) -> _Inputs:
        """Read a network, WordNet and word vectors, and compute the signatures."""
        rows = load_last_layer(network, **options).iloc[:, :-1]
        wordnet = WordNet()
        tree = class_graph(wordnet, rows.index)
        whole = graph == "whole"
        links = imagenet_graph(wordnet, imagenet_classes("21k")) if whole else tree
        described = links.nodes if whole else rows.index.tolist()
        needed = dict.fromkeys(part for kind in kinds for part in TRACK_SIGNATURES[kind])
        tables = {part: _table_of(part, wordnet, described, options) for part in needed}
        names = {wnid: wordnet.names(wnid)[0] for wnid in rows.index}
        return cls(network, rows, tree, links, tables, names)

    def of_kind(self, kind: str, *, nodes: bool = False) -> pd.DataFrame | MultiSignatures:
        """Signatures of a kind, combined with equal weights if there are several tables."""
        tables = [self.signatures[part] for part in TRACK_SIGNATURES[kind]]
        labels = self.rows.index.tolist()
        if nodes:
            shared = set.intersection(*(set(table.index) for table in tables)) - set(labels)
            labels += [node for node in self.graph.nodes if node in shared]
        views = {
            part: table.loc[labels]
            for part, table in zip(TRACK_SIGNATURES[kind], tables, strict=True)
        }
        return MultiSignatures(views) if len(views) > 1 else views[TRACK_SIGNATURES[kind][0]]


def _table_of(
    part: str, wordnet: WordNet, wnids: Sequence[str], options: Mapping[str, Any]
) -> pd.DataFrame:
    if part == "words":
        return words_of_classes(wordnet, wnids, **options)
    if part == "hie":
        return hierarchy_signatures(wordnet, wnids, n_components=_HIE_WIDTH)
    texts = [wordnet.description(wnid) for wnid in wnids]
    return pd.DataFrame(encode_text(texts), index=list(wnids))


def words_of_classes(
    wordnet: WordNet,
    wnids: Sequence[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    fetch: bool = False,
) -> pd.DataFrame:
    """Mean GloVe vectors of the names of classes, or of their nearest ancestors with vectors."""
    above = {wnid: [wnid, *wordnet.ancestors(wnid)] for wnid in wnids}
    every = list(dict.fromkeys(name for path in above.values() for name in path))
    names = {wnid: wordnet.names(wnid) for wnid in every}
    words = {
        word
        for synonyms in names.values()
        for name in synonyms
        for word in (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
    }
    vectors = load_glove(words, folder, fetch=fetch)
    with warnings.catch_warnings():
        # Classes without a vector get that of an ancestor below.
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ classes have no word vector")
        table = word_signatures(names, vectors)
    rows = {
        wnid: table.loc[next(name for name in path if name in table.index)].to_numpy()
        for wnid, path in above.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


# Methods and a baseline.


def mean_of_neighbours(
    graph: ClassGraph, X: Floats, seen: NDArray[Any], unseen: NDArray[Any]
) -> Floats:
    """The baseline: predict the mean row of the nearest seen classes in the graph."""
    links = np.asarray(hierarchy_distances(graph, unseen.tolist(), seen.tolist()))
    nearest = links == links.min(axis=1, keepdims=True)
    return unit_rows(nearest @ unit_rows(X) / nearest.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class TrackMethod:
    """A method with its fixed hyper-parameters and its grid.

    Graph methods are not tuned. Their `settings` belong to the recipe "short", since their defaults
    are the published values.
    """

    kind: type[Any]
    settings: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def over_graph(self) -> bool:
        """Whether it is a graph method."""
        return issubclass(self.kind, (GCNZ, SGCN, DGP))

    def make(self, graph: ClassGraph, recipe: str = "short") -> Any:
        """Create the unfitted method."""
        if not self.over_graph:
            return self.kind(**self.settings)
        settings = self.settings if recipe == "short" else {}
        # The last-layer rows are the samples, and their class means the targets.
        return self.kind(graph, "mean", graph="all", **settings)

    def fit(self, estimator: Any, X: Floats, y: NDArray[Any], signatures: Any) -> Any:
        """Tune what was made on held-out seen classes, then fit it on all seen classes."""
        if self.over_graph:
            # Single precision suffices for networks.
            return estimator.fit(X.astype(np.float32), y, signatures=signatures)
        search = ZeroShotSearchCV(estimator, self.grid, cv=3)
        search.fit(X, y, signatures=signatures)
        if not isinstance(signatures, MultiSignatures):
            return search
        chosen = WeightedViews(clone(estimator).set_params(**search.best_params_))
        weighed = ZeroShotSearchCV(chosen, {"weights": _weights(len(signatures.views))}, cv=3)
        weighed.fit(X, y, signatures=signatures)
        weighed.best_params_ = {**search.best_params_, **weighed.best_params_}
        return weighed


def _weights(n_views: int) -> list[tuple[float, ...]]:
    """Weights of several kinds to try: equal weights, or 1/2 or 3/4 for one kind."""
    tried = {(1 / n_views,) * n_views: None}
    for share in (0.5, 0.75):
        for heavy in range(n_views):
            rest = (1 - share) / (n_views - 1)
            tried[tuple(share if i == heavy else rest for i in range(n_views))] = None
    return list(tried)


#: How graph methods are trained: for minutes on a CPU, or as published.
TRACK_RECIPES = ("short", "published")
#: Methods of the benchmark.
TRACK_METHODS: dict[str, TrackMethod] = {
    "ESZSL": TrackMethod(
        ESZSL,
        {},
        {
            "alpha_features": [10.0**k for k in range(-1, 3)],
            "alpha_signatures": [10.0**k for k in range(-2, 2)],
        },
    ),
    "SynC o-vs-o": TrackMethod(
        SynC,
        {"tol": 1e-2},
        {
            "alpha": [2.0**k for k in (-12, -8, -4)],
            "gamma": [2.0**k for k in range(-3, 3)],
            "ridge": [0.0, 1e-8, 1e-6, 1e-4],
        },
    ),
    "EXEM (1NN)": TrackMethod(
        EXEM,
        {"n_components": 200, "tol": 1e-2},
        {"C": [0.125, 1.0, 8.0], "nu": [0.5], "gamma": [2.0**k for k in range(-5, 4, 2)]},
    ),
    "GCNZ": TrackMethod(GCNZ, {"hidden_sizes": (512, 256), "max_iter": 60}),
    "SGCN": TrackMethod(SGCN, {"hidden_size": 512, "max_iter": 100}),
    "DGP": TrackMethod(DGP, {"hidden_size": 512, "max_iter": 100}),
}

BASELINE = "mean of neighbours"
_KS = (1, 5)
#: Number of epochs whose loss a record keeps.
_LOSSES = 11


@dataclass(frozen=True)
class LastLayers:
    """Results of :func:`run_last_layers`.

    `table` has one row per method and kind of signatures: mean hit@1 and hit@5 over the class
    splits, the number of splits, and standard deviations over the splits. `neighbours` lists for
    some held-out classes of the first split the seen classes whose rows are nearest to the true and
    to the predicted row. `files` are the records.
    """

    table: pd.DataFrame
    neighbours: pd.DataFrame
    files: list[Path]


@dataclass(frozen=True)
class _Split:
    """Rows of seen and held-out classes minus the mean of the seen ones, and fields of records."""

    X: Floats
    seen: NDArray[Any]
    X_unseen: Floats
    unseen: NDArray[Any]
    origin: Mapping[str, Any]

    @classmethod
    def of(cls, inputs: _Inputs, n_held_out: int, seed: int) -> _Split:
        """Hold out classes at random."""
        rows = inputs.rows
        order = np.random.default_rng(seed).permutation(len(rows))
        unseen, seen = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
        X, labels = rows.to_numpy(), rows.index.to_numpy(dtype=str)
        # Predictions of the network do not change if a vector is added to all rows.
        X = X - X[seen].mean(axis=0)
        origin = {
            "schema": 1,
            "dataset": "ImageNet last layers",
            "split": f"classes-{seed}",
            "split_version": f"{n_held_out} of {len(rows)}, seed {seed}",
            "features": inputs.network,
            "setting": "zsl",
            "seed": seed,
        }
        return cls(X[seen], labels[seen], X[unseen], labels[unseen], origin)

    def record(self, method: str, kind: str, top: NDArray[Any]) -> dict[str, Any]:
        """The record of the best predictions of each row."""
        right = top == self.unseen[:, None]
        metrics = {f"flat_hit_at_{k}": float(right[:, :k].any(axis=1).mean()) for k in _KS}
        return {**self.origin, "method": method, "semantic": kind, "metrics": metrics}


def run_last_layers(
    out: str | os.PathLike[str],
    *,
    network: str = "efficientnet_lite0",
    methods: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    n_splits: int = 3,
    n_held_out: int = 200,
    seed: int = 0,
    recipe: str = "short",
    graph: str = "near",
    packages: str | os.PathLike[str] | None = None,
    fetch: bool = False,
    say: Say = lambda text: None,
) -> LastLayers:
    """Predict the last-layer rows of held-out ImageNet classes, and measure how well.

    Hyper-parameters, and then the weights of combined signatures, are chosen by class-wise
    cross-validation on the other classes; graph methods are not tuned. Existing records are kept.

    Parameters
    ----------
    out : path
        Folder for the records.
    network : str, default="efficientnet_lite0"
        See :func:`~zslearn.datasets.load_last_layer`.
    methods, kinds : sequence of str, optional
        Some of `TRACK_METHODS` and of `TRACK_SIGNATURES`; by default all. The baseline is always
        included.
    n_splits, n_held_out, seed : int
        Number of class splits and of held-out classes in each; split i uses the seed ``seed + i``.
    recipe : {"short", "published"}, default="short"
        Widths and epochs of graph methods: some that take minutes on a CPU, or the published ones.
    graph : {"near", "whole"}, default="near"
        Graph for graph methods: the 1,000 classes and their ancestors, or ImageNet's structure of
        32,324 nodes, all with signatures.
    packages, fetch
        `folder` and `fetch` of :func:`~zslearn.datasets.load_last_layer`.
    say : callable
        Called with a line of text before each step.

    Returns
    -------
    LastLayers
        The results.
    """
    methods = list(TRACK_METHODS if methods is None else methods)
    for name in [name for name in methods if name not in TRACK_METHODS]:
        near = did_you_mean(name, TRACK_METHODS)
        raise ValueError(f"Unknown method {name!r}.{near} Choose from {', '.join(TRACK_METHODS)}.")
    kinds = list(TRACK_SIGNATURES) if kinds is None else list(kinds)
    if unknown := [kind for kind in kinds if kind not in TRACK_SIGNATURES]:
        raise ValueError(
            f"Unknown signatures {unknown[0]!r}; choose from {', '.join(TRACK_SIGNATURES)}."
        )
    if not 2 <= n_held_out <= 990:
        raise ValueError(f"n_held_out={n_held_out} must be between 2 and 990.")
    if n_splits < 1:
        raise ValueError(f"n_splits={n_splits} must be positive.")
    if recipe not in TRACK_RECIPES or graph not in TRACK_GRAPHS:
        raise ValueError(
            f"recipe must be one of {TRACK_RECIPES} and graph one of {TRACK_GRAPHS}; got "
            f"{recipe!r} and {graph!r}."
        )
    say("computing the signatures")
    inputs = _Inputs.read(network, kinds, graph, folder=packages, fetch=fetch)
    folder = Path(out) / inputs.network
    files = []
    for number in range(n_splits):
        split = _Split.of(inputs, n_held_out, seed + number)
        files.append(_measure_baseline(folder, split, inputs.tree))
        for kind, method in product(kinds, methods):
            say(f"{inputs.network}, split {number + 1} of {n_splits}: {method} from {kind}")
            files.append(_measure(folder, split, inputs, method, kind, recipe))
    neighbours = _nearest(_Split.of(inputs, n_held_out, seed), inputs, kinds[-1])
    return LastLayers(_summary(files), neighbours, files)


def _measure_baseline(folder: Path, split: _Split, graph: ClassGraph) -> Path:
    made = mean_of_neighbours(graph, split.X, split.seen, split.unseen)
    scores = unit_rows(split.X_unseen) @ made.T
    top = split.unseen[np.argsort(-scores, axis=1, kind="stable")[:, : max(_KS)]]
    key = fingerprint(dict(split.origin))[:8]
    path = folder / f"{split.origin['split']}-baseline-{key}.json"
    write_record(split.record(BASELINE, "hie", top), path)
    return path


def _measure(
    folder: Path, split: _Split, inputs: _Inputs, method: str, kind: str, recipe: str
) -> Path:
    """Write the record of a method, unless it exists."""
    track = TRACK_METHODS[method]
    signatures = inputs.of_kind(kind, nodes=track.over_graph)
    estimator = track.make(inputs.graph, recipe)
    depends = dict(split.origin), method, kind, estimator, track.grid, signatures, source_digest()
    path = folder / f"{split.origin['split']}-{fingerprint(*depends)[:12]}.json"
    if is_record(path):
        return path
    start = time.perf_counter()
    with warnings.catch_warnings():
        # scikit-learn suspects a regression task, since every class has one sample.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = track.fit(estimator, split.X, split.seen, signatures)
    top, _ = model.predict_top_k(split.X_unseen, max(_KS), classes=split.unseen)
    record = {
        **split.record(method, kind, top),
        "hyper_parameters": {k: repr(v) for k, v in getattr(model, "best_params_", {}).items()},
        "times": {"fit": time.perf_counter() - start},
        **(_training(model, recipe) if track.over_graph else {}),
    }
    write_record(record, path)
    return path


def _training(model: Any, recipe: str) -> dict[str, Any]:
    """Fields of a record about the training of a graph method."""
    while hasattr(model, "estimator_"):
        model = model.estimator_
    epochs = np.unique(np.linspace(0, model.n_iter_ - 1, _LOSSES).astype(int))
    loss = {str(epoch + 1): float(model.loss_curve_[epoch]) for epoch in epochs}
    return {"recipe": recipe, "n_nodes": model.n_nodes_, "loss": loss}


def _summary(files: Sequence[Path]) -> pd.DataFrame:
    """Means and standard deviations over the class splits."""
    grouped = read_records(files).groupby(["semantic", "method", "metric"], sort=False)["value"]
    mean, deviation = (grouped.agg(what).unstack("metric", sort=False) for what in ("mean", "std"))
    return pd.DataFrame(
        {
            "hit@1": mean["flat_hit_at_1"],
            "hit@5": mean["flat_hit_at_5"],
            "splits": grouped.size().unstack("metric", sort=False)["flat_hit_at_1"],
            "deviation of hit@1": deviation["flat_hit_at_1"],
            "deviation of hit@5": deviation["flat_hit_at_5"],
        }
    )


def _nearest(split: _Split, inputs: _Inputs, kind: str) -> pd.DataFrame:
    """Seen classes nearest to some held-out ones, by their true rows and by those of ESZSL."""
    model = TRACK_METHODS["ESZSL"].make(inputs.graph)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model.fit(split.X, split.seen, signatures=inputs.of_kind(kind))
    scorer = model.class_scorer_
    made = pd.DataFrame(np.asarray(scorer.parameters), index=scorer.labels).loc[split.unseen]
    seen = unit_rows(split.X)
    shown = np.linspace(0, len(split.unseen) - 1, 5).astype(int)

    def names(rows: Floats) -> list[str]:
        best = np.argsort(-(unit_rows(rows) @ seen.T), axis=1)[:, :3]
        return [", ".join(inputs.names[w] for w in split.seen[row]) for row in best]

    return pd.DataFrame(
        {
            "held out": [inputs.names[w] for w in split.unseen[shown]],
            "nearest to its row": names(split.X_unseen[shown]),
            "nearest to the predicted row": names(made.to_numpy()[shown]),
        }
    )
