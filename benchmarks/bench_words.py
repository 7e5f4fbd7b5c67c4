"""Classes described in words: kinds of sentences, learned weights, and ten thousand candidates.

Made-up vectors in the shape of CUB with sixty sentences of a language model per class, and of the
birds of the world. Encoding texts is no part of it: that is the encoder's time.
"""

from __future__ import annotations

import argparse
import time
from copy import deepcopy

import numpy as np
import pandas as pd
from _common import Report

from zslearn.signatures import MultiSignatures, SentenceKinds, taxonomy_signatures
from zslearn.synthesis import GaussianEXEM

N_SEEN, N_SENTENCES, N_DIMENSIONS = 150, 60, 384
N_FEATURES, PER_CLASS, N_IMAGES, N_SPECIES = 1280, 50, 3000, 10_965


def processor_seconds(function, repeats: int = 1):
    """The least that a call costs, whatever else the machine does, and what it gave."""
    costs = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        costs.append(time.process_time() - start)
    return min(costs), result


def world(n_species: int) -> tuple[dict[str, np.ndarray], pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Sentences of the seen classes, vectors and ranks of all, and means of the seen ones."""
    rng = np.random.default_rng(0)
    labels = [f"species {i:05d}" for i in range(n_species)]
    genus = rng.integers(0, n_species // 5, n_species)
    ranks = pd.DataFrame(
        {
            "order": [f"order {g % 40}" for g in genus],
            "family": [f"family {g % 240}" for g in genus],
            "genus": [f"genus {g}" for g in genus],
        },
        index=labels,
    )
    vectors = rng.standard_normal((n_species // 5, N_DIMENSIONS))[genus]
    vectors += rng.standard_normal(vectors.shape)
    sentences = {
        label: row + 2 * rng.standard_normal((N_SENTENCES, N_DIMENSIONS))
        for label, row in zip(labels[:N_SEEN], vectors, strict=False)
    }
    means = vectors[:N_SEEN] @ rng.standard_normal((N_DIMENSIONS, N_FEATURES)) / N_DIMENSIONS**0.5
    return sentences, pd.DataFrame(vectors, index=labels), ranks, means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 species")
    n_species = 1000 if parser.parse_args().quick else N_SPECIES
    report = Report("words", "Classes described in words, processor seconds")
    sentences, vectors, ranks, means = world(n_species)
    seen = vectors.index[:N_SEEN]
    rng = np.random.default_rng(1)
    y = np.repeat(seen, PER_CLASS)
    X = np.repeat(means, PER_CLASS, axis=0)
    X = (X + 2 * rng.standard_normal(X.shape)).astype(np.float32)

    cost, kinds = processor_seconds(lambda: SentenceKinds().fit_transform(sentences))
    shape = f"{N_SEEN} classes × {N_SENTENCES} sentences × {N_DIMENSIONS} numbers"
    report.add(what="kinds of sentences", of=shape, seconds=cost)

    pooled = pd.DataFrame({label: rows.mean(axis=0) for label, rows in sentences.items()}).T
    views = {"text": vectors.loc[seen], "sentences": pooled, "kinds": kinds}
    views |= taxonomy_signatures(ranks.loc[seen]).views
    for what, gamma in (("equal weights", 1.0), ("learned weights", "learned")):
        model = GaussianEXEM(gamma=gamma, unlabelled_weight=0.5)
        cost, _ = processor_seconds(
            lambda model=model: model.fit(X, y, signatures=MultiSignatures(views))
        )
        report.add(what=f"fit, {what}", of=f"{N_SEEN} classes, {len(views)} views", seconds=cost)

    of = f"{n_species:,} species by text and ranks"
    cost, of_ranks = processor_seconds(lambda: taxonomy_signatures(ranks), repeats=3)
    report.add(what="signatures of ranks", of=of, seconds=cost)
    whole = MultiSignatures({"text": vectors, **of_ranks.views})
    known, further = (
        MultiSignatures({name: view.loc[part] for name, view in whole.views.items()})
        for part in (seen, vectors.index[N_SEEN:])
    )
    model = GaussianEXEM(unlabelled_weight=0.5).fit(X, y, signatures=known)
    images = X[rng.permutation(len(X))[:N_IMAGES]]
    model.predict_top_k(images[:10], 5)  # loads what is compiled
    cost, model = processor_seconds(lambda: deepcopy(model).add_classes(further), repeats=3)
    report.add(what="describe to a model", of=of, seconds=cost)
    cost, _ = processor_seconds(lambda: model.predict_top_k(images, 5), repeats=3)
    report.add(what=f"score {len(images):,} images", of=of, seconds=cost)
    report.save()


if __name__ == "__main__":
    main()
