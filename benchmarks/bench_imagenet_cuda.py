"""ImageNet-21K's shape on one GPU, with synthetic rows: fitting, scoring, memory.

1,281,167 rows of 2,048 features and 1,000 seen classes; 21,345 described classes. Each part prints
one line of JSON as it ends, and a part that fails says so and does not end the others.

    python benchmarks/bench_imagenet_cuda.py                  # all parts, some minutes
    python benchmarks/bench_imagenet_cuda.py top_k millions   # some parts
    python benchmarks/bench_imagenet_cuda.py --small --device cpu   # a dry run anywhere

Parts: first_fit, exem_fit, top_k, precision, sync_fit, standardized_fit, conse_fit, iap_fit,
millions. `millions` with `exem_fit` is the whole experiment, generation of rows apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
import traceback
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from zslearn.baselines import IAP, ConSE
from zslearn.scoring import score_precision
from zslearn.synthesis import EXEM, SynC

GIB = 2**30
FLAT = (1, 2, 5, 10, 20)


class World:
    """Classes with signatures, and rows around a smooth function of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = options.device
        small = options.small
        self.n_rows = 6_000 if small else 1_281_167
        self.n_features = 64 if small else 2048
        self.n_seen = 20 if small else 1000
        self.n_classes = 300 if small else 21_345
        self.n_test = 2_000 if small else 262_144
        self.n_millions = 8_000 if small else 14_200_000
        self.chunk = 4_000 if small else 1_014_286
        latent = 24 if small else 100
        self.random = torch.Generator(self.device).manual_seed(0)
        self.signatures = self.normal(self.n_classes, latent)
        inner = torch.tanh(self.signatures @ self.normal(latent, 300) / latent**0.5)
        self.means = torch.relu(inner @ self.normal(300, self.n_features) / 300**0.5)
        self.table = pd.DataFrame(self.signatures.cpu().numpy().astype(np.float64))
        self.kept: dict[str, Any] = {}

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, generator=self.random)

    def rows(self, classes: torch.Tensor) -> torch.Tensor:
        """Rows of classes, made block by block."""
        out = torch.empty((len(classes), self.n_features), device=self.device)
        for start in range(0, len(classes), 1 << 16):
            part = slice(start, min(start + (1 << 16), len(classes)))
            noise = self.normal(part.stop - part.start, self.n_features)
            out[part] = torch.relu(self.means[classes[part]] + 0.8 * noise)
        return out

    @property
    def train(self) -> tuple[torch.Tensor, np.ndarray]:
        if "train" not in self.kept:
            y = torch.arange(self.n_rows, device=self.device) % self.n_seen
            self.kept["train"] = self.rows(y), y.cpu().numpy()
        return self.kept["train"]

    @property
    def test(self) -> tuple[torch.Tensor, torch.Tensor]:
        if "test" not in self.kept:
            y = torch.randint(
                self.n_seen, self.n_classes, (self.n_test,), device=self.device,
                generator=self.random,
            )  # fmt: skip
            self.kept["test"] = self.rows(y), y
        return self.kept["test"]

    @property
    def exem(self) -> EXEM:
        if "exem" not in self.kept:
            exem_fit(self)
        return self.kept["exem"]

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, function: Any, repeats: int = 1) -> tuple[float, float, Any]:
        """Shortest time, largest memory in GiB (with the rows), and the last result."""
        best, result = float("inf"), None
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(repeats):
            result = None
            self.wait()
            start = time.perf_counter()
            result = function()
            self.wait()
            best = min(best, time.perf_counter() - start)
        peak = torch.cuda.max_memory_allocated() / GIB if self.device == "cuda" else 0.0
        return best, peak, result


def fit(world: World, model: Any) -> dict[str, Any]:
    X, y = world.train
    seconds, peak, fitted = world.timed(lambda: model.fit(X, y, signatures=world.table))
    world.kept["latest"] = fitted
    return {"seconds": seconds, "peak_gib": peak, "rows_gib": X.nbytes / GIB}


def exem_fit(world: World) -> dict[str, Any]:
    out = fit(world, EXEM(tol=1e-4))
    world.kept["exem"] = world.kept.pop("latest")
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


