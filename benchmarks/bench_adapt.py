"""Gaussian EXEM and unlabelled images: what `adapt` gains, how long it takes, and `add_examples`.

python benchmarks/bench_adapt.py                # on the host: 3,000 images, 200 classes
python benchmarks/bench_adapt.py --cuda         # 1,000,000 images, 1,000 classes on a GPU
python benchmarks/bench_adapt.py --sets         # accuracy with six kinds of unlabelled sets
python benchmarks/bench_adapt.py --tuned        # all test images, tuned for them
python benchmarks/bench_adapt.py --calibration  # calibration of seen and of unseen classes
python benchmarks/bench_adapt.py --sets --data FOLDER…  # also further data of `zslearn bench`

`--sets` splits the test images of the unseen classes: one half provides the unlabelled sets, the
other is scored. Settings are the defaults, with a shrinkage of 0.3. `draw.py` then writes the table
of the documentation. It also measures expectation maximisation without a background, in which every
image belongs to some candidate. All but the first two need CUB.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import Report, interleaved, seconds

from zslearn.datasets import (
    ZeroShotDataset,
    load_glyphs,
    load_table,
    load_xlsa17,
    make_zero_shot,
)
from zslearn.experiments.analyses._unlabelled import (
    UnlabelledSet,
    adapt_and_score,
    unlabelled_sets,
)
from zslearn.metrics import expected_calibration_error
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.synthesis import GaussianEXEM
from zslearn.synthesis._unlabelled import Background

DRAWS = 20


def fitted(n_seen: int, n_unseen: int, n_features: int) -> tuple[GaussianEXEM, Any]:
    data = make_zero_shot(
        n_seen,
        n_unseen,
        n_features=n_features,
        n_attributes=64,
        samples_per_class=10,
        random_state=0,
    )
    data = replace(data, X=data.X.astype(np.float32))
    model = GaussianEXEM(unlabelled_weight=0.1)
    X = data.X_train.astype(np.float32)
    return model.fit(X, data.y_train, signatures=data.signatures), data


def on_the_host(report: Report) -> None:
    model, data = fitted(150, 50, 1280)
    X = np.tile(data.X_test_unseen.astype(np.float32), (6, 1))[:3000]
    adapt_s, _ = seconds(lambda: model.adapt(X), 3)
    one, label = data.X_test_unseen[:1], data.y_test_unseen[:1]
    example_s, _ = seconds(lambda: model.add_examples(one, label), 20)
    report.add(images=3000, classes=200, device="host", adapt_s=adapt_s, add_example_s=example_s)


def on_a_gpu(report: Report, n_images: int) -> str:
    import torch

    model, data = fitted(800, 200, 2048)
    rng = torch.Generator(device="cuda").manual_seed(0)
    means = torch.asarray(data.X_test_unseen.astype(np.float32), device="cuda")
    rows = torch.randint(len(means), (n_images,), generator=rng, device="cuda")
    X = torch.empty((n_images, means.shape[1]), device="cuda")
    for start in range(0, n_images, 100_000):
        part = means[rows[start : start + 100_000]]
        noise = torch.randn(part.shape, generator=rng, device="cuda")
        X[start : start + 100_000] = part + 0.01 * noise

    def adapt() -> Any:
        adapted = model.adapt(X)
        torch.cuda.synchronize()
        return adapted

    model.adapt(X[:1000])  # libraries load on first use
    gpu_s, adapted = seconds(adapt, 3)
    some = X[: n_images // 100].cpu().numpy()
    host_s, alone = seconds(lambda: model.adapt(some))
    on_gpu = model.adapt(X[: n_images // 100])
    difference = np.abs(on_gpu.adaptation_.moved - alone.adaptation_.moved).max()
    report.add(
        images=n_images,
        classes=len(model.classes_),
        device=torch.cuda.get_device_name(),
        adapt_s=gpu_s,
        host_s_for_a_hundredth=host_s,
        largest_difference_of_moves=float(difference),
        unexplained=adapted.adaptation_.background_share,
    )
    return str(torch.cuda.get_device_name())


def data_sets(folders: Sequence[Path] = ()) -> Iterator[tuple[str, ZeroShotDataset]]:
    def cub(signatures: str) -> ZeroShotDataset:
        return load_xlsa17("CUB", features="efficientnet_lite0.mat", signatures=signatures)

    attributes = cub("original_att")
    twelve = np.random.default_rng(0).choice(attributes.signatures.shape[1], 12, replace=False)
    yield "CUB, attributes", attributes
    yield "CUB, sentences", cub("sent_splits.mat:att")
    yield (
        "CUB, 12 attributes",
        replace(attributes, signatures=attributes.signatures.iloc[:, np.sort(twelve)]),
    )
    yield "glyphs", load_glyphs()
    for seed, (n_seen, n_unseen) in enumerate([(40, 12), (100, 30), (60, 20)]):
        made = make_zero_shot(n_seen, n_unseen, nonlinearity=1.0, random_state=seed)
        yield f"made up {seed + 1}", made
    for folder in folders:
        yield folder.name, load_table(folder)


def all_images(data: ZeroShotDataset) -> UnlabelledSet:
    """All test images of the unseen classes, which are both the set and the scored images."""
    rows, classes = np.arange(len(data.y_test_unseen)), np.sort(data.unseen_classes)
    return UnlabelledSet(rows, classes, rows, classes)


def gain(model: Any, data: ZeroShotDataset, chosen: UnlabelledSet) -> tuple[Any, dict[str, float]]:
    """The adapted model, and a row in points."""
    X, y = data.X_test_unseen, data.y_test_unseen
    adapted, metrics = adapt_and_score(model, X, y, chosen)
    metrics["after"] = metrics["before"] + metrics["gain"]
    done = adapted.adaptation_
    row = {
        name.removeprefix("gain_"): 100 * metrics[name]
        for name in ("before", "after", "gain", "gain_present", "gain_absent")
        if name in metrics
    }
    row |= {"accepted": float(done.accepted), "weight": done.weight}
    return adapted, row | {"unexplained": done.background_share}


def without_background(model: GaussianEXEM) -> GaussianEXEM:
    """A model after its first `adapt` for which every image belongs to some candidate."""
    images = model._trial_images
    assert images is not None
    trials = {"alone": images.trials["alone"]._replace(background=Background(50.0, 0.0, 0.0))}
    plain = model._with(_trial_images=replace(images, trials=trials))
    return plain.set_params(unlabelled_weight=1.0)


def gains_of(name: str, data: ZeroShotDataset, n_draws: int, report: Report) -> None:
    """Rows of one data set: gains in points, means over draws."""
    model = GaussianEXEM(shrinkage=0.3)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    X, y, whole = data.X_test_unseen, data.y_test_unseen, all_images(data)
    adapt = {"adapt": lambda: model.adapt(X, classes=whole.candidates)}
    first_s, later_s = (interleaved(adapt, 1)["adapt"] for _ in range(2))
    row = gain(model, data, whole)[1]
    report.add(data=name, kind="the scored images", **row, first_s=first_s, later_s=later_s)
    row = gain(without_background(model), data, whole)[1]
    report.add(data=name, kind="the scored images, without a background", **row)
    found: dict[str, list[dict[str, float]]] = {}
    for draw in range(n_draws):
        for kind, chosen in unlabelled_sets(y, draw).items():
            adapted, row = gain(model, data, chosen)
            found.setdefault(kind, []).append(row)
            if kind == "half absent":
                right = [
                    float((adapted.predict(X[chosen.rows], classes=whole.candidates, prior=prior)
                           == y[chosen.rows]).mean())
                    for prior in (None, adapted.adaptation_.proportions)
                ]  # fmt: skip
                row = {"before": 100 * right[0], "gain": 100 * (right[1] - right[0])}
                found.setdefault(f"{kind}, {PRIOR}", []).append(row)
    for kind, rows in sorted(found.items(), key=lambda item: PRIOR in item[0]):
        means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        means["worst"] = min(row["gain"] for row in rows)
        report.add(data=name, kind=kind, **means)


PRIOR = "the set itself with its proportions as prior"
GRID = {
    "shrinkage": [0.1, 0.2, 0.3, 0.5, 0.7],
    "gamma": [0.5, 1.0],
    "alpha": [0.1, 0.3],
}


def tuned(name: str, data: ZeroShotDataset, report: Report) -> None:
    """A row of the gain with all test images after tuning for it on held-out classes."""
    search = ZeroShotSearchCV(GaussianEXEM(), GRID, cv=ClassKFold(5, unlabelled="zsl"))
    search.fit(data.X_train, data.y_train, signatures=data.signatures)
    settings = {key: float(value) for key, value in search.best_params_.items()}
    report.add(data=name, **gain(search.estimator_, data, all_images(data))[1], **settings)


def calibration(name: str, data: ZeroShotDataset, report: Report) -> None:
    """Rows of the calibration of each group, among all classes and among those of the group."""
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    groups = {
        "seen": (data.X_test_seen, data.y_test_seen, data.seen_classes),
        "unseen": (data.X_test_unseen, data.y_test_unseen, data.unseen_classes),
    }
    for group, (X, y, own) in groups.items():
        for candidates, classes in (("all", model.classes_), ("their own", np.sort(own))):
            found = model.predict_proba(X, classes=classes)
            report.add(
                data=f"{name}, {group} classes among {candidates}",
                right=float((classes[found.argmax(axis=1)] == y).mean()),
                confidence=float(found.max(axis=1).mean()),
                ece=expected_calibration_error(y, found, classes=classes),
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for mode in ("cuda", "sets", "tuned", "calibration", "quick"):
        parser.add_argument(f"--{mode}", action="store_true")
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="FOLDER")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    real = {"CUB, attributes", "CUB, sentences", "glyphs"}
    if options.sets:
        report = Report("adapt_sets", "Accuracy gained by kinds of unlabelled sets, in points")
        for name, data in data_sets(options.data):
            gains_of(name, data, 2 if options.quick else DRAWS, report)
        report.save()
    elif options.tuned or options.calibration:
        report = Report("adapt_tuned", "Accuracy gained by all test images, tuned, in points")
        if options.calibration:
            report = Report("adapt_calibration", "Calibration of seen and of unseen classes")
        for name, data in data_sets():
            if name in real:
                (calibration if options.calibration else tuned)(name, data, report)
        report.save()
    elif options.cuda:
        report = Report("adapt_cuda", "adapt to unlabelled images on a GPU")
        report.save(device=on_a_gpu(report, 10_000 if options.quick else 1_000_000))
    else:
        report = Report("adapt", "adapt to unlabelled images, and one labelled image")
        on_the_host(report)
        report.save()


if __name__ == "__main__":
    main()
