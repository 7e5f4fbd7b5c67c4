"""The whole grid C × ν × γ of ν-SVRs on one GPU, through the array API.

645 classes, 1,000 dimensions, C 11 × ν 9 × γ 9: 891,000 regressors, to a violation of 1e-3 that is
checked once more on the host for some of them.

    python benchmarks/bench_nu_svr_cuda.py
    python benchmarks/bench_nu_svr_cuda.py --device cpu --classes 60 --dims 20   # a dry run
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import _common
from bench_nu_svr import PENALTIES, SHARES, WIDTHS, synthetic

from zslearn._solvers.nu_svr._path import nu_svr_paths
from zslearn.solvers import nu_svr_path

# Problems that took more were finished by pairs of coefficients.
STEPS_ON_DEVICE = 200


def _violation(K, Y, beta, C, nu):
    """The optimality conditions of one target on the host, apart from the solver's own code."""
    r = Y - K @ beta
    up, down = r[beta < C].max(), r[beta > -C].min()
    if np.abs(beta).sum() < C * nu * len(Y) * (1 - 1e-10):
        return max(0.0, up - down)
    return max(0.0, up - r[beta > 0].min(), r[beta < 0].max() - down)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--classes", type=int, default=645)
    parser.add_argument("--dims", type=int, default=1000)
    options = parser.parse_args()
    signatures, targets = synthetic(options.classes, 102, options.dims)
    A = torch.tensor(signatures, device=options.device)
    Y = torch.tensor(targets, device=options.device)
    squares = torch.cdist(A, A, compute_mode="donot_use_mm_for_euclid_dist") ** 2

    def wait() -> None:
        if A.is_cuda:
            torch.cuda.synchronize()

    # Libraries load, kernels compile, those of pairs on the host too: not part of the time.
    few = torch.exp(-squares[:50, :50])
    list(nu_svr_path(few, Y[:50, :4], C=[0.1, 1.0], nu=[0.1, 0.5]))
    list(nu_svr_path(few.cpu().numpy(), targets[:50, :4], C=[0.01], nu=[0.1]))
    wait()
    _common.PACKAGES = (*_common.PACKAGES, "torch")
    device = torch.cuda.get_device_name() if A.is_cuda else "cpu"
    size = (options.classes, options.dims)
    part = None if size == (645, 1000) else "{}x{}".format(*size)
    report = _common.Report("nu_svr_cuda", f"ν-SVR: grid C 11 × ν 9 × γ 9 on {device}", part)
    rng = np.random.default_rng(0)
    whole = 0.0
    for gamma in WIDTHS:
        start = time.perf_counter()
        K = torch.exp(-gamma * squares)
        worst, steps, on_host, n = 0.0, 0, 0, 0
        kept = []
        for fit in nu_svr_path(K, Y, C=PENALTIES, nu=SHARES):
            worst = max(worst, float(fit.violation.max()))
            steps += int(fit.n_iter.sum())
            on_host += int((fit.n_iter > STEPS_ON_DEVICE).sum())
            n += fit.violation.shape[0]
            j = int(rng.integers(options.dims))
            kept.append((fit.C, fit.nu, j, fit.coef[:, j].cpu().numpy()))
        wait()
        took = time.perf_counter() - start
        whole += took
        host = K.cpu().numpy()
        checked = max(_violation(host, targets[:, j], b, C, nu) for C, nu, j, b in kept)
        report.add(
            gamma=gamma, classes=options.classes, dims=options.dims, settings=len(kept),
            seconds=took, violation=worst, violation_on_host=float(checked),
            steps=steps / n, finished_on_host=on_host / n,
        )  # fmt: skip
    start = time.perf_counter()
    kernels = [torch.exp(-gamma * squares) for gamma in WIDTHS]
    together = [
        float(fit.violation.max()) for _, fit in nu_svr_paths(kernels, Y, C=PENALTIES, nu=SHARES)
    ]
    wait()
    took = time.perf_counter() - start
    for name, value, worst in (
        ("all, one after another", whole, max(row["violation"] for row in report.rows)),
        ("all together", took, max(together)),
    ):
        report.add(
            gamma=name, classes=options.classes, dims=options.dims,
            settings=len(together), seconds=value, floor=60.0,
            violation=worst, host_cores=joblib.cpu_count(),
        )  # fmt: skip
    if A.is_cuda:
        print(report.save(device=device))


if __name__ == "__main__":
    main()