def first_fit(world: World) -> dict[str, Any]:
    """A small fit in this process: what is compiled is compiled here."""
    X, y = world.train
    few = torch.arange(0, len(X), max(1, len(X) // 2000), device=X.device)
    labels = y[few.cpu().numpy()]
    model = EXEM(n_components=20)
    out = {}
    for name in ("first_seconds", "second_seconds"):
        out[name] = world.timed(lambda: model.fit(X[few], labels, signatures=world.table))[0]
    return out


def plain(world: World, X: torch.Tensor, k: int, block: int = 16_384) -> torch.Tensor:
    """The same by plain torch: normalise, project, product, topk, in blocks that fit."""
    model = world.exem
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
    model, (X, y) = world.exem, world.test
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
    model, (X, _) = world.exem, world.test
    few = X[: min(len(X), 32_768)]
    exact, scores = model.predict_top_k(few.double(), 2)
    margin = (scores[:, 0] - scores[:, 1]) / scores[:, 0].abs()
    out: dict[str, Any] = {"median_margin": float(margin.median())}
    for name in ("full", "tf32", "bf16"):
        with score_precision(name):
            labels, _ = model.predict_top_k(few, 1)
            out[f"{name}_agreement"] = float((labels[:, 0] == exact[:, 0]).mean())
            out[f"{name}_s"] = world.timed(lambda: model.predict_top_k(X, 20), 3)[0]
    return out


def millions(world: World) -> dict[str, Any]:
    """All test rows in chunks against the unseen classes, and what is counted of them."""
    model = world.exem
    for name in ("test", "train", "latest"):
        world.kept.pop(name, None)
    gc.collect()
    unseen = model.classes_[world.n_seen :]
    n_classes = world.n_classes
    hits = np.zeros((len(FLAT), n_classes), dtype=np.int64)
    counts = np.zeros(n_classes, dtype=np.int64)
    few = torch.zeros(1000, dtype=torch.int64, device=world.device)
    model.predict_top_k(world.rows(few), 20, classes=unseen)  # libraries load on first use
    score_s = count_s = generate_s = 0.0
    done, peak = 0, 0.0
    while done < world.n_millions:
        start = time.perf_counter()
        n = min(world.chunk, world.n_millions - done)
        y = torch.randint(
            world.n_seen, n_classes, (n,), device=world.device, generator=world.random
        )
        X = world.rows(y)
        true = y.cpu().numpy()
        world.wait()
        generate_s += time.perf_counter() - start
        took, chunk_peak, (labels, _) = world.timed(
            lambda X=X: model.predict_top_k(X, 20, classes=unseen)
        )
        score_s, peak = score_s + took, max(peak, chunk_peak)
        start = time.perf_counter()
        right = labels == true[:, None]
        for i, k in enumerate(FLAT):
            hits[i] += np.bincount(true, weights=right[:, :k].any(axis=1), minlength=n_classes
                                   ).astype(np.int64)  # fmt: skip
        counts += np.bincount(true, minlength=n_classes)
        count_s += time.perf_counter() - start
        del X, y, labels
        done += n
    out: dict[str, Any] = {
        "rows": done, "classes": len(unseen), "score_s": score_s, "count_s": count_s,
        "generate_s": generate_s, "peak_gib": peak,
    }  # fmt: skip
    # Two and three hops, most and least populated are sets of classes: here shares of them.
    seen = world.n_seen
    sets = {
        "all": slice(seen, None), "2-hop": slice(seen, seen + 1509),
        "3-hop": slice(seen, seen + 7678), "most": slice(-500, None),
    }  # fmt: skip
    for name, part in sets.items():
        n = np.maximum(counts[part], 1)
        out[name] = {f"F@{k}": float(hits[i, part].sum() / n.sum()) for i, k in enumerate(FLAT)}
        out[name]["per_class"] = float((hits[0, part] / n).mean())
    return out


PARTS = {
    part.__name__: part
    for part in (
        first_fit, exem_fit, top_k, precision, sync_fit, standardized_fit, conse_fit, iap_fit,
        millions,
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
                "machine": {"device": name, "torch": torch.__version__, "cores": os.cpu_count()},
                "rows": lines[1:],
            }
            options.out.write_text(json.dumps(record, indent=1) + "\n")
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
