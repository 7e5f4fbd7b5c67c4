r"""SSE: semantic similarity embedding.

Every class, seen or unseen, is a mixture of the seen classes. From its signature a, with those of
the seen classes :math:`a_1, \dots, a_S`, the mixture pattern is

.. math:: z(a) = \arg\min_{z \in \Delta} \tfrac12 \Big\|a - \sum_c z_c a_c\Big\|^2
          + \tfrac{\gamma}{2} \|z\|^2, \quad \Delta = \{z \ge 0, \textstyle\sum_c z_c = 1\}.

An image is compared with a reference vector :math:`v_c` of each seen class,

.. math:: \phi(x, v) = \min(x, v) \ \text{("int")} \quad \text{or} \quad
          \phi(x, v) = \max(0, x - v) \ \text{("relu")},

and its score for a class is :math:`f(x, a) = \sum_c z_c(a) \langle w, \phi(x, v_c) \rangle`. The
weights w and the references V have a large margin: with :math:`\Delta_{ys} = \|a_y - a_s\|^2`,

.. math:: \min_{w, V} \frac{\alpha}{2} \|w\|^2
    + \frac{\rho}{2}\, \underset{c}{\mathrm{mean}}\, \|v_c\|^2
    + \lambda\, \underset{y \ne s}{\mathrm{mean}}\ \tfrac12
      [\Delta_{ys} - \bar f_y(a_y) + \bar f_y(a_s)]_+^2
    + \underset{n,\, s \ne y_n}{\mathrm{mean}}\ \tfrac12
      [\Delta_{y_n s} - f(x_n, a_{y_n}) + f(x_n, a_s)]_+^2,

where :math:`\bar f_y` is the mean score over the samples of class y. The first mean of hinges
aligns the classes, the second classifies the samples; w and V are optimised in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier, alike
from zslearn.baselines._sse_descent import Descent, alternate
from zslearn.baselines._sse_rows import DividedRows
from zslearn.baselines._sse_training import MarginObjective, intersection_responses
from zslearn.scoring import PreparedRows
from zslearn.solvers import simplex_least_squares
from zslearn.utils import Array, Floats, is_foreign, move_like, row_blocks, to_numpy


class SSE(ZeroShotClassifier):
    """Semantic similarity embedding: classes and images as mixtures of the seen classes.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of ‖z‖² in the mixture patterns: the larger, the more seen classes share in one.
        Signatures are in units of their median distance.
    alpha : float, default=1e-5
        Weight of ‖w‖², for features of unit mean square norm. Below some 1e-5 it hardly acts:
        the number of steps then limits w.
    alignment : float, default=1.0
        Weight λ of the classes' hinges, beside 1 for those of the samples; 0 leaves them out.
    reference_alpha : float, default=0.0
        Weight ρ of the references' mean square norm, for features of unit mean square norm. 0:
        the number of steps alone limits V.
    kernel : {"int", "relu"}, default="int"
        How images meet the references: the intersection min(x, v), meant for non-negative
        features such as histograms or the outputs of rectified units, though it is defined for
        all, or max(0, x − v). The predictions are the same; see Notes.
    max_iter : int, default=8
        Steps in V, each followed by a short descent in w. 0 leaves the references at the class
        means.
    tol : float, default=1e-3
        A descent in w ends when the gradient is below this share of that at w = 0.
    n_jobs : int, optional
        Threads. By default all cores, unlike scikit-learn's one: threads change no digit.
    <parameters of every method>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights w, for features divided by `feature_scale_`.
    references_ : ndarray of shape (n_seen, n_features)
        References V of the seen classes, likewise.
    patterns_ : ndarray of shape (n_seen, n_seen)
        Mixture patterns of the seen classes.
    objective_ : float
        Value of the objective.
    history_ : list of float
        The objective after each descent in w; it never rises.
    feature_scale_ : float
        The root mean square norm of the training samples.
    n_iter_ : int
        Steps in w and V together.
    <attributes of every method>

    See Also
    --------
    zslearn.solvers.simplex_least_squares : The mixture patterns.

    Notes
    -----
    As max(0, x − v) = x − min(x, v) and the weights of a pattern add up to one, the score of
    "relu" under w is that of "int" under −w plus ⟨w, x⟩, which is the same for all classes. So the
    two kernels are one model, trained once; only the embedding is written differently.

    What differs from the original: its hinges are not squared, and it sums them with weights λ₂
    (classes) and λ₃ (samples) against ½‖w‖². Here they are means, in which each class counts alike
    however many samples it has, and λ₃ corresponds to 1 / `alpha`, λ₂ to `alignment` / `alpha`. Its
    penalty λ₁ on V is `reference_alpha`, 0 by default, as V takes few steps. V stays within the
    range of the features, in the original it is non-negative, which is the same bound from below
    where the least feature is 0. Margins are squared distances of the signatures: of those with
    unit norm the original's 1 − ⟨a, a′⟩, but for the scale. Like the original's Algorithm 1 this
    one takes projected subgradient steps in V, but none that raises the objective.

    Training passes a few dozen times over all (sample, seen class, feature) triples.

    References
    ----------
    Z. Zhang and V. Saligrama, "Zero-shot learning via semantic similarity embedding", ICCV 2015.

    Examples
    --------
    >>> from zslearn.baselines import SSE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = SSE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "alignment": [Interval(Real, 0, None, closed="left")],
        "reference_alpha": [Interval(Real, 0, None, closed="left")],
        "kernel": [StrOptions({"int", "relu"})],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "gamma": [10.0**k for k in range(-4, 3)],
            "alpha": [10.0**k for k in range(-8, 0)],
            "max_iter": [0, 4, 8, 16, 32],
        },
        "fast": {
            "gamma": [0.3, 1.0, 3.0, 10.0],
            "alpha": [1e-5],
            "max_iter": [4, 8, 12],
        },
    }

    def __init__(
        self,
        gamma: float = 1.0,
        alpha: float = 1e-5,
        *,
        alignment: float = 1.0,
        reference_alpha: float = 0.0,
        kernel: str = "int",
        max_iter: int = 8,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.alignment = alignment
        self.reference_alpha = reference_alpha
        self.kernel = kernel
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that two features, as in its checks, are too few to score well."""
        tags = super().__sklearn_tags__()
        # One weight per feature serves all classes, and there is no bias.
        tags.classifier_tags.poor_score = True
        return tags

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """The samples serve all, patterns all of one `gamma`, and a descent all of its states."""
        objective, scale = _objective(training)
        signatures = training.signatures
        margins = cdist(signatures, signatures, "sqeuclidean")
        for same_gamma in alike(variants, "gamma"):
            gamma = same_gamma[0].gamma
            patterns = simplex_least_squares(signatures, signatures, gamma=gamma).weights
            for group in alike(
                same_gamma, "alpha", "alignment", "reference_alpha", "tol", "n_jobs"
            ):
                first = group[0]
                objective.describe(
                    patterns, margins, first.alpha, first.alignment, first.reference_alpha
                )
                for variant in _along_descent(objective, group):
                    variant.feature_scale_, variant.patterns_ = scale, patterns
                    variant._seen_signatures = signatures
                    yield variant

    def _take(self, state: Descent, history: list[float]) -> None:
        """Take over where the alternation is."""
        self.coef_ = state.w if self.kernel == "int" else -state.w
        self.references_ = state.V
        self.objective_ = state.value
        self.history_ = history
        self.n_iter_ = state.n_iter

    def embed(self, X: Array) -> Array:
        """Compare each row with the reference of every seen class: ⟨w, φ(x, v_c)⟩.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_seen)
            The row's pattern over the seen classes.
        """
        X = X / self.feature_scale_
        if not is_foreign(X):
            responses = intersection_responses(X, self.references_, self.coef_)
            if self.kernel == "int":
                return responses
            return (X @ self.coef_.astype(X.dtype))[:, None] - responses
        xp = compat.array_namespace(X)
        references, coef = move_like(self.references_, X), move_like(self.coef_, X)
        columns = []
        for c in range(references.shape[0]):
            v = references[c, :][None, :]
            if self.kernel == "int":
                columns.append(xp.minimum(X, v) @ coef)
            else:
                columns.append(xp.clip(X - v, min=0.0) @ coef)
        return xp.stack(columns, axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Write each class as a mixture of the seen classes.

        <parameters of synthesize>

        Returns
        -------
        ndarray of shape (n_classes, n_seen)
            One pattern per row.
        """
        return simplex_least_squares(signatures, self._seen_signatures, gamma=self.gamma).weights


