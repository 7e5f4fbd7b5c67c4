"""Saving and loading a model of CUB's shape, beside joblib.

EXEM with 150 seen and 50 unseen classes, 312 attributes, 2,048 features and 500 components. joblib
writes a pickle: it checks nothing, and loading it can run code. A model file is checked when it is
written, hashed, and brought to the disk before it takes its place; loading compares the hash,
checks every part, and tries the model.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from _common import Report, seconds

import zslearn
from zslearn import persistence
from zslearn.baselines import ESZSL
from zslearn.synthesis import EXEM, SynC

N_SEEN, N_UNSEEN, N_ATTRIBUTES, N_FEATURES, PER_CLASS = 150, 50, 312, 2048, 10


def samples(n_features: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Samples of classes that differ by a linear map of their attributes."""
    rng = np.random.default_rng(0)
    signatures = rng.random((N_SEEN + N_UNSEEN, N_ATTRIBUTES))
    means = signatures @ rng.standard_normal((N_ATTRIBUTES, n_features))
    y = np.repeat(np.arange(N_SEEN), PER_CLASS)
    X = means[y] + rng.standard_normal((len(y), n_features))
    return X, y, pd.DataFrame(signatures)


def measured(model: Any, X: np.ndarray, folder: Path) -> dict[str, Any]:
    """Sizes of the two files of a model, and seconds to write and to read them."""
    file, pickle = folder / "model.zsl", folder / "model.joblib"
    save, _ = seconds(lambda: zslearn.save(model, file), 5)
    load, loaded = seconds(lambda: zslearn.load(file), 5)
    describe, _ = seconds(lambda: persistence.describe(file), 5)
    dump, _ = seconds(lambda: joblib.dump(model, pickle), 5)
    unpickle, _ = seconds(lambda: joblib.load(pickle), 5)
    return {
        "megabytes": file.stat().st_size / 1e6,
        "joblib_megabytes": pickle.stat().st_size / 1e6,
        "save_s": save,
        "joblib_dump_s": dump,
        "load_s": load,
        "joblib_load_s": unpickle,
        "describe_s": describe,
        "same_scores": np.array_equal(loaded.decision_function(X), model.decision_function(X)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="256 features")
    X, y, signatures = samples(256 if parser.parse_args().quick else N_FEATURES)
    report = Report("persistence", "A saved model of CUB's shape, beside joblib")
    for name, method in {"EXEM": EXEM(), "SynC o-vs-o": SynC(), "ESZSL": ESZSL()}.items():
        model = method.fit(X, y, signatures=signatures)
        with tempfile.TemporaryDirectory() as folder:
            report.add(method=name, **measured(model, X, Path(folder)))
    report.save()


if __name__ == "__main__":
    main()
