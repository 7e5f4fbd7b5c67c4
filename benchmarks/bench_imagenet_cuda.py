"""ImageNet-21K's shape on one GPU, with made-up rows: fitting, scoring, memory.

1,281,167 rows of 2,048 features and 1,000 seen classes; 21,345 described classes. Classes are the
leaves of a tree, siblings have similar traits, and images vary in their traits as much as classes
differ: about a fifth of the images is recognised among 20,345 classes. Each part prints one line of
JSON as it ends, and a part that fails says so and does not end the others.

    python benchmarks/bench_imagenet_cuda.py                  # all parts, some minutes
    python benchmarks/bench_imagenet_cuda.py top_k millions   # some parts
    python benchmarks/bench_imagenet_cuda.py --small --device cpu   # a dry run anywhere

Parts: first_fit, exem_fit, gaussian_fit, top_k, precision, sync_fit, standardized_fit, conse_fit,
iap_fit, hierarchical, millions. `millions` with `exem_fit` is the whole experiment, except for the
generation of rows; hierarchical precision is measured on the host, of 262,144 rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from _imagenet_world import GIB, SPREAD, World

from zslearn.base import score_precision
from zslearn.baselines import IAP, ConSE
from zslearn.metrics import hierarchical_precision_at_k
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

FLAT = (1, 2, 5, 10, 20)


def exem_of(world: World) -> EXEM:
    """The fitted EXEM, which several parts ask."""
    if "exem" not in world.kept:
        exem_fit(world)
    model: EXEM = world.kept["exem"]
    return model


def fit(world: World, model: Any) -> dict[str, Any]:
    X, y = world.train
    seconds, peak, fitted = world.timed(lambda: model.fit(X, y, signatures=world.table))
    world.kept["latest"] = fitted
    return {"seconds": seconds, "peak_gib": peak, "rows_gib": X.nbytes / GIB}


def exem_fit(world: World) -> dict[str, Any]:
    out = fit(world, EXEM(tol=1e-4))
    world.kept["exem"] = world.kept.pop("latest")
    return out


def gaussian_fit(world: World) -> dict[str, Any]:
    out = fit(world, GaussianEXEM())
    world.kept.pop("latest")
    return out


def standardized_fit(world: World) -> dict[str, Any]:
    return fit(world, EXEM(tol=1e-4, distance="standardized"))


def sync_fit(world: World) -> dict[str, Any]:
    out = fit(world, SynC(loss="ovo", tol=3e-3))
    model = world.kept.pop("latest")
    return out | {"n_iter": int(model.n_iter_)}


def conse_fit(world: World) -> dict[str, Any]:
    out = fit(world, ConSE(alpha=1e-4, tol=1e-3))
    world.kept.pop("latest")
    return out


def iap_fit(world: World) -> dict[str, Any]:
    out = fit(world, IAP(alpha=1e-4, tol=1e-3))
    world.kept.pop("latest")
    return out


FIRST = """
import json, sys, time
start = time.perf_counter()
import numpy as np, torch
X = torch.randn(2000, 512, device=sys.argv[1])
loaded = time.perf_counter()
from zslearn import EXEM
rng = np.random.default_rng(0)
y, signatures = np.arange(2000) % 50, dict(enumerate(rng.standard_normal((60, 20))))
imported = time.perf_counter()
marks = [start, loaded, imported]
for options in ({}, {}, dict(C=0.01), dict(C=0.01)):
    EXEM(n_components=20, **options).fit(X, y, signatures=signatures).predict(X[:9])
    marks.append(time.perf_counter())
