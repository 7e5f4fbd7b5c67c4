"""
Add a method
============

A method is one class. This example follows :ref:`add_a_method` and implements linear discriminant
analysis with class means that are predicted from signatures. The method is then checked, tuned, and
compared with methods of the library.
"""

# %%
# The method
# ----------
#
# The mean of a class is predicted from its signature by ridge regression. Features are whitened by
# the covariance within classes, and an image belongs to the class with the nearest predicted mean.
# There are two penalties. Means, covariance and eigenvectors do not depend on them and are computed
# once for all settings; settings with the same `alpha_features` also share the whitening map.

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from zslearn.base import ZeroShotClassifier, group_by_params, inherit_docs, move_like, to_numpy


@inherit_docs
@dataclass(eq=False, repr=False)
class PredictedLDA(ZeroShotClassifier):
    """Linear discriminant analysis with class means that signatures predict.

    Parameters
    ----------
    alpha_features : float, default=10.0
        Added to the variance within classes, in every direction.
    alpha_signatures : float, default=0.1
        Penalty of the regression from signatures to class means.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the features.
    map_ : ndarray of shape (n_features, n_features)
        Whitens the features.
    coef_ : ndarray of shape (n_attributes, n_features)
        Maps signatures to class means.
    """

    alpha_features: float = 10.0
    alpha_signatures: float = 0.1

    score_function = "euclidean"
    embedding_attributes = ("mean_", "map_")
    grids: ClassVar = {
        "fast": {
            "alpha_features": [1.0, 10.0, 100.0, 1000.0],
            "alpha_signatures": [0.01, 0.1, 1.0, 10.0],
        }
    }
    _parameter_constraints: ClassVar = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha_features": [Interval(Real, 0, None, closed="neither")],
        "alpha_signatures": [Interval(Real, 0, None, closed="neither")],
    }

    @classmethod
    def _fit_many(cls, training, variants):
        moments = training.moments(center=True)
        total, sums, mean = map(to_numpy, moments)
        means = sums / training.counts[:, None]
        values, vectors = np.linalg.eigh(total - means.T @ sums)  # the scatter within classes
        A = training.signatures
        for group in group_by_params(variants, "alpha_features"):
            sphere = vectors / np.sqrt(values.clip(0) + group[0].alpha_features)
            for variant in group:
                variant.mean_, variant.map_ = mean, sphere
                gram = A.T @ A + variant.alpha_signatures * np.eye(A.shape[1])
                variant.coef_ = np.linalg.solve(gram, A.T @ means)
                yield variant

    def embed(self, X):
        return (X - move_like(self.mean_, X)) @ move_like(self.map_, X)

    def synthesize(self, signatures, labels=None):
        return signatures @ self.coef_ @ self.map_


# %%
# Check the method
# ----------------
#
# The methods of the library pass the same checks, which include those of scikit-learn. The first
# failing check would end the script with an error that explains the problem.

from collections import Counter

from zslearn.base.checks import check_zero_shot_estimator

results = check_zero_shot_estimator(PredictedLDA())
print(dict(Counter(result["status"] for result in results)))
for result in results:
    if result["status"] == "skipped":
        print(f"skipped: {result['check_name']}, {result['reason']}")

# %%
# Tune the method
# ---------------
#
# A search over sixteen settings and five folds needs 80 models, and one more for the chosen
# setting. To see how much work is shared, count the calls of `_fit_many`, with their variants, and
# of `embed`. `embedding_attributes` names the attributes that `embed` reads: rows are embedded once
# for settings that share these objects. In each fold the images of seen and of unseen classes are
# embedded once for each of the four values of `alpha_features`.

from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV


class Counted(PredictedLDA):
    calls: ClassVar = []
    n_embeddings = 0

    @classmethod
    def _fit_many(cls, training, variants):
        cls.calls.append(len(variants))
        yield from super()._fit_many(training, variants)

    def embed(self, X):
        Counted.n_embeddings += 1
        return super().embed(X)


data = make_zero_shot(n_seen=40, n_unseen=10, noise=0.2, scatter="attributes", random_state=0)
search = ZeroShotSearchCV(Counted(), "fast", setting="gzsl")
search.fit(data.X_train, data.y_train, signatures=data.signatures)
print(f"chosen: {search.best_params_}")
print(f"{len(Counted.calls)} trainings for {sum(Counted.calls)} models: {Counted.calls}")
print(f"{Counted.n_embeddings} embeddings")

# %%
# Compare it with other methods
# -----------------------------
#
# A benchmark imports a class by module and name. This script is the module `__main__`; for a class
# in a separate file the command is `zslearn bench CUB --methods my_module:PredictedLDA`. Every
# method is tuned on the same folds, for the generalized setting, and writes one record.

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from zslearn.experiments import run_benchmark

names = ["__main__:PredictedLDA", "ESZSL", "EXEM (1NN)"]
with TemporaryDirectory() as folder:
    paths = run_benchmark(data, names, Path(folder), settings=["gzsl"])
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
for record in records:
    ausuc, harmonic = (record["metrics"][name] for name in ("ausuc", "calibrated_harmonic"))
    print(f"{record['method']:13} AUSUC {ausuc:.3f}, harmonic mean {harmonic:.3f}")

# %%
# Each record contains the seen–unseen accuracy curve. The diamond marks the calibration factor,
# which was estimated on the training data.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(layout="constrained")
for record in records:
    curve, metrics = record["curve"], record["metrics"]
    label = f"{record['method']} (AUSUC = {metrics['ausuc']:.2f})"
    (line,) = axes.plot(curve["acc_unseen"], curve["acc_seen"], label=label)
    point = metrics["calibrated_unseen"], metrics["calibrated_seen"]
    axes.plot(*point, "D", color=line.get_color())
axes.set(
    xlabel="Accuracy on unseen classes",
    ylabel="Accuracy on seen classes",
    xlim=(0, None),
    ylim=(0, None),
)
axes.legend(loc="lower left")
plt.show()
