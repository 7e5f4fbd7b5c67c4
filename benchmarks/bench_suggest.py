"""What to label next: accuracy as labels are added, by how the images are chosen.

Half of the images of the unseen classes are the pool, from which images are chosen and labelled; on
the other half accuracy is measured, five times. `suggest` of Gaussian EXEM is compared with random
choice, margin, entropy, k-center and k-means. The space of the last two is chosen first, with a
third of the seen classes in place of the unseen ones. Predicted and realised gains of `suggest` are
drawn in `docs/images/suggest.png`.

    python benchmarks/bench_suggest.py
    python benchmarks/bench_suggest.py --peers  # are ours those of modAL and scikit-activeml?
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import RESULTS, Report
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin
from sklearn.preprocessing import normalize

from zslearn.datasets import load_glyphs, load_xlsa17, make_zero_shot
from zslearn.synthesis import GaussianEXEM

#: Labels so far, per class on average.
STEPS = (0.5, 1, 2, 3, 5, 10)
SPACES = ("features", "whitened")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "suggest.png"


class Problem(NamedTuple):
    """Training data, the signatures of all classes, and images of classes without labels."""

    X: Any
    y: Any
    signatures: Any
    X_new: Any
    y_new: Any

    @classmethod
    def of(cls, data: Any) -> Problem:
        test = data.X_test_unseen, data.y_test_unseen
        return cls(data.X_train, data.y_train, data.signatures, *test)

    def held_out(self, seed: int) -> Problem:
        """A third of the seen classes in place of the unseen ones."""
        classes = np.random.default_rng(seed).permutation(np.unique(self.y))
        out = np.isin(self.y, classes[: len(classes) // 3])
        described = self.signatures.loc[classes.tolist()]
        return Problem(self.X[~out], self.y[~out], described, self.X[out], self.y[out])


class Pool(NamedTuple):
    """What a strategy knows: a model, images without labels, and labelled ones."""

    model: Any
    X: Any
    labelled: Any
    classes: Any
    rng: np.random.Generator

    def probabilities(self) -> Any:
        return self.model.predict_proba(self.X, classes=self.classes)

    def points(self, X: Any, space: str) -> Any:
        return normalize(X) if space == "features" else self.model.whiten(X)


def at_random(pool: Pool, n: int, _: str) -> NDArray[Any]:
    return pool.rng.choice(len(pool.X), n, replace=False)


def by_margin(pool: Pool, n: int, _: str) -> NDArray[Any]:
    """The smallest differences of the two largest probabilities."""
    best = np.sort(pool.probabilities(), axis=1)
    return np.argsort(best[:, -1] - best[:, -2], kind="stable")[:n]


def by_entropy(pool: Pool, n: int, _: str) -> NDArray[Any]:
    p = pool.probabilities()
    return np.argsort((p * np.log(p + 1e-300)).sum(axis=1), kind="stable")[:n]


def by_k_center(pool: Pool, n: int, space: str) -> NDArray[Any]:
    """The image farthest from all labelled and chosen ones, again and again."""
    points = pool.points(pool.X, space)
    centers = points.mean(axis=0, keepdims=True)
    if len(pool.labelled):
        centers = pool.points(pool.labelled, space)
    distances = pairwise_distances(points, centers).min(axis=1)
    chosen: list[int] = []
    for _ in range(n):
        chosen.append(int(distances.argmax()))
        distances = np.minimum(distances, pairwise_distances(points, points[chosen[-1:]])[:, 0])
        distances[chosen] = -1.0
    return np.array(chosen)


def by_k_means(pool: Pool, n: int, space: str) -> NDArray[Any]:
    """The image nearest to the centre of each of n clusters."""
    points = pool.points(pool.X, space)
    found = KMeans(n, n_init=1, random_state=0).fit(points)
    return np.unique(pairwise_distances_argmin(found.cluster_centers_, points))


PEERS: dict[str, Callable[[Pool, int, str], NDArray[Any]]] = {
    "random": at_random,
    "margin": by_margin,
    "entropy": by_entropy,
    "k-center": by_k_center,
    "k-means": by_k_means,
}
WITH_SPACE = ("k-center", "k-means")


def curve(
    model: GaussianEXEM, problem: Problem, strategy: str, space: str, seed: int
) -> tuple[list[float], list[dict[str, float]]]:
    """Accuracy after each step, and the predicted and realised gains of `suggest`."""
    X, y, rng = problem.X_new, problem.y_new, np.random.default_rng(seed)
    pool, test = np.array_split(rng.permutation(len(X)), 2)
    classes, model = np.unique(y), copy.deepcopy(model)
    accuracies = [model.score(X[test], y[test], classes=classes)]
    labelled, gains = pool[:0], []
    for step in STEPS:
        n = min(round(step * len(classes)) - len(labelled), len(pool))
        if strategy == "suggest":
            found = model.suggest(X[pool], n, classes=classes)
            chosen = found.rows
            gain = {"labels": step, "predicted": float(found.gains.sum())}
            gain["stated"] = float(found.probabilities.mean())
            gain["right"] = float((found.labels == y[pool[chosen]]).mean())
        else:
            chosen = PEERS[strategy](Pool(model, X[pool], X[labelled], classes, rng), n, space)
        rest = np.delete(pool, chosen)
        before = model.predict(X[rest], classes=classes) == y[rest]
        model.add_examples(X[pool[chosen]], y[pool[chosen]])
        after = model.predict(X[rest], classes=classes) == y[rest]
        if strategy == "suggest":
            gains.append({**gain, "realised": float(after.sum() - before.sum()) / len(pool)})
        labelled, pool = np.concatenate([labelled, pool[chosen]]), rest
        accuracies.append(model.score(X[test], y[test], classes=classes))
    return accuracies, gains


def fitted(problem: Problem) -> GaussianEXEM:
    model = GaussianEXEM(unlabelled_weight=0.1)
    return model.fit(problem.X, problem.y, signatures=problem.signatures)


def curves(
    problems: list[Problem], models: list[GaussianEXEM], strategy: str, space: str = SPACES[0]
) -> tuple[NDArray[Any], list[dict[str, float]]]:
    """Curves of all seeds in per cent, and gains."""
    found = [
        curve(model, problem, strategy, space, seed)
        for seed, (problem, model) in enumerate(zip(problems, models, strict=True))
    ]
    return 100 * np.array([one for one, _ in found]), [gain for _, some in found for gain in some]


def best_spaces(problems: list[Problem], models: list[GaussianEXEM]) -> dict[str, str]:
    """The space with the larger mean accuracy, for each strategy."""

    def mean(name: str, space: str) -> float:
        return float(curves(problems, models, name, space)[0][:, 1:].mean())

    return {name: max(SPACES, key=partial(mean, name)) for name in WITH_SPACE}


def compare_peers() -> None:
    """Compare margin, entropy and k-center with modAL and scikit-activeml, on made-up data."""
    from modAL import uncertainty
    from skactiveml.pool import CoreSet

    problem = Problem.of(make_zero_shot(40, 10, nonlinearity=1.0, random_state=0))
    model, X, classes = fitted(problem), problem.X_new, np.unique(problem.y_new)

    class Unseen:
        def predict_proba(self, X: Any) -> Any:
            return model.predict_proba(X, classes=classes)

    pool = Pool(model, X[1:], X[:1], classes, np.random.default_rng(0))
    labels = np.full(len(X), np.nan)
    labels[0] = 0.0
    theirs = {
        "margin": uncertainty.margin_sampling(Unseen(), X[1:], n_instances=10)[0],
        "entropy": uncertainty.entropy_sampling(Unseen(), X[1:], n_instances=10)[0],
        "k-center": CoreSet().query(normalize(X), labels, batch_size=10) - 1,
    }
    for name, rows in theirs.items():
        print(f"{name}: the same {set(PEERS[name](pool, 10, SPACES[0])) == set(rows.tolist())}")


def draw(points: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Predicted against realised gains, a panel for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(points), figsize=(9, 3.2), layout="constrained")
    for axes, (name, gains) in zip(np.atleast_1d(panels), points.items(), strict=True):
        for place, step in enumerate(STEPS):
            some = [gain for gain in gains if gain["labels"] == step]
            color = plt.cm.viridis(place / len(STEPS))
            x, y = ([100 * gain[key] for gain in some] for key in ("predicted", "realised"))
            axes.scatter(x, y, s=14, color=color, label=f"to {step:g}")
        low = min(0.0, *(100 * gain["realised"] for gain in gains))
        high = max(100 * gain[key] for gain in gains for key in ("predicted", "realised"))
        axes.plot([low, high], [low, high], color="black", linewidth=0.8)
        axes.set(title=name, xlabel="predicted gain (points)")
    np.atleast_1d(panels)[0].set_ylabel("realised gain (points)")
    np.atleast_1d(panels)[-1].legend(title="labels a class", fontsize=7, title_fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="made-up data and two seeds only")
    parser.add_argument("--peers", action="store_true", help="compare peers with other programs")
    options = parser.parse_args()
    quick = options.quick
    warnings.simplefilter("ignore")
    if options.peers:
        compare_peers()
        return
    seeds = range(2 if quick else 5)
    made = {"nonlinearity": 1.0, "samples_per_class": 40}
    loaders: dict[str, Callable[[int], Any]] = {
        "make_zero_shot": lambda seed: make_zero_shot(60, 30, random_state=seed, **made)
    }
    if not quick:
        loaders["CUB"] = lambda _: load_xlsa17("CUB", features="efficientnet_lite0.mat")
        loaders["glyphs"] = lambda _: load_glyphs()
    report = Report(
        "suggest", "accuracy (%) by the number of labels a class, and how they are chosen"
    )
    points: dict[str, list[dict[str, float]]] = {}
    for data, load in loaders.items():
        problems = [Problem.of(load(seed)) for seed in seeds]
        held_out = [problem.held_out(seed) for seed, problem in enumerate(problems)]
        held_out_models = [fitted(problem) for problem in held_out]
        spaces = best_spaces(held_out, held_out_models)
        for title, some, models, names in (
            (f"{data} (held out)", held_out, held_out_models, ("random", "suggest")),
            (data, problems, [fitted(problem) for problem in problems], (*PEERS, "suggest")),
        ):
            means: dict[str, NDArray[Any]] = {}
            for name in names:
                percent, gains = curves(some, models, name, spaces.get(name, SPACES[0]))
                if name == "suggest" and some is problems:
                    points[data] = gains
                means[name], lead = percent[:, 1:].mean(axis=1), {}
                if name != "random":
                    paired = means[name] - means["random"]
                    lead["over_random"] = round(float(paired.mean()), 2)
                    lead["error"] = round(float(paired.std(ddof=1) / np.sqrt(len(paired))), 2)
                report.add(
                    what=f"{title}, {name}",
                    space=spaces.get(name),
                    **{
                        f"{step:g}": round(float(value), 1)
                        for step, value in zip((0, *STEPS), percent.mean(axis=0), strict=True)
                    },
                    mean=round(float(means[name].mean()), 1),
                    **lead,
                )
    for data, gains in points.items():
        keys = ("predicted", "realised", "stated", "right")
        report.add(
            what=f"{data}, gains of suggest",
            **{key: round(100 * float(np.mean([g[key] for g in gains])), 2) for key in keys},
        )
    report.save()
    draw(points, RESULTS / "quick" / PICTURE.name if quick else PICTURE)


if __name__ == "__main__":
    main()