print(json.dumps([b - a for a, b in zip(marks, marks[1:])]))
"""


def first_fit(world: World) -> dict[str, Any]:
    """Small fits in a new process with an empty cache of compiled code.

    With the default C the exemplars are interpolated; a small C needs the compiled solver.
    """
    source = str(Path(__file__).parent.parent / "src")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        paths = [source, os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        command = [sys.executable, "-W", "ignore", "-c", FIRST, world.device]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    names = ("torch_s", "import_s", "first_s", "second_s", "first_small_c_s", "second_small_c_s")
    return dict(zip(names, json.loads(run.stdout.splitlines()[-1]), strict=True))


def plain(world: World, X: torch.Tensor, k: int, block: int = 16_384) -> torch.Tensor:
    """The same by plain torch: normalise, project, product, topk, in blocks that fit."""
    model = exem_of(world)
    mean, components, exemplars = (
        torch.asarray(a, dtype=torch.float32, device=X.device)
        for a in (model.mean_, model.components_, model.class_scorer_.parameters)
    )
    half = 0.5 * (exemplars**2).sum(dim=1)
    out = torch.empty((len(X), k), dtype=torch.int64, device=X.device)
    for start in range(0, len(X), block):
        rows = X[start : start + block]
        rows = rows / rows.norm(dim=1, keepdim=True)
        projected = (rows - mean) @ components.T
        out[start : start + block] = (projected @ exemplars.T - half).topk(k, dim=1).indices
    return out


def top_k(world: World) -> dict[str, Any]:
    model, (X, y) = exem_of(world), world.test
    out: dict[str, Any] = {"rows": len(X), "classes": len(model.classes_)}
    for k in (20, 1):
        plain(world, X, k), model.predict_top_k(X, k)  # libraries load on first use
        plain_s, plain_peak, expected = world.timed(lambda k=k: plain(world, X, k), 3)
        ours_s, peak, (labels, _) = world.timed(lambda k=k: model.predict_top_k(X, k), 3)
        scorer_s = world.timed(lambda k=k: model.class_scorer_.top_k(X, k), 3)[0]
        agreement = (labels == model.classes_[expected.cpu().numpy()]).mean()
        out |= {
            f"plain_{k}_s": plain_s, f"ours_{k}_s": ours_s, f"scorer_{k}_s": scorer_s,
            f"ratio_{k}": ours_s / plain_s, f"same_places_{k}": float(agreement),
            f"peak_{k}_gib": peak, f"plain_peak_{k}_gib": plain_peak,
        }  # fmt: skip
    out["accuracy"] = float((labels[:, 0] == y.cpu().numpy()).mean())
    return out


def precision(world: World) -> dict[str, Any]:
    """First classes by less exact products, beside double precision, for images near and far."""
    model = exem_of(world)
    X, _ = world.test
    classes = model.classes_[world.n_seen :]
    out: dict[str, Any] = {}
    for name in ("full", "tf32", "bf16"):
        with score_precision(name):
            out[f"{name}_s"] = world.timed(lambda: model.predict_top_k(X, 20), 3)[0]
    y = world.unseen(min(world.n_test, 65_536))
    for spread in (0.7 * SPREAD, SPREAD, 1.3 * SPREAD):
        few = world.rows(y, spread)
        exact, scores = model.predict_top_k(few.double(), 2, classes=classes)
        margin = (scores[:, 0] - scores[:, 1]) / scores[:, 0].abs()
        found = {
            "accuracy": float((exact[:, 0] == y.cpu().numpy()).mean()),
            "median_margin": float(margin.median()),
        }
        for name in ("full", "tf32", "bf16"):
            with score_precision(name):
                labels, _ = model.predict_top_k(few, 1, classes=classes)
            found[f"{name}_agreement"] = float((labels[:, 0] == exact[:, 0]).mean())
            found[f"{name}_accuracy"] = float((labels[:, 0] == y.cpu().numpy()).mean())
        out[f"spread {spread:.2f}"] = found
    return out


def hierarchical(world: World) -> dict[str, Any]:
    """HP@K of the test rows among all unseen classes, by the metric on the host."""
    model, (X, y) = exem_of(world), world.test
    unseen = model.classes_[world.n_seen :]
    top, _ = model.predict_top_k(X, 20, classes=unseen)
    start = time.perf_counter()
    # Nodes have names of one kind.
    names = unseen.astype(str)
    pairs = [(str(child), parent) for child, parent in world.hierarchy()]
    values = hierarchical_precision_at_k(
        y.cpu().numpy().astype(str), top.astype(str), FLAT[1:], hierarchy=pairs, classes=names
    )
    out: dict[str, Any] = {"rows": len(X), "host_s": time.perf_counter() - start}
    return out | {f"HP@{k}": float(v) for k, v in zip(FLAT[1:], values, strict=True)}


class SetCounts:
    """Hits among the classes of one test set, which are also the candidates.

    Parameters
    ----------
    world : World
        Its device is counted on.
    classes : ndarray of int
        Sorted labels.
    """

    def __init__(self, world: World, classes: np.ndarray) -> None:
        self.world, self.classes = world, classes
        self.inside = torch.zeros(world.n_classes, dtype=torch.bool, device=world.device)
        self.inside[torch.asarray(classes, device=world.device)] = True
        self.hits = np.zeros((len(FLAT), world.n_classes))
        self.counts = np.zeros(world.n_classes)
        self.score_s = self.count_s = self.peak = 0.0

    def add(self, model: EXEM, X: torch.Tensor, y: torch.Tensor) -> None:
        """Score and count the rows of a chunk whose class is in the set."""
        world = self.world
        if len(self.classes) < world.n_classes - world.n_seen:
            chosen = self.inside[y].nonzero()[:, 0]
            if not len(chosen):
                return
            X, y = X[chosen], y[chosen]
        took, peak, (labels, _) = world.timed(
            lambda: model.predict_top_k(X, max(FLAT), classes=self.classes)
        )
        start = time.perf_counter()
        true = y.cpu().numpy()
        right = np.logical_or.accumulate(labels == true[:, None], axis=1)
        for i, k in enumerate(FLAT):
            self.hits[i] += np.bincount(true, right[:, k - 1], minlength=world.n_classes)
        self.counts += np.bincount(true, minlength=world.n_classes)
        self.score_s, self.peak = self.score_s + took, max(self.peak, peak)
        self.count_s += time.perf_counter() - start

    def measures(self) -> dict[str, float]:
        """F@K, which for K = 1 is the accuracy per sample, and the accuracy per class."""
        there = self.counts > 0
        n = self.counts.sum()
        out = {f"F@{k}": float(self.hits[i].sum() / n) for i, k in enumerate(FLAT)}
        out["per_class"] = float((self.hits[0, there] / self.counts[there]).mean())
        return out | {"rows": int(n), "score_s": self.score_s, "count_s": self.count_s}


def test_sets(world: World) -> dict[str, np.ndarray]:
    """All unseen classes; some that stand for two and three hops; the most and least populated.

    Classes of small number have the most images.
    """
    unseen = np.arange(world.n_seen, world.n_classes)
    mixed = np.random.default_rng(0).permutation(unseen)
    small = world.n_classes < 1000
    hops = {"2-hop": 30, "3-hop": 60} if small else {"2-hop": 1509, "3-hop": 7678}
    sizes = {"50": 50} if small else {"500": 500, "1K": 1000, "5K": 5000}
    sets = {"all": unseen} | {name: np.sort(mixed[:n]) for name, n in hops.items()}
    sets |= {f"most {name}": unseen[:n] for name, n in sizes.items()}
    return sets | {f"least {name}": unseen[-n:] for name, n in sizes.items()}


def millions(world: World) -> dict[str, Any]:
    """All test rows in chunks against the classes of every test set, and what is counted."""
    model = exem_of(world)
    for name in ("test", "train", "latest"):
        world.kept.pop(name, None)
    gc.collect()
    sets = {name: SetCounts(world, classes) for name, classes in test_sets(world).items()}
    few = torch.zeros(1000, dtype=torch.int64, device=world.device)
    model.predict_top_k(world.rows(few), 20, classes=sets["all"].classes)  # libraries load
    generate_s, done = 0.0, 0
    start = time.perf_counter()
    while done < world.n_millions:
        begin = time.perf_counter()
        y = world.unseen(min(world.chunk, world.n_millions - done))
        X = world.rows(y)
        world.wait()
        generate_s += time.perf_counter() - begin
        for counts in sets.values():
            counts.add(model, X, y)
        done += len(y)
        del X, y
    out: dict[str, Any] = {
        "rows": done, "classes": len(sets["all"].classes),
        "seconds": time.perf_counter() - start - generate_s, "generate_s": generate_s,
        "score_all_s": sets["all"].score_s, "count_all_s": sets["all"].count_s,
        "peak_gib": max(counts.peak for counts in sets.values()),
    }  # fmt: skip
    return out | {name: counts.measures() for name, counts in sets.items()}


PARTS = {
    part.__name__: part
    for part in (
        first_fit, exem_fit, gaussian_fit, top_k, precision, sync_fit, standardized_fit, conse_fit,
        iap_fit, hierarchical, millions,
    )
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a dry run")
    parser.add_argument("--seconds", type=float, default=330, help="no part begins after so many")
    parser.add_argument("--out", type=Path, help="also write all lines to this JSON file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    world = World(options)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    lines: list[dict[str, Any]] = [
        {"part": "machine", "device": name, "torch": torch.__version__, "small": options.small}
    ]
    print(json.dumps(lines[0]), flush=True)
    for part in options.parts or PARTS:
        start = time.perf_counter()
        line: dict[str, Any] = {"part": part}
        if start - begin > options.seconds:
            line["skipped"] = "no time left"
        else:
            try:
                line |= PARTS[part](world)
            except Exception as error:
                trace = traceback.format_exc().splitlines()[-6:]
                line |= {"error": f"{type(error).__name__}: {error}"[:300], "trace": trace}
        line["whole_part_s"] = time.perf_counter() - start
        lines.append(line)
        print(json.dumps(line), flush=True)
        if options.out is not None:
            record = {
                "title": "ImageNet-21K's shape on one GPU",
                "date": date.today().isoformat(),
                "command": "python benchmarks/bench_imagenet_cuda.py",
                "machine": {
                    "device": name,
                    "torch": torch.__version__,
                    "cores": os.cpu_count(),
                    "python": platform.python_version(),
                },
                "rows": lines[1:],
            }
            options.out.write_text(json.dumps(record, indent=1) + "\n")
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
