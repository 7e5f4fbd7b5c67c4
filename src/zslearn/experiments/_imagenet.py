"""The paper's experiments on ImageNet (Tables 4 and 7 to 12), on features that you provide.

Test sets are measured block by block, so that memory holds only one block of rows. Records also
contain the data of Figures 6 and 7: accuracies of single classes, and overlaps of nearest classes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import unit_rows
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._progress import Say
from zslearn.base import ClassScorer
from zslearn.datasets import (
    ClassShards,
    imagenet_classes,
    populated_classes,
    read_signature_table,
)
from zslearn.experiments._records import is_record, write_record
from zslearn.experiments.analyses._classes import signature_rows
from zslearn.experiments.analyses._exemplars import compare_distances, n_neighbours
from zslearn.metrics import HitCounts, hierarchical_precision_at_k
from zslearn.model_selection import (
    ClassKFold,
    Method,
    TuningOptions,
    ZeroShotSearchCV,
    find_method,
)
from zslearn.networks import DGP, GCNZ, SGCN
from zslearn.signatures import ClassGraph, MultiSignatures, WordNet, class_graph

FLAT_KS = (1, 2, 5, 10, 20)
HIERARCHICAL_KS = (2, 5, 10, 20)
# Number of predictions that are collected before their hierarchical precision is computed.
_WAITING = 100_000

#: Methods of the paper's ImageNet tables, and the graph methods that it compares to.
IMAGENET_METHODS = (
    "SynC o-vs-o",
    "SynC struct",
    "EXEM (SynC o-vs-o)",
    "EXEM (SynC struct)",
    "EXEM (1NN)",
    "EXEM (1NNs)",
    "GCNZ",
    "SGCN",
    "DGP",
)
#: Folder of records → the tables they fill.
IMAGENET_TABLES = {
    "whole": ("imagenet", "semantic", "imagenet_best", "imagenet_fk", "hie", "per_sample"),
    "half": ("ideal",),
}
#: Sizes of the sets of most and least populated classes, and their names.
_POPULATED = {500: "500", 1000: "1K", 5000: "5K"}
#: Weights of two kinds of signatures to try.
_WEIGHTS = ((0.25, 0.75), (0.5, 0.5), (0.75, 0.25))
#: SynC's ridges to try, except with the paper's grids: among a thousand seen classes many
#: signatures are nearly equal, especially those of the hierarchy.
_RIDGES = (0.0, 1e-8, 1e-6, 1e-4)


class SetMeasure:
    """Hits and hierarchical precisions of a test set, whose classes are also the candidates.

    Without a `hierarchy` of child–parent pairs there are only hits.
    """

    def __init__(self, classes: Sequence[str], hierarchy: pd.DataFrame | None) -> None:
        self.classes, self.hierarchy = np.sort(np.asarray(classes)), hierarchy
        n_classes = len(self.classes)
        self._ks = [k for k in FLAT_KS if k <= n_classes]
        self._deep_ks = [k for k in HIERARCHICAL_KS if k <= n_classes and hierarchy is not None]
        self.counts = HitCounts(
            self.classes, np.zeros(n_classes), np.zeros((n_classes, self._ks[-1]))
        )
        self._deep = np.zeros(len(self._deep_ks))
        self._waiting: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def add(self, scorer: ClassScorer, X: NDArray[Any], y: NDArray[Any]) -> None:
        """Add the rows of a block whose class is in the set."""
        inside = np.isin(y, self.classes)
        if not inside.any():
            return
        y = y[inside]
        top, _ = scorer.top_k(X[inside], self._ks[-1], self.classes)
        self.counts += HitCounts.of(y, top)
        if self._deep_ks:
            self._waiting.append((y, top))
            if sum(len(labels) for labels, _ in self._waiting) >= _WAITING:
                self._flush()

    def _flush(self) -> None:
        if self._waiting and self.hierarchy is not None:
            true, top = map(np.concatenate, zip(*self._waiting, strict=True))
            precision = hierarchical_precision_at_k(
                true, top, self._deep_ks, hierarchy=self.hierarchy, classes=self.classes
            )
            self._deep += np.asarray(precision) * len(true)
            self._waiting = []

    def metrics(self) -> dict[str, float]:
        """Metrics of all rows added so far."""
        n_rows = self.counts.n_samples.sum()
        if not n_rows:
            return {}
        self._flush()
        found = self.counts.measure(self._ks)
        del found["n_samples"]
        found["flat_hit_at_1"] = found["per_sample_accuracy"]
        deep = zip(self._deep_ks, self._deep, strict=True)
        return found | {f"hierarchical_precision_at_{k}": float(v / n_rows) for k, v in deep}

    def per_class(self) -> dict[str, float]:
        """Accuracies of the classes with rows, rounded to the precision of records."""
        with_rows = self.counts.n_samples > 0
        shares = self.counts.hits[with_rows, 0] / self.counts.n_samples[with_rows]
        return dict(zip(self.classes[with_rows].tolist(), shares.round(9).tolist(), strict=True))


def read_image_counts(path: str | os.PathLike[str]) -> pd.Series:
    """Read a table of the number of images of each class.

    Parameters
    ----------
    path : path
        Table with the columns wnid and count.

    Returns
    -------
    Series
        Number of images by wnid.
    """
    table = read_signature_table(path)
    if table.shape[1] != 1:
        raise ValueError(
            f"{path}: expected two columns, wnids and counts; it has {table.shape[1] + 1}."
        )
    counts = table.iloc[:, 0]
    if (counts < 0).any():
        raise ValueError(f"{path}: {name_some(counts.index[counts < 0])} has a negative count.")
    return counts


def imagenet_test_sets(
    unseen: Sequence[str],
    *,
    wordnet: WordNet,
    counts: Mapping[str, int] | pd.Series,
    lists: str | os.PathLike[str] | None = None,
) -> dict[str, list[str]]:
    """The paper's test sets, restricted to the available unseen classes."""
    available = set(unseen)
    sets: dict[str, list[str]] = {}
    for hops in (2, 3):
        near = [
            w for w in imagenet_classes(f"{hops}-hop", lists, wordnet=wordnet) if w in available
        ]
        if len(near) > 1:
            sets[f"{hops}-hop"] = near
    table = pd.Series(counts)
    lost = [wnid for wnid in unseen if wnid not in table.index]
    if lost:
        raise ValueError(f"The table of image counts has no row for {name_some(lost)}.")
    for which in ("most", "least"):
        for size, name in _POPULATED.items():
            if size < len(unseen):
                chosen = populated_classes(table, size, which=which, classes=unseen)
                sets[f"{which}-{name}"] = chosen
    sets["all"] = list(unseen)
    return sets


