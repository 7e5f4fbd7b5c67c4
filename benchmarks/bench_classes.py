"""How fitting grows with the number of seen classes, and what many described classes cost.

The peer of fitting, with one image of each class, is scikit-learn's regularised multi-class model
on the same rows (a ridge classifier, whose cost grows with classes × features² alone), so that a
ratio tells what the method adds. The peers of predictions among many described classes are NumPy's
product and partition of all scores, and the exact index of FAISS if it is installed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from _common import Report, fitted_exponent, interleaved
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier

import zslearn
from zslearn.baselines import ESZSL, ConSE
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

N_FEATURES, N_ATTRIBUTES = 256, 64


def samples(n_classes: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """One image of each class, half of it noise."""
    rng = np.random.default_rng(0)
    signatures = rng.standard_normal((n_classes, N_ATTRIBUTES))
    means = signatures @ rng.standard_normal((N_ATTRIBUTES, N_FEATURES)) / 8
    X = means + 0.5 * rng.standard_normal(means.shape)
    return X.astype(np.float32), np.arange(n_classes), pd.DataFrame(signatures)


def processor_seconds(function) -> float:
    """The cost of a call, independent of other load on the machine."""
    start = time.process_time()
    function()
    return time.process_time() - start


def described(n_classes: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Four images of each of 1,000 classes, and the signatures of many more."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((n_classes, 48)).astype(np.float32)
    lift, y = rng.standard_normal((48, 512)) / 7, np.repeat(np.arange(1000), 4)
    X = np.maximum(hidden[y] @ lift + 0.7 * rng.standard_normal((len(y), 512)), 0)
    signatures = hidden @ rng.standard_normal((48, 128)).astype(np.float32)
    return X.astype(np.float32), y, pd.DataFrame(signatures)


def peak_bytes() -> int:
    """Largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Opens a model in a new process; prints milliseconds, and the growth of its memory in bytes.
OPEN = """
import sys, time, zslearn
from zslearn import EXEM
from zslearn.baselines import ESZSL
from zslearn.persistence import load
used = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
before, start = used(), time.perf_counter()
model = load(sys.argv[1], verify=False)
print(1e3 * (time.perf_counter() - start), used() - before)
"""


