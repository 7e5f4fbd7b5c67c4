"""Methods since the paper on a GPU, with the published settings.

One JSON line per method, seed and classifier, as each is done; every fit runs in a process of its
own, several at a time. Where recording a training step as a CUDA graph fails, the fit is run again
without. With --tune-epochs the number of epochs is chosen by AUSUC on seen classes that are left
out, in five folds of one training run each, and trained for on all seen classes; the folds give the
calibration factor, too. --collect puts such lines into the results beside this script.

    python benchmarks/bench_rivals_cuda.py --data CUB --signatures sent_splits.mat:att \
        --methods Class-Norm CADA-VAE f-CLSWGAN f-VAEGAN-D2 --seeds 0 1 2 3 4 --jobs 3 > lines
    python benchmarks/bench_rivals_cuda.py --collect lines
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("Class-Norm", "CADA-VAE", "f-CLSWGAN", "f-VAEGAN-D2")
#: What the results call a kind of signatures that a data set names by its file.
KINDS = {"sent_splits": "sentences"}
#: Suffix of a method whose epochs were chosen.
TUNED = ", epochs tuned"
#: Classifiers of generated features: name in the output → setting of GeneratedFeatures.
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "softmax, classes balanced": {"balanced": True},
    "nearest mean": {"classifier": "mean"},
}


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="CUB", help="CUB, glyphs, or a folder")
    parser.add_argument("--signatures", default="original_att", help="of CUB")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, help="instead of the published number")
    parser.add_argument("--tune-epochs", action="store_true", help="by seen classes left out")
    parser.add_argument("--collect", nargs="+", type=Path, metavar="FILE", help="lines to keep")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=3, help="fits at the same time")
    parser.add_argument("--limit", type=float, default=480.0, help="no fit starts after it")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "SEED"), help="used by the script")
    parser.add_argument("--no-graph", action="store_true", help="record no training step")
    return parser.parse_args()


def main() -> None:
    """Run every fit, some at a time."""
    options = parse()
    if options.collect:
        collect(options.collect)
        return
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


def collect(files: list[Path]) -> None:
    """Put lines into the results; of one method, data, seed and classifier the latest stays."""
    path = Path(__file__).parent / "results" / "rivals_cuda.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    names = ("data", "signatures", "method", "seed", "classifier")
    rows = {tuple(row[name] for name in names): row for row in results["rows"]}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line) if line.startswith("{") else {}
            if "T1" in row:
                row["signatures"] = KINDS.get(row["signatures"], row["signatures"])
                rows[tuple(row[name] for name in names)] = row
    # As methods and classifiers are listed, so that tables have one order.
    order = [f"{method}{end}" for method in METHODS for end in ("", TUNED)]
    classifiers = ["", *CLASSIFIERS]
    results["rows"] = sorted(
        rows.values(),
        key=lambda row: (
            row["data"],
            row["signatures"],
            order.index(row["method"]),
            classifiers.index(row["classifier"]),
            row["seed"],
        ),
    )
    text = json.dumps(results, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def measure(options: argparse.Namespace, method: str, seed: int) -> None:
    """Fit one method with one seed, and measure it; a generator under each classifier."""
    import torch

    from zslearn.networks import GeneratedFeatures

    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")
    data = load(options)
    X = torch.as_tensor(np.array(data.X_train), dtype=torch.float32, device=options.device)
    model = make(options, method, seed)
    settings = CLASSIFIERS if isinstance(model, GeneratedFeatures) else {"": {}}
    if options.tune_epochs:
        tuned(options, model, X, data, seed, f"{method}{TUNED}")
        return
    clock = time.monotonic()
    grid = model.fit_grid(
        X, data.y_train, signatures=data.signatures, settings=list(settings.values())
    )
    for index, fitted in grid:
        if options.device == "cuda":
            torch.cuda.synchronize()
        record = {
            "data": data.name,
            "signatures": described(options, data),
            "method": method,
            "seed": seed,
            "classifier": list(settings)[index],
            # The first of several holds the training of the generator.
            "fit_seconds": round(time.monotonic() - clock, 2),
            **results(fitted, data),
        }
        print(json.dumps(record), flush=True)
        clock = time.monotonic()


def tuned(
    options: argparse.Namespace, model: Any, X: Any, data: Any, seed: int, method: str
) -> None:
    """Choose the number of epochs on held-out seen classes, and measure."""
    from zslearn.model_selection import GeneralizedClassKFold, ZeroShotSearchCV

    generator = getattr(model, "generator", None)
    grid = model.grids["epochs"] if generator is None else generator.grids["fast"]
    prefix = "" if generator is None else "generator__"
    clock = time.monotonic()
    search = ZeroShotSearchCV(
        model,
        {f"{prefix}{name}": values for name, values in grid.items()},
        setting="gzsl",
        cv=GeneralizedClassKFold(5, random_state=seed),
    ).fit(X, data.y_train, signatures=data.signatures)
    record = {
        "data": data.name,
        "signatures": described(options, data),
        "method": method,
        "seed": seed,
        "classifier": "" if generator is None else "softmax",
        "fit_seconds": round(time.monotonic() - clock, 2),
        **{name.rpartition("__")[2]: value for name, value in search.best_params_.items()},
        **results(search.best_estimator_, data, search.bias_),
    }
    print(json.dumps(record), flush=True)


def load(options: argparse.Namespace) -> Any:
    """The data set."""
    from zslearn.datasets import load_glyphs, load_table, load_xlsa17

    if options.data == "glyphs":
        return load_glyphs()
    if Path(options.data).is_dir():
        return load_table(options.data)
    return load_xlsa17(
        options.data, features="efficientnet_lite0.mat", signatures=options.signatures
    )


def described(options: argparse.Namespace, data: Any) -> str:
    """The signatures of the classes."""
    return data.semantic or ("own" if Path(options.data).is_dir() else "attributes")


def make(options: argparse.Namespace, method: str, seed: int) -> Any:
    """The method as it was published."""
    from zslearn.networks import (
        CADAVAE,
        ClassNorm,
        GeneratedFeatures,
        VAEGANGenerator,
        WGANGenerator,
    )

    if method in ("Class-Norm", "CADA-VAE"):
        kind = ClassNorm if method == "Class-Norm" else CADAVAE
        model = kind(random_state=seed, device=options.device)
        return model.set_params(max_iter=options.epochs) if options.epochs else model
    generator = (WGANGenerator if method == "f-CLSWGAN" else VAEGANGenerator)(device=options.device)
    if options.epochs:
        generator.set_params(n_epochs=options.epochs)
    if options.no_graph:
        from zslearn.networks._adversarial import Repeated

        Repeated.records = False
    return GeneratedFeatures(generator, random_state=seed)


def results(model: Any, data: Any, factor: float | None = None) -> dict[str, float]:
    """Accuracy among unseen classes, and the generalized setting without and with a factor."""
    from zslearn.experiments._evaluate import GeneralizedScores
    from zslearn.metrics import per_class_accuracy

    scores = GeneralizedScores.of(model, data)
    unseen = ~np.isin(scores.classes, data.seen_classes)
    y = data.y_test_unseen
    on_unseen = scores.scores[-len(y) :, unseen]  # these samples come last
    top = scores.classes[unseen][np.argsort(-on_unseen, axis=1, kind="stable")[:, :5]]
    of_classes = per_class_accuracy(y, top[:, 0], average=None)
    found = scores.measure(factor or 0.0)
    values = {
        "T1": of_classes.mean(),
        # Half of a 95 % interval over classes.
        "T1 interval": 1.96 * of_classes.std(ddof=1) / len(of_classes) ** 0.5,
        "T5": per_class_accuracy(y, np.where((top == y[:, None]).any(axis=1), y, top[:, 0])),
        "U": found["unseen"],
        "S": found["seen"],
        "H": found["harmonic"],
        "AUSUC": found["ausuc"],
        "largest H of any factor": found["harmonic_best"],
    }
    if factor is not None:
        values |= {"factor": factor, "H calibrated": found["calibrated_harmonic"]}
    return {name: round(float(value), 4) for name, value in values.items()}


if __name__ == "__main__":
    main()