@dataclass(frozen=True)
class _Part:
    """The fields of a data set that tuning reads."""

    X_train: NDArray[Any]
    y_train: NDArray[Any]
    signatures: Any

    def with_signatures(self, signatures: Any) -> _Part:
        """The same rows with other signatures."""
        return replace(self, signatures=signatures)


@dataclass
class ImageNetBench:
    """The ImageNet experiments on one store of features.

    Parameters
    ----------
    shards : ClassShards
        The features.
    signatures : mapping of str to DataFrame
        Kind of signatures, such as "wv-v1" or "hie" → one row per class. Kinds whose name starts
        with "wv" are also combined with "hie".
    out : Path
        Folder of the records, with the subfolders ``whole``, ``exemplars`` and, for ideal
        signatures, ``half``.
    wordnet : WordNet
        The hierarchy.
    counts : mapping or Series, optional
        Number of images of each class; by default the rows of the shards.
    lists : path, optional
        Folder of ImageNet's lists of classes.
    features : str, default="own"
        Name of the features.
    per_class : int or None, default=100
        Most training rows of a seen class.
    grid, n_folds, seed
        Grid to search and number of folds; `seed` selects rows, folds and halves.
    settings : mapping, optional
        Method → hyper-parameters to set before tuning, such as the epochs of a network.
    n_jobs, say
        See :func:`run_benchmark`.
    """

    shards: ClassShards
    signatures: Mapping[str, pd.DataFrame]
    out: Path
    wordnet: WordNet
    counts: Mapping[str, int] | pd.Series | None = None
    lists: str | os.PathLike[str] | None = None
    features: str = "own"
    per_class: int | None = 100
    grid: str = "fast"
    n_folds: int = 5
    seed: int = 0
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    n_jobs: int | None = None
    say: Say = lambda text: None

    def __post_init__(self) -> None:
        if not self.signatures:
            raise ValueError(
                "There are no signatures: pass at least one table with one row per class."
            )
        seen = [wnid for wnid in imagenet_classes("1k", self.lists) if wnid in self.shards]
        described = set.intersection(*(set(table.index) for table in self.signatures.values()))
        undescribed = [wnid for wnid in seen if wnid not in described]
        if undescribed:
            warn_user(
                f"{len(undescribed)} of {len(seen)} seen classes lack a kind of signatures and are "
                f"not trained on: {name_some(undescribed)}."
            )
        self.seen = [wnid for wnid in seen if wnid in described]
        if len(self.seen) < self.n_folds * 2:
            raise ValueError(
                f"{self.shards.path} has rows of {len(self.seen)} seen classes with signatures; "
                f"cross-validation over {self.n_folds} folds needs {2 * self.n_folds}."
            )
        is_seen = set(seen)
        self.unseen = [w for w in self.shards.classes if w not in is_seen and w in described]
        bare = [w for w in self.shards.classes if w not in is_seen and w not in described]
        if bare:
            warn_user(
                f"{len(bare)} unseen classes lack a kind of signatures and are omitted: "
                f"{name_some(bare)}."
            )
        if len(self.unseen) < 2:
            raise ValueError(f"{self.shards.path} has rows of fewer than two unseen classes.")
        counts = self.shards.counts if self.counts is None else self.counts
        self.sets = imagenet_test_sets(
            self.unseen, wordnet=self.wordnet, counts=counts, lists=self.lists
        )
        self.graph: ClassGraph = class_graph(self.wordnet, [*self.seen, *self.unseen])
        nodes = self.graph.nodes
        # Searched in addition to the grid of the method.
        self._extra_values = {} if self.grid.startswith("paper") else {"ridge": _RIDGES}
        self.pairs = pd.DataFrame(
            [(nodes[c], nodes[p]) for c, p in self.graph.edges.tolist()],
            columns=["child", "parent"],
        )

    def kinds(self) -> dict[str, Any]:
        """Kinds of signatures by their names in tables, including words with the hierarchy."""
        wanted = [*self.seen, *self.unseen]
        made: dict[str, Any] = {
            name: table.loc[wanted].astype(np.float64) for name, table in self.signatures.items()
        }
        for name in [kind for kind in made if kind.startswith("wv") and "hie" in made]:
            made[f"{name} + hie"] = MultiSignatures({name: made[name], "hie": made["hie"]})
        return made

    def ideal_signatures(self) -> pd.DataFrame:
        """Mean features of all rows of seen classes, and of half the rows of unseen classes."""
        means = {wnid: unit_rows(self.shards.rows(wnid)).mean(axis=0) for wnid in self.seen}
        for wnid in self.unseen:
            first, _ = self.shards.halves(wnid, self.seed)
            if len(first):
                means[wnid] = unit_rows(self.shards.rows(wnid)[first]).mean(axis=0)
        return pd.DataFrame.from_dict(means, orient="index").astype(np.float64)

    def _halves(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """The other half of the rows of each unseen class, which ideal signatures are tested on."""
        for wnid in self.unseen:
            first, second = self.shards.halves(wnid, self.seed)
            # A class with one row has no ideal signature.
            if len(first):
                yield self.shards.rows(wnid)[second], np.full(len(second), wnid)

    def run(self, methods: Sequence[str] = IMAGENET_METHODS, *, ideal: bool = True) -> list[Path]:
        """Tune, fit and measure methods with every kind of signatures.

        Parameters
        ----------
        methods : sequence of str
            Names accepted by :func:`~zslearn.model_selection.find_method`.
        ideal : bool, default=True
            Whether to include Table 9: ideal signatures, compared to the last of the other kinds
            on half of the rows of unseen classes.

        Returns
        -------
        list of Path
            The records.
        """
        chosen = [find_method(name) for name in methods]
        X, y = self.shards.sample(self.seen, self.per_class, self.seed)
        files = self._compare_signatures()
        kinds = self.kinds()
        best_kind = list(kinds)[-1]
        for kind, signatures in kinds.items():
            for method in chosen:
                folders = ["whole", *(["half"] if ideal and kind == best_kind else [])]
                files += self._measure(method, kind, _Part(X, y, signatures), folders)
        if ideal:
            self.say("averaging the rows of each class")
            table = self.ideal_signatures()
            for method in chosen:
                files += self._measure(method, "ideal", _Part(X, y, table), ["half"])
        return files

    def _compare_signatures(self) -> list[Path]:
        """Compare distances between signatures with those between exemplars, for each test set."""
        # Nearest classes need at least three classes.
        sets = {name: classes for name, classes in self.sets.items() if len(classes) > 2}
        paths = {
            (kind, subset): self._path("exemplars", None, kind, subset)
            for kind in self.signatures
            for subset in sets
        }
        if all(is_record(path) for path in paths.values()):
            return list(paths.values())
        self.say("comparing signatures with exemplars")
        real = {wnid: unit_rows(self.shards.rows(wnid)).mean(axis=0) for wnid in self.unseen}
        for (kind, subset), path in paths.items():
            rows = signature_rows(self.signatures[kind], sets[subset])
            found = compare_distances(rows, np.stack([real[wnid] for wnid in sets[subset]]))
            # The kind is the row of the table.
            origin = {**self._origin(None, kind, subset), "semantic": "", "analysis": "exemplars"}
            write_record({**origin, "variant": f"k={n_neighbours(len(rows))}", **found}, path)
        return list(paths.values())

    def _measure(self, method: Any, kind: str, part: _Part, folders: Sequence[str]) -> list[Path]:
        """Write the records of a method with a kind of signatures, unless they exist."""
        paths = {
            (folder, subset): self._path(folder, method, kind, subset)
            for folder in folders
            for subset in self.sets
        }
        if all(is_record(path) for path in paths.values()):
            return list(paths.values())
        self.say(f"{method.name} with {kind}")
        start = time.perf_counter()
        search = self._tune(method, part)
        seconds = time.perf_counter() - start
        described = set(search.classes_.tolist())
        sets = {
            name: [wnid for wnid in classes if wnid in described]
            for name, classes in self.sets.items()
        }
        for folder in folders:
            blocks = self.shards.blocks(self.unseen) if folder == "whole" else self._halves()
            measures = {name: SetMeasure(of, self.pairs) for name, of in sets.items()}
            for X, y in blocks:
                for measure in measures.values():
                    measure.add(search.class_scorer_, X, y)
            for subset, measure in measures.items():
                record = {
                    **self._origin(method, kind, subset),
                    "metrics": measure.metrics(),
                    "n_classes": len(measure.classes),
                    "n_rows": int(measure.counts.n_samples.sum()),
                    "hyper_parameters": {k: repr(v) for k, v in search.best_params_.items()},
                    "times": {"tune": seconds},
                    **(self._by_class(measure) if (folder, subset) == ("whole", "all") else {}),
                }
                write_record(record, paths[folder, subset])
        return list(paths.values())

    def _by_class(self, measure: SetMeasure) -> dict[str, Any]:
        """Accuracies of all unseen classes, and those within two and three hops."""
        per_class = measure.per_class()
        two, three = (set(self.sets.get(name, ())) & set(per_class) for name in ("2-hop", "3-hop"))
        groups = {"2-hop": sorted(two), "pure 3-hop": sorted(three - two)}
        return {"per_class": per_class, "groups": groups}

    def _tune(self, method: Method, part: _Part) -> ZeroShotSearchCV:
        """Tune a method on seen classes, including the weights of combined signatures."""
        estimator = method.make()
        if isinstance(estimator, (GCNZ, SGCN, DGP)):
            estimator.set_params(hierarchy=self.graph)
        estimator.set_params(**self.settings.get(method.name, {}))
        folds = ClassKFold(self.n_folds, random_state=self.seed)
        options = TuningOptions(
            "zsl", self.grid, folds, n_jobs=self.n_jobs, extra_values=self._extra_values
        )
        return method.search(part, options, estimator, weights=_WEIGHTS)

    def _origin(self, method: Any, kind: str, subset: str) -> dict[str, Any]:
        return {
            "schema": 1,
            "dataset": "ImageNet",
            "split": "ss",
            "split_version": f"{len(self.seen)} seen, {len(self.unseen)} unseen",
            "features": self.features,
            "method": kind if method is None else method.name,
            "setting": "zsl",
            "subset": subset,
            "semantic": kind,
            "grid": self.grid,
            "seed": self.seed,
        }

    def _path(self, folder: str, method: Any, kind: str, subset: str) -> Path:
        tables = [self.signatures[part] for part in kind.split(" + ") if part in self.signatures]
        key = fingerprint(
            self._origin(method, kind, subset),
            None if method is None else method.definition(),
            {} if method is None else dict(self.settings.get(method.name, {})),
            self._extra_values,
            self.per_class,
            self.n_folds,
            [*self.seen, *self.unseen],
            [table.to_numpy() for table in tables],
            source_digest(),
        )
        return self.out / folder / f"{key[:24]}.json"
