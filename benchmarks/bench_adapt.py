"""Gaussian EXEM and unlabelled images: what `adapt` gains, how long it takes, and `add_examples`.

python benchmarks/bench_adapt.py                # on the host: 3,000 images, 200 classes
python benchmarks/bench_adapt.py --cuda         # 1,000,000 images, 1,000 classes on a GPU
python benchmarks/bench_adapt.py --sets         # accuracy with six kinds of unlabelled sets

`--sets` splits the test images of the unseen classes: one half provides the unlabelled sets, the
other is scored. Settings are the defaults, with a shrinkage of 0.3. It needs CUB; `draw.py` then
writes the table of the documentation.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from _common import Report, seconds

from zslearn.datasets import ZeroShotDataset, load_glyphs, load_xlsa17, make_zero_shot
from zslearn.experiments.analyses._unlabelled import accuracies, unlabelled_sets
from zslearn.synthesis import GaussianEXEM

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


def data_sets() -> Iterator[tuple[str, ZeroShotDataset]]:
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


def gains_of(name: str, data: ZeroShotDataset, n_draws: int, report: Report) -> None:
    """Rows of one data set: gains in points, means over draws."""
    model = GaussianEXEM(shrinkage=0.3)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    X, y, classes = data.X_test_unseen, data.y_test_unseen, np.sort(data.unseen_classes)
    first_s, adapted = seconds(lambda: model.adapt(X, classes=classes))
    later_s, _ = seconds(lambda: model.adapt(X, classes=classes))
    before, after = (100 * accuracies(m, X, y, classes).mean() for m in (model, adapted))
    report.add(
        data=name, kind="the scored images", before=before, gain=after - before,
        accepted=float(adapted.adaptation_.accepted), weight=adapted.adaptation_.weight,
        unexplained=adapted.adaptation_.background_share, first_s=first_s, later_s=later_s,
    )  # fmt: skip
    found: dict[str, list[tuple[float, ...]]] = {}
    for draw in range(n_draws):
        sets = unlabelled_sets(y, draw)
        for kind, (rows, candidates, scored, present) in sets.items():
            adapted = model.adapt(X[rows], classes=candidates)
            old, new = (accuracies(m, X[scored], y[scored], candidates) for m in (model, adapted))
            gain, is_present = 100 * (new - old), np.isin(candidates, present)
            absent = float(gain[~is_present].mean()) if not is_present.all() else float("nan")
            done = adapted.adaptation_
            mean = float(gain.mean()), float(gain[is_present].mean()), absent
            if kind == "half absent":
                own = X[rows], y[rows]
                right = [
                    (adapted.predict(own[0], classes=classes, prior=prior) == own[1]).mean()
                    for prior in (None, done.proportions)
                ]
                found.setdefault("prior", []).append((100 * right[0], 100 * right[1]))
            found.setdefault(kind, []).append(
                (100 * float(old.mean()), *mean, done.accepted, done.weight, done.background_share)
            )
    without, with_prior = np.mean(found.pop("prior"), axis=0)
    for kind, values in found.items():
        before, gain, present, absent, accepted, weight, unexplained = np.mean(values, axis=0)
        report.add(
            data=name, kind=kind, before=before, gain=gain, present=present,
            absent=None if np.isnan(absent) else absent, worst=min(row[1] for row in values),
            accepted=accepted, weight=weight, unexplained=unexplained,
        )  # fmt: skip
    report.add(
        data=name, kind="half absent, the set itself with its proportions as prior",
        before=without, gain=with_prior - without,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--sets", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.sets:
        report = Report("adapt_sets", "Accuracy gained by kinds of unlabelled sets, in points")
        for name, data in data_sets():
            gains_of(name, data, 2 if options.quick else DRAWS, report)
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
