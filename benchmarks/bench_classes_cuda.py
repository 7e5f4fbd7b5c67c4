"""Many described classes on a GPU and on its host: fitting, and the best classes of a few rows.

python benchmarks/bench_classes_cuda.py [--described 1000000]

The peer of predictions on the GPU is plain torch: the product of all scores, and topk.
"""

from __future__ import annotations

import argparse
import gc

import _common
import numpy as np
import torch
from bench_classes import described

from zslearn.baselines import ESZSL
from zslearn.synthesis import EXEM, GaussianEXEM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 described classes")
    parser.add_argument("--described", type=int, default=1_000_000)
    options = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    _common.PACKAGES = (*_common.PACKAGES, "torch")
    report = _common.Report("classes_cuda", "Many described classes, seconds on the clock")
    X, y, signatures = described(20_000 if options.quick else options.described)
    few = signatures.iloc[:1100]

    def wait() -> None:
        if has_gpu:
            torch.cuda.synchronize()

    for name, method in {"EXEM": EXEM, "ESZSL": ESZSL, "GaussianEXEM": GaussianEXEM}.items():
        for device in ("host", "cuda") if has_gpu else ("host",):
            rows = X if device == "host" else torch.asarray(X, device=device)
            method().fit(rows, y, signatures=few)  # libraries load, functions compile
            model = method()

            def fit(model=model, rows=rows) -> None:
                model.fit(rows, y, signatures=signatures)
                wait()

            row = {"method": name, "classes": len(signatures), "device": device}
            row["fit_s"] = _common.seconds(fit)[0]
            head = model.class_scorer_.parameters
            row["head_gib"] = head.nbytes / 2**30
            for n_rows in (1, 1024):
                some = rows[:n_rows]

                def ours(model=model, some=some) -> np.ndarray:
                    return model.predict_top_k(some, 5)[0]

                ours()
                row[f"top5_{n_rows}_s"], labels = _common.seconds(ours, 3)
                if device == "host":
                    continue
                embedded = model.class_scorer_.embedding(some)
                classes = torch.asarray(head, device=device, dtype=embedded.dtype)
                is_distance = model.class_scorer_.score == "euclidean"
                half = 0.5 * (classes**2).sum(dim=1) if is_distance else 0.0

                def plain(e=embedded, p=classes, half=half) -> np.ndarray:
                    parts = [(part @ p.T - half).topk(5).indices for part in e.split(256)]
                    return torch.cat(parts).cpu().numpy()

                plain()
                row[f"plain_{n_rows}_s"], expected = _common.seconds(plain, 3)
                row[f"same_{n_rows}"] = float((model.classes_[expected] == labels).mean())
            report.add(**row)
            del model, head
            gc.collect()
    if has_gpu or options.quick:
        print(report.save(device=torch.cuda.get_device_name() if has_gpu else None))


if __name__ == "__main__":
    main()
