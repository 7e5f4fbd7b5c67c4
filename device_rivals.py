"""Measure f-CLSWGAN and f-VAEGAN-D2 on CUB on a GPU, with the published settings and nothing tuned.

One JSON line per method, seed and classifier, as each is done. Every fit runs in a process of its
own, several at a time. Where recording the training step as a CUDA graph fails, the fit is run
again without.

    PYTHONPATH=src ZSLEARN_DATA=… python device_rivals.py [--seeds 0 1 2 3 4] [--jobs 3]
        [--methods f-CLSWGAN f-VAEGAN-D2] [--epochs N] [--limit SECONDS] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

METHODS = ("f-CLSWGAN", "f-VAEGAN-D2")
#: What learns from the features: name in the output -> setting of GeneratedFeatures.
CLASSIFIERS = {
    "softmax": {},
    "softmax, classes balanced": {"balanced": True},
    "nearest mean": {"estimator": "mean"},
}


def parse() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, help="instead of 56 and 300")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--samples", type=int, help="training samples per class, for a short try")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=480.0, help="no fit starts after it")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "SEED"), help="used by the script")
    parser.add_argument("--no-graph", action="store_true", help="start every operation by itself")
    return parser.parse_args()


def main() -> None:
    """Run every fit, some at a time."""
    options = parse()
    if options.one:
        measure(options, options.one[0], int(options.one[1]))
        return
    start = time.monotonic()

    def job(task: tuple[str, int]) -> None:
        if time.monotonic() - start > options.limit:
            print(json.dumps({"method": task[0], "seed": task[1], "skipped": "limit"}), flush=True)
            return
        command = [sys.executable, __file__, *sys.argv[1:], "--one", task[0], str(task[1])]
        for extra in ([], ["--no-graph"]):
            done = subprocess.run([*command, *extra], capture_output=True, text=True)
            print(done.stdout, end="", flush=True)
            if done.returncode == 0:
                return
            print(f"{task} {extra} failed:\n{done.stderr[-1500:]}", file=sys.stderr, flush=True)

    tasks = [(method, seed) for method in options.methods for seed in options.seeds]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(job, tasks))
    print(json.dumps({"seconds in all": round(time.monotonic() - start, 1)}), flush=True)


def measure(options: argparse.Namespace, method: str, seed: int) -> None:
    """Fit one method with one seed, and measure it under each classifier."""
    import torch

    from zslearn.datasets import load_xlsa17
    from zslearn.networks import GeneratedFeatures, VAEGANGenerator, WGANGenerator
    from zslearn.networks._adversarial import Repeated

    torch.set_num_threads(4)
    torch.set_float32_matmul_precision("high")
    Repeated.records = not options.no_graph
    data = load_xlsa17("CUB", features="efficientnet_lite0.mat")
    kind = WGANGenerator if method == "f-CLSWGAN" else VAEGANGenerator
    generator = kind(options.hidden, device=options.device)
    if options.epochs:
        generator.set_params(n_epochs=options.epochs)
    X_train, y_train = data.X_train, data.y_train
    if options.samples:
        kept = np.concatenate(
            [np.flatnonzero(y_train == c)[: options.samples] for c in data.seen_classes]
        )
        X_train, y_train = X_train[kept], y_train[kept]
    X = torch.as_tensor(np.array(X_train), dtype=torch.float32, device=options.device)
    model = GeneratedFeatures(generator, random_state=seed)
    names, settings = zip(*CLASSIFIERS.items(), strict=True)
    clock = time.monotonic()
    grid = model.fit_grid(X, y_train, signatures=data.signatures, settings=settings)
    for index, fitted in grid:
        if options.device == "cuda":
            torch.cuda.synchronize()
        record = {
            "method": method,
            "seed": seed,
            "classifier": names[index],
            "epochs": generator.n_epochs,
            "graph": options.device == "cuda" and not options.no_graph,
            # The first holds the training of the generator.
            "fit_seconds": round(time.monotonic() - clock, 2),
            **results(fitted, data),
        }
        print(json.dumps(record), flush=True)
        clock = time.monotonic()


def results(model, data) -> dict[str, float]:
    """Accuracy among unseen classes, and of the generalized setting without a factor."""
    from zslearn.metrics import ausuc, harmonic_mean, per_class_accuracy, seen_unseen_curve

    labels = model.classes_
    seen = np.isin(labels, data.seen_classes)
    on_unseen = np.asarray(model.decision_function(np.asarray(data.X_test_unseen)))
    on_seen = np.asarray(model.decision_function(np.asarray(data.X_test_seen)))
    conventional = labels[~seen][on_unseen[:, ~seen].argmax(axis=1)]
    unseen_accuracy = per_class_accuracy(data.y_test_unseen, labels[on_unseen.argmax(axis=1)])
    seen_accuracy = per_class_accuracy(data.y_test_seen, labels[on_seen.argmax(axis=1)])
    y = np.concatenate([data.y_test_unseen, data.y_test_seen])
    scores = np.concatenate([on_unseen, on_seen])
    options = {"classes": labels, "seen_classes": data.seen_classes}
    acc_unseen, acc_seen, _ = seen_unseen_curve(y, scores, **options)
    values = {
        "T1": per_class_accuracy(data.y_test_unseen, conventional),
        "T1 of a classifier of the unseen classes alone": unseen_alone(model, data),
        "U": unseen_accuracy,
        "S": seen_accuracy,
        "H": harmonic_mean(seen_accuracy, unseen_accuracy),
        "AUSUC": ausuc(y, scores, **options),
        "largest H of any factor": float(np.max(harmonic_mean(acc_seen, acc_unseen))),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def unseen_alone(model, data) -> float:
    """Accuracy of a classifier trained on generated features of the unseen classes alone."""
    from zslearn.metrics import per_class_accuracy
    from zslearn.scoring import class_scores
    from zslearn.utils import to_numpy, unit_rows

    labels = model.unseen_classes_
    table = data.signatures.loc[labels].to_numpy(dtype=float)
    parameters = model.synthesize(unit_rows(table) / model.signature_scale_[0], labels)
    rows = model.embed(unit_rows(np.asarray(data.X_test_unseen)))
    scores = class_scores(rows, to_numpy(parameters))
    return per_class_accuracy(data.y_test_unseen, labels[scores.argmax(axis=1)])


if __name__ == "__main__":
    main()
