"""Weights of several views of a class, as hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods

from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn.base._meta import (
    ZeroShotMetaClassifier,
    as_zero_shot,
    grouped_settings,
    prefixed_grids,
)
from zslearn.base._predictor import clone_with
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import MultiSignatures

_INNER = "estimator__"


@inherit_docs
@dataclass(eq=False, repr=False)
class WeightedViews(ZeroShotMetaClassifier):
    r"""Several views of each class under weights that a search can choose.

    The kernel between two classes is

    .. math:: k(a, a') = \sum_v w_v \exp(-\gamma \, g_v \|a_v - a'_v\|^2), \quad \sum_v w_v = 1,

    the paper's convex combination of kinds of signatures (word vectors and hierarchy, say). The
    weights :math:`w_v` and the factors :math:`g_v` belong to
    :class:`~zslearn.signatures.MultiSignatures`; here they are hyper-parameters of an estimator.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        The method.
    weights : sequence of float, mapping of str to float or None, default=None
        Non-negative weights of the views, divided by their sum; None keeps those of the signatures.
    gamma_factors : sequence of float, mapping of str to float or None, default=None
        Factors of the method's `gamma` in each view, for methods that treat views separately. None
        keeps those of the signatures, which are 1 by default.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        The fitted method.

    See Also
    --------
    zslearn.signatures.MultiSignatures : Holds the views.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotSearchCV
    >>> from zslearn.model_selection import WeightedViews
    >>> from zslearn.signatures import MultiSignatures
    >>> data = make_zero_shot(random_state=0)
    >>> views = {"front": data.signatures.iloc[:, :8], "back": data.signatures.iloc[:, 8:]}
    >>> grid = {"weights": [(1, 0), (1, 1), (0, 1)], "estimator__alpha_features": [1.0, 100.0]}
    >>> search = ZeroShotSearchCV(WeightedViews(ESZSL()), grid)
    >>> search = search.fit(data.X_train, data.y_train, signatures=MultiSignatures(views))
    >>> search.best_params_["weights"]
    (1, 1)
    """

    estimator: Any
    _: KW_ONLY
    weights: Sequence[float] | Mapping[str, float] | None = None
    gamma_factors: Sequence[float] | Mapping[str, float] | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "weights": ["array-like", dict, None],
        "gamma_factors": ["array-like", dict, None],
    }

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the method on the views under these weights."""
        super()._learn(X, y, self._weigh(signatures), weights)

    def fit_grid(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        settings: Sequence[Mapping[str, Any]],
        sample_weight: Any = None,
    ) -> Iterator[tuple[int, Self]]:
        """Fit once for each setting; those with the same weights share what the method shares."""
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        for group in grouped_settings(settings, _INNER):
            variant = clone(self).set_params(**group.shared)
            variant._validate_params()
            X_checked, y_checked = variant._check_training(X, y)
            fitted = as_zero_shot(variant.estimator).fit_grid(
                X_checked,
                y_checked,
                signatures=variant._weigh(signatures),
                settings=group.of_last,
                **options,
            )
            for position, method in fitted:
                index = group.indices[position]
                yield index, variant._with_setting(method, settings[index])
                del method

    @property
    def grids(self) -> dict[str, list[dict[str, Sequence[Any]]]]:
        """Grids of the method by name, with ``estimator__`` before the hyper-parameters."""
        return prefixed_grids(self.estimator, "estimator")

    def _with_setting(self, method: Any, setting: Mapping[str, Any]) -> Self:
        """A fitted estimator around a fitted method."""
        model = clone_with(self, setting)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model.estimator_ = method
        return model._as_fitted()

    def _weigh(self, signatures: Any) -> Any:
        """The signatures under the weights of this estimator."""
        if signatures is None or (self.weights is None and self.gamma_factors is None):
            return signatures
        if isinstance(signatures, SignatureTable) and signatures.names != ("",):
            return signatures.reweighted(self.weights, self.gamma_factors)
        if isinstance(signatures, MultiSignatures):
            weights = signatures.weights if self.weights is None else self.weights
            factors = signatures.gamma_factors if self.gamma_factors is None else self.gamma_factors
            return MultiSignatures(signatures.views, weights, factors)
        raise ValueError(
            "weights and gamma_factors require MultiSignatures, but these signatures have a single "
            "view. Set both to None, or pass several views."
        )
