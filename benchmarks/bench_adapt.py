"""Gaussian EXEM and images without labels: how long `adapt` takes, and `add_examples`.

python benchmarks/bench_adapt.py                # on the host: 3,000 images, 200 classes
python benchmarks/bench_adapt.py --cuda         # 1,000,000 images, 1,000 classes on a GPU
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from _common import Report, seconds

from zslearn.datasets import make_zero_shot
from zslearn.synthesis import GaussianEXEM


def fitted(n_seen: int, n_unseen: int, n_features: int) -> tuple[GaussianEXEM, Any]:
    data = make_zero_shot(
        n_seen,
        n_unseen,
        n_features=n_features,
        n_attributes=64,
        samples_per_class=10,
        dtype=np.float32,
        random_state=0,
    )
    model = GaussianEXEM(unlabelled_weight=0.1)
    return model.fit(data.X_train, data.y_train, signatures=data.signatures), data


def on_the_host(report: Report) -> None:
    model, data = fitted(150, 50, 1280)
    X = np.tile(data.X_test_unseen, (6, 1))[:3000]
    adapt_s, _ = seconds(lambda: model.adapt(X), 3)
    one, label = data.X_test_unseen[:1], data.y_test_unseen[:1]
    example_s, _ = seconds(lambda: model.add_examples(one, label), 20)
    report.add(images=3000, classes=200, device="host", adapt_s=adapt_s, add_example_s=example_s)


def on_a_gpu(report: Report, n_images: int) -> str:
    import torch

    model, data = fitted(800, 200, 2048)
    rng = torch.Generator(device="cuda").manual_seed(0)
    means = torch.asarray(np.asarray(data.X_test_unseen), device="cuda")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cuda:
        report = Report("adapt_cuda", "adapt to images without labels on a GPU")
        report.save(device=on_a_gpu(report, 10_000 if options.quick else 1_000_000))
    else:
        report = Report("adapt", "adapt to images without labels, and one labelled image")
        on_the_host(report)
        report.save()


if __name__ == "__main__":
    main()