def measure_described(report: Report, n_classes: int) -> None:
    """Cost of fitting, predicting, changing and opening a model of many described classes."""
    X, y, signatures = described(n_classes)
    for name, model in {"ESZSL": ESZSL(), "EXEM": EXEM(tol=0.1)}.items():
        before = peak_bytes()
        fit_seconds = processor_seconds(lambda m=model: m.fit(X, y, signatures=signatures))
        scorer = model.class_scorer_
        head = np.asarray(scorer.parameters)
        held = head.nbytes + model.signature_table_.arrays[0].nbytes
        common = {"method": f"{name}, described", "classes": n_classes}
        report.add(
            **common,
            work="fit",
            seconds=fit_seconds,
            peak_over_held=(peak_bytes() - before) / held,
        )
        single = head.astype(np.float32, copy=False)
        index = None
        if find_spec("faiss"):
            import faiss

            faiss.omp_set_num_threads(1)
            is_distance = scorer.score == "euclidean"
            index = (faiss.IndexFlatL2 if is_distance else faiss.IndexFlatIP)(single.shape[1])
            index.add(single)
        for n_rows in (1, 64, 1024):
            rows = X[:n_rows]
            embedded = np.asarray(scorer.embedding(rows), dtype=np.float32)
            labels = model.predict_top_k(rows, 5)[0]
            calls = {
                "ours": lambda m=model, rows=rows: m.predict_top_k(rows, 5),
                "numpy": lambda e=embedded, p=single: np.concatenate(
                    [
                        np.argpartition(part @ p.T, -5)[:, -5:].copy()
                        for part in np.array_split(e, -(-len(e) // 64))
                    ]
                ),
            }
            same = ""
            if index is not None:
                calls["faiss"] = lambda e=embedded, i=index: i.search(e, 5)
                same = float((index.search(embedded, 5)[1] == labels).mean())
            cost = interleaved(calls, 1 if n_rows > 64 else 3)
            ours = cost.pop("ours")
            ratios = {f"ratio_{peer}": ours / peer_cost for peer, peer_cost in cost.items()}
            report.add(**common, work=f"top 5, rows: {n_rows}", seconds=ours, **ratios, same=same)
        del index
        few = scorer.labels[:: max(1, n_classes // 1000)]
        one = signatures.iloc[:1].set_axis([-1])
        model.add_classes(one).remove_classes([-1])
        cost = interleaved(
            {
                "change": lambda m=model, one=one: m.add_classes(one).remove_classes([-1]),
                "pass": lambda p=single: p @ p[0],
                "some": lambda m=model, few=few: m.predict_top_k(X[:1], 5, classes=few),
            },
            5,
        )
        for work, seconds in (("add and remove one", "change"), ("top 5 of 1,000", "some")):
            ratio = cost[seconds] / cost["pass"]
            report.add(**common, work=work, seconds=cost[seconds], ratio_numpy=ratio)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.zsl"
            zslearn.save(model, path)
            size = path.stat().st_size
            opened = subprocess.check_output([sys.executable, "-c", OPEN, str(path)], text=True)
        milliseconds, grown = map(float, opened.split())
        report.add(
            **common,
            work="open",
            seconds=milliseconds / 1e3,
            megabytes=grown / 2**20,
            file_over_held=size / held,
        )


def measure_approximate(report: Report, n_classes: int) -> None:
    """The best five classes of one row, beside indexes that find 99 % of them."""
    import faiss
    from usearch.index import Index

    faiss.omp_set_num_threads(1)
    X, y, signatures = described(n_classes)
    model = EXEM(tol=0.1).fit(X, y, signatures=signatures)
    scorer = model.class_scorer_
    head = np.asarray(scorer.parameters, dtype=np.float32)
    rows = np.asarray(scorer.embedding(X), dtype=np.float32)[:: len(X) // 256][:256]
    flat = faiss.IndexFlatL2(head.shape[1])
    flat.add(head)
    exact = flat.search(rows, 5)[1]
    inverted = faiss.IndexIVFFlat(flat, head.shape[1], 1024)
    inverted.train(head[:: max(1, n_classes // 50_000)])
    inverted.add(head)
    graph = Index(ndim=head.shape[1], metric="l2sq", dtype="i8")
    # The lengths of 8-bit integers are bounded.
    scale = 1 / np.abs(head).max()
    graph.add(np.arange(len(head)), head * scale, threads=1)

    def settings():
        for probes in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            inverted.nprobe = probes
            yield "FAISS IVF", probes, lambda rows: inverted.search(rows, 5)[1]
        for width in (16, 64, 256, 1024, 4096, 16_384):
            graph.expansion_search = width

            def search(rows):
                found = graph.search(rows * scale, 5, threads=1).keys
                return np.asarray(found, dtype=np.int64).reshape(len(rows), -1)

            yield "usearch, 8 bits", width, search

    def recall(found: np.ndarray) -> float:
        pairs = zip(found, exact, strict=True)
        return float(np.mean([np.isin(own, best).mean() for best, own in pairs]))

    best: dict[str, float] = {}
    one = X[:1]
    embedded = np.asarray(scorer.embedding(one), dtype=np.float32)
    for name, setting, search in settings():
        if best.get(name, 0) >= 0.99:
            continue
        best[name] = recall(search(rows))
        calls = {
            "ours": lambda: model.predict_top_k(one, 5),
            "peer": lambda s=search: s(embedded),
        }
        cost = interleaved(calls, 20)
        report.add(
            method="EXEM, described",
            classes=n_classes,
            work=f"top 5 of one row, {name}, {setting}",
            seconds=cost["ours"],
            ratio_approximate=cost["ours"] / cost["peer"],
            recall=best[name],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 1,000 classes")
    parser.add_argument("--described", type=int, help="only this number of described classes")
    parser.add_argument("--approximate", action="store_true", help="only beside such indexes")
    options = parser.parse_args()
    sizes = (250, 500, 1000) if options.quick else (500, 1000, 2000, 4000, 5000)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    if options.approximate:
        report = Report("classes_approximate", "Exact answers beside approximate indexes")
        measure_approximate(report, options.described or (20_000 if options.quick else 300_000))
        report.save()
        return
    part = None if options.described is None else f"described-{options.described}"
    report = Report("classes", "Many seen and many described classes, processor seconds", part)
    measure_described(report, options.described or (20_000 if options.quick else 300_000))
    if options.described is not None:
        report.save()
        return
    methods = {
        "EXEM": EXEM(),
        "GaussianEXEM": GaussianEXEM(),
        "SynC o-vs-o": SynC(),
        "ConSE": ConSE(),
        "ESZSL": ESZSL(),
    }
    for name, method in methods.items():
        X, y, signatures = samples(100)
        method.fit(X, y, signatures=signatures)  # compiles
        costs = []
        for n_classes in sizes:
            X, y, signatures = samples(n_classes)
            peer = processor_seconds(lambda X=X, y=y: RidgeClassifier().fit(X, y))
            fit = lambda X=X, y=y, S=signatures, m=method: m.fit(X, y, signatures=S)  # noqa: E731
            costs.append(processor_seconds(fit))
            report.add(
                method=name,
                classes=n_classes,
                peer_seconds=peer,
                seconds=costs[-1],
                ratio=costs[-1] / peer,
                exponent=""
                if len(costs) < 2
                else fitted_exponent(sizes[: len(costs)][-2:], costs[-2:]),
            )
    report.save()


if __name__ == "__main__":
    main()
