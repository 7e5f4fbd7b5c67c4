"""SynC's one-versus-other training on a GPU: the same path on the host and as a torch tensor.

python benchmarks/bench_sync_cuda.py            # N = 19,832, D = 2,048, C = 40
python benchmarks/bench_sync_cuda.py --quick
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import torch
from _common import Report, seconds
from bench_sync import ALPHAS, make_rows

from zslearn.base import to_numpy
from zslearn.solvers import multiclass_svm_path


def path_on(X: Any, y: Any, tol: float) -> tuple[float, Any]:
    def solve() -> Any:
        results = multiclass_svm_path(X, y, alphas=ALPHAS, tol=tol)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return results

    return seconds(solve)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tol", type=float, default=1e-3)
    options = parser.parse_args()
    size = (4000, 256, 20) if options.quick else (19_832, 2048, 40)
    X, y, _ = make_rows(*size)
    warnings.simplefilter("ignore")
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: torch on the CPU"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    report = Report("sync_cuda", "SynC o-vs-o path of 12, N = {:,}, D = {:,}, C = {}".format(*size))
    host_s, host = path_on(X, y, options.tol)
    for dtype in (torch.float64, torch.float32):
        rows = torch.asarray(X, dtype=dtype, device=device)
        path_on(rows[:500], y[:500], 0.5)  # libraries load on first use
        start = time.perf_counter()
        gpu_s, results = path_on(rows, y, options.tol)
        assert all(result.coef.device == rows.device for result in results)
        distance = max(
            np.linalg.norm(to_numpy(a.coef) - b.coef) / np.linalg.norm(b.coef)
            for a, b in zip(results, host, strict=True)
        )
        report.add(
            dtype=str(dtype).removeprefix("torch."),
            host_s=host_s,
            gpu_s=gpu_s,
            ratio=host_s / gpu_s,
            worst_relative_gap=max(result.relative_gap for result in results),
            worst_objective_ratio=max(
                a.objective / b.objective for a, b in zip(results, host, strict=True)
            ),
            coef_distance=float(distance),
            total_s=time.perf_counter() - start,
        )
    if device == "cuda":
        report.save(device=name)


if __name__ == "__main__":
    main()
