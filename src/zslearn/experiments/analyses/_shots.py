"""From zero to many: the effect of a few labelled images of each unseen class.

`shots` draws k test images of each unseen class, passes them to methods, and tests on the rest.
Gaussian EXEM is fitted with them, or updated with `add_examples`; GDA and Tip-Adapter add a score
from images to that of Gaussian EXEM, so that all start from the same accuracy; images alone are
represented by the nearest mean in a whitened space of Gaussian EXEM, and by logistic regression on
features of unit length. Your own methods are tuned and fitted with the images. Hyper-parameters of
the description are chosen once without images, those of images for each k, on held-out seen classes
with k labelled images. Both are chosen for accuracy in the conventional setting, and for the
harmonic mean in the generalized setting. The harmonic mean is that of the predictions, and for
methods that do not estimate odds of unseen classes, such as GDA and Tip-Adapter, also that at the
calibration factor of their search.

A description is worth as many labelled images as images alone need for the same accuracy: k where
the better of the two reaches it, interpolated over log k.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from zslearn._utils._array import Floats, to_numpy, unit_rows
from zslearn._utils._fit_cache import FitCache
from zslearn.baselines import GDA, TipAdapter
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import (
    GeneralizedScores,
    conventional_metrics,
    generalized_metrics,
)
from zslearn.experiments._protocol import SETTINGS
from zslearn.experiments._runs import (
    FEW_SHOT_WEIGHTS,
    check_measurable,
    chosen_numbers,
    draw_unseen,
)
from zslearn.experiments.analyses._drawing import ACCURACY, draw_lines
from zslearn.experiments.analyses._jobs import Job, JobRunner
from zslearn.metrics import harmonic_mean, per_class_accuracy
from zslearn.model_selection import ClassKFold, Method, ZeroShotSearchCV
from zslearn.synthesis import GaussianEXEM, ideal_signatures

DESCRIBED = "Gaussian EXEM"
ADDED = "Gaussian EXEM (add_examples)"
PEERS: dict[str, Callable[..., Any]] = {"GDA": GDA, "Tip-Adapter": TipAdapter}
NEAREST = "nearest mean (images alone)"
LOGISTIC = "logistic regression (images alone)"
ALONE = (NEAREST, LOGISTIC)
ROWS = (DESCRIBED, ADDED, *PEERS, *ALONE)
#: Default numbers of images of each class.
SHOTS = (0, 1, 2, 5, 10, 20)
#: Number of images that a description is worth; see the module.
WORTH = "images_worth"
_SHRINKAGES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the whitened space of the nearest mean
_PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # C of logistic regression
_FOLD_SEED = 0


def vary_shots(runner: JobRunner, *, shots: int | Sequence[int] | None = None) -> pd.DataFrame:
    """Measure methods with more and more labelled images of the unseen classes."""
    data = runner.data
    fewest = min(np.unique(data.y_test_unseen, return_counts=True)[1], default=1)
    numbers = [k for k in SHOTS if k < fewest]
    numbers = numbers if shots is None else sorted(chosen_numbers(shots, "shots"))
    check_measurable(data, SETTINGS if len(data.y_test_seen) else SETTINGS[:1], max(numbers))
    given = FewShots(runner)

    def compute(method: str, seed: int, k: int) -> dict[str, Any]:
        drawn, rest = draw_unseen(data, k, seed) if k else (np.empty(0, dtype=np.intp), data)
        return {**given.measure(method, k, drawn, rest), "shots": k, "draw": seed}

    frame = runner.run(
        Job(method, seed, partial(compute, method, seed, k), {"shots": k})
        for seed in runner.seeds
        for method in runner.methods
        # Without images, the other methods equal the description or are undefined.
        for k in numbers
        if k or method not in ROWS[1:]
    )
    return pd.concat([frame, worth_rows(frame)], ignore_index=True)


class FewShots:
    """The methods of the analysis, each tuned once per number of images."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner, self._data = runner, runner.data
        self._few_shot_weight = cache(self._find_few_shot_weight)
        self._peer = cache(self._find_peer)
        self._shrinkage = cache(self._find_shrinkage)
        self._whitened = cache(self._whiten)
        self._penalty = cache(self._find_penalty)

    def measure(self, method: str, k: int, drawn: Any, rest: ZeroShotDataset) -> dict[str, Any]:
        """Measure a method with the drawn images on the remaining data."""
        if method == NEAREST:
            return self._nearest_mean(k, drawn, rest)
        if method == LOGISTIC:
            return self._logistic(k, drawn, rest)
        model, chosen, _ = self._given(method, k, drawn, "zsl")
        results = {"metrics": conventional_metrics(model, rest), "hyper_parameters": chosen}
        if len(rest.y_test_seen):
            model, chosen, factor = self._given(method, k, drawn, "gzsl")
            results["generalized_hyper_parameters"] = chosen
            results["metrics"] |= generalized_metrics(model, rest)
            if factor is not None:
                scores = replace(GeneralizedScores.of(model, rest), seen_classes=rest.seen_classes)
                found = scores.measure(factor).items()
                results["metrics"] |= {n: v for n, v in found if n.startswith("calibrated_")}
        return results

    def _given(
        self, method: str, k: int, drawn: Any, setting: str
    ) -> tuple[Any, dict[str, Any], float | None]:
        """A tuned method fitted with images, its hyper-parameters, and the factor of a peer."""
        name = DESCRIBED if method in ROWS else method
        described = self._runner.tune(name, _FOLD_SEED, setting=setting)
        if not k:
            return described.estimator_, dict(described.best_params_), None
        if method in PEERS or method not in ROWS:
            search = self._peer(method, k, setting)
            fitted = self._fit(search.refit, drawn)
            return fitted.estimator_, dict(search.best_params_), fitted.bias_
        chosen = self._few_shot_weight(k, setting)
        if method == ADDED:
            model = copy.deepcopy(described.estimator_).set_params(**chosen)
            return model.add_examples(self._data.X[drawn], self._data.y[drawn]), chosen, None
        model = clone(described.estimator_).set_params(**chosen)
        return self._fit(model.fit, drawn), chosen, None

    def _fit(self, fit: Callable[..., Any], drawn: Any) -> Any:
        """Fit on the training images and the drawn ones."""
        data, rows = self._data, np.concatenate([self._data.active_split.train, drawn])
        # All peers fit the same description on the training images alone.
        with FitCache(self._runner.shared):
            return fit(data.X[rows], data.y[rows], signatures=data.signatures)

    def _find_few_shot_weight(self, k: int, setting: str) -> dict[str, Any]:
        tune = partial(self._runner.tune, DESCRIBED, _FOLD_SEED, setting=setting)
        own = tune().estimator_.get_params(deep=False)
        fixed = {name: value for name, value in own.items() if name != "few_shot_weight"}
        return dict(
            tune(fixed=fixed, also={"few_shot_weight": FEW_SHOT_WEIGHTS}, shots=k).best_params_
        )

    def _find_peer(self, name: str, k: int, setting: str) -> ZeroShotSearchCV:
        """Search of GDA or Tip-Adapter on top of the description, or of your own method."""
        tune = partial(self._runner.tune, seed=_FOLD_SEED, setting=setting)
        if name not in PEERS:
            return tune(name, shots=k)
        # Descriptions are learned from the classes with more than k images.
        peer = partial(PEERS[name], clone(tune(DESCRIBED).estimator_), min_images=k + 1)
        return tune(Method(name, peer), fixed={"min_images": k + 1}, grid="fast", shots=k)

    @property
    def _n_splits(self) -> int:
        return min(self._runner.protocol.n_splits, len(self._data.seen_classes) // 2)

    # Images alone.

    def _folds(self, k: int) -> list[tuple[Any, Any, Any]]:
        """Folds: training images, k images of each held-out class, and its other images."""
        y, train = self._data.y, self._data.active_split.train
        folds = ClassKFold(self._n_splits, shots=k, random_state=_FOLD_SEED).split(None, y[train])
        found = []
        for kept, test in folds:
            few = np.isin(y[train[kept]], y[train[test]])
            found.append((train[kept[~few]], train[kept[few]], train[test]))
        return found

    def _nearest_mean(self, k: int, drawn: Any, rest: ZeroShotDataset) -> dict[str, Any]:
        split, shrinkage = rest.active_split, self._shrinkage(k)
        seen = frozenset(rest.seen_classes.tolist())
        nearest = partial(self._nearest, self._whitened(seen, shrinkage))
        metrics = {ACCURACY: nearest(drawn, split.test_unseen)}
        if len(split.test_seen):
            known = np.concatenate([split.train, drawn])
            pair = [nearest(known, rows) for rows in (split.test_seen, split.test_unseen)]
            metrics |= dict(zip(("seen", "unseen"), pair, strict=True))
            metrics["harmonic"] = float(harmonic_mean(*pair))
        return {"metrics": metrics, "hyper_parameters": {"shrinkage": shrinkage}}

    def _nearest(self, z: Floats, known: Any, rows: Any) -> float:
        """Accuracy of the nearest class mean of known images."""
        y = self._data.y
        means = ideal_signatures(z[known], y[known], feature_norm=None)
        nearest = cdist(z[rows], means, "sqeuclidean").argmin(axis=1)
        return float(per_class_accuracy(y[rows], means.index.to_numpy()[nearest]))

    def _best(self, k: int, values: Sequence[float], accuracy: Callable[..., float]) -> float:
        """The value with the best accuracy on held-out classes, of which k images are known."""
        folds = self._folds(k)
        return max(values, key=lambda value: sum(accuracy(value, *fold) for fold in folds))

    def _find_shrinkage(self, k: int) -> float:
        def accuracy(shrinkage: float, kept: Any, few: Any, test: Any) -> float:
            classes = frozenset(self._data.y[kept].tolist())
            return self._nearest(self._whitened(classes, shrinkage), few, test)

        return self._best(k, _SHRINKAGES, accuracy)

    def _whiten(self, classes: frozenset[Any], shrinkage: float) -> Floats:
        """All samples in the whitened space of some seen classes."""
        data, rows = self._data, self._data.active_split.train
        rows = rows[np.isin(data.y[rows], list(classes))]
        model = GaussianEXEM(shrinkage=shrinkage, temperature=1.0, unseen_odds=1.0)
        model.set_params(unlabelled_weight=0.0)  # estimating it costs further fits
        with FitCache(self._runner.shared):
            model.fit(data.X[rows], data.y[rows], signatures=data.signatures)
        return np.asarray(to_numpy(model.whiten(data.X)), dtype=float)

    def _logistic(self, k: int, drawn: Any, rest: ZeroShotDataset) -> dict[str, Any]:
        data, penalty = self._data, self._penalty(k)
        model = _logistic(penalty, _unit(data.X[drawn]), data.y[drawn])
        predicted = model.predict(_unit(rest.X_test_unseen))
        accuracy = float(per_class_accuracy(rest.y_test_unseen, predicted))
        return {"metrics": {ACCURACY: accuracy}, "hyper_parameters": {"C": penalty}}

    def _find_penalty(self, k: int) -> float:
        X, y = _unit(self._data.X), self._data.y

        def accuracy(penalty: float, kept: Any, few: Any, test: Any) -> float:
            predicted = _logistic(penalty, X[few], y[few]).predict(X[test])
            return float(per_class_accuracy(y[test], predicted))

        return self._best(k, _PENALTIES, accuracy)


def _logistic(penalty: float, X: Floats, y: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        # Expected with one image of each class.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return LogisticRegression(C=penalty, max_iter=1000).fit(X, y)


def _unit(X: Any) -> Floats:
    return np.asarray(unit_rows(np.asarray(to_numpy(X), dtype=np.float64)))


# The number of images that a description is worth.


def images_worth(numbers: Sequence[int], alone: Sequence[float], described: float) -> float:
    """Number of images with which images alone are as accurate; NaN if out of range."""
    k, found = np.log2(np.asarray(numbers, dtype=float)), np.asarray(alone, dtype=float)
    reached = np.flatnonzero(found >= described)
    if not reached.size or not reached[0]:
        return float("nan")
    i = reached[0] - 1
    share = (described - found[i]) / (found[i + 1] - found[i])
    return float(2 ** (k[i] + share * (k[i + 1] - k[i])))


def worth_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per seed with the number of images that a description is worth, if measured."""
    accuracy = frame[frame["metric"] == ACCURACY]
    rows = []
    for seed, part in accuracy.groupby("seed", sort=False):
        described = part[(part["method"] == DESCRIBED) & (part["shots"] == 0)]
        alone = part[part["method"].isin(ALONE)].groupby("shots")["value"].max().sort_index()
        if len(described) and len(alone):
            first = described.iloc[0]
            worth = images_worth(alone.index.tolist(), alone.tolist(), first["value"])
            rows.append({**first.to_dict(), "seed": seed, "metric": WORTH, "value": worth})
    found = pd.DataFrame(rows, columns=frame.columns).dropna(subset=["value"])
    return found.astype(frame.dtypes)


def worth_in_words(frame: pd.DataFrame) -> str:
    """Number of images that a description is worth, over all draws; empty if not measured."""
    accuracy = frame[frame["metric"] == ACCURACY]
    described = accuracy[(accuracy["method"] == DESCRIBED) & (accuracy["shots"] == 0)]["value"]
    alone = accuracy[accuracy["method"].isin(ALONE)].groupby(["method", "shots"])["value"].mean()
    if described.empty or alone.empty:
        return ""
    worth = frame.loc[frame["metric"] == WORTH, "value"]
    if len(worth) == len(described):
        spread = f" ± {worth.std():.1f}" if len(worth) > 1 else ""
        return f"{worth.mean():.1f}{spread} images"
    best = alone.groupby("shots").max()
    few = best.iloc[0] >= described.mean()
    bound = int(best.index[0 if few else -1])
    return f"{'fewer' if few else 'more'} than {bound} image{'' if bound == 1 else 's'}"


# Plots.


def draw_shots(ax: Any, frame: pd.DataFrame, *, metric: str = ACCURACY) -> None:
    """Draw accuracy or harmonic mean against the number of labelled images of each class."""
    labels = {ACCURACY: "accuracy among unseen classes (%)", "harmonic": "harmonic mean (%)"}
    shown = frame
    if metric == "harmonic":
        # The calibrated harmonic mean, if there is one.
        origin = ["method", "shots", "seed"]
        places, calibrated = pd.MultiIndex.from_frame(frame[origin]), "calibrated_harmonic"
        known = places[frame["metric"] == calibrated]
        plain = (frame["metric"] == metric) & places.isin(known)
        shown = frame[~plain].replace({"metric": {calibrated: metric}})
    draw_lines(
        ax, shown, x="shots", xlabel="labelled images of each class", ylabel=labels[metric],
        metric=metric,
    )  # fmt: skip
    ax.set_xscale("symlog", linthresh=1, linscale=0.3)
    numbers = sorted(frame["shots"].astype(int).unique())
    ax.set_xticks(numbers, [str(number) for number in numbers])
    ax.minorticks_off()
    if metric == ACCURACY:
        _draw_worth(ax, frame)


def _draw_worth(ax: Any, frame: pd.DataFrame) -> None:
    """Draw a line at the accuracy by description, up to where images alone reach it."""
    words = worth_in_words(frame)
    if not words:
        return
    described = frame[(frame["method"] == DESCRIBED) & (frame["shots"] == 0)]
    level = 100 * described.loc[described["metric"] == ACCURACY, "value"].mean()
    worth = frame.loc[frame["metric"] == WORTH, "value"].mean() if words[0].isdigit() else np.nan
    end = {"f": frame["shots"].min(), "m": frame["shots"].max()}.get(words[0], worth)
    ax.plot([0, end], [level, level], color="0.5", linewidth=0.8, zorder=0)
    ax.plot(worth, level, "o", color="0.2", markersize=7, markerfacecolor="none")
    text = f"a description is worth\n{words.replace('image', 'labelled image')}"
    ax.text(0.97, 0.05, text, fontsize=8, ha="right", transform=ax.transAxes)