def _objective(training: Training) -> tuple[MarginObjective, float]:
    """The objective of the samples, in float32 and in units of their mean square norm."""
    rows = training.X_or_rows
    rows = rows if isinstance(rows, PreparedRows) else to_numpy(rows)
    blocks = row_blocks(rows.shape[0], row_bytes=2 * 8 * rows.shape[1])
    # By the largest entry first: squares of any scale are then finite.
    largest = max(float(np.abs(rows[block, :]).max()) for block in blocks) or 1.0
    squares = sum(
        float(np.sum((rows[block, :] / largest) ** 2, dtype=np.float64)) for block in blocks
    )
    scale = largest * float(np.sqrt(squares / rows.shape[0])) or 1.0
    return MarginObjective(DividedRows(rows, scale), training.y), scale


def _along_descent(objective: MarginObjective, variants: Sequence[SSE]) -> Iterator[Any]:
    """Variants that are states of one descent, the shortest first."""
    n_jobs = variants[0].n_jobs
    objective.n_jobs = joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)
    descent = alternate(objective, variants[0].tol)
    history: list[float] = []
    for variant in sorted(variants, key=lambda variant: variant.max_iter):
        while len(history) <= variant.max_iter:
            state = next(descent)
            history.append(state.value)
        variant._take(state, list(history))
        yield variant
