"""Which classes a model file may hold: a closed list, which users may add to and files may not.

A name in a file is looked up here, never imported. There are the public classes of the library,
the parts that are marked with :func:`zslearn.utils.saved_part`, some of scikit-learn, and what
:func:`register` was given.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from typing import Any

from zslearn.persistence._errors import BadContentError
from zslearn.utils import part_name, plain, saved_parts

#: Rooms whose public classes and marked parts may be in a file.
_OF_ESTIMATORS = (
    "baselines",
    "calibration",
    "model_selection",
    "networks",
    "pipeline",
    "signatures",
    "synthesis",
)
#: Rooms whose marked parts may be.
_OF_PARTS = (*_OF_ESTIMATORS, "base", "solvers", "utils")
#: Rooms whose public functions may be: what a search maximises.
_OF_FUNCTIONS = ("metrics", "model_selection", "synthesis")

#: Module of scikit-learn → classes with a state of plain numbers and arrays.
_SKLEARN = {
    "cross_decomposition": "CCA PLSCanonical PLSRegression",
    "decomposition": "FactorAnalysis FastICA IncrementalPCA KernelPCA NMF PCA SparsePCA "
    "TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "feature_selection": "SelectFromModel VarianceThreshold",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "gaussian_process.kernels": "CompoundKernel ConstantKernel DotProduct ExpSineSquared "
    "Exponentiation Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel",
    "impute": "SimpleImputer",
    "kernel_approximation": "Nystroem RBFSampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": "ARDRegression BayesianRidge ElasticNet HuberRegressor Lasso LinearRegression "
    "LogisticRegression LogisticRegressionCV MultiTaskElasticNet MultiTaskLasso Ridge RidgeCV "
    "RidgeClassifier",
    "model_selection": "GroupKFold KFold LeaveOneGroupOut StratifiedKFold",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier",
    "multioutput": "MultiOutputRegressor",
    "naive_bayes": "GaussianNB",
    "neighbors": "NearestCentroid",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "KernelCenterer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler "
    "Normalizer PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler "
    "StandardScaler",
    "random_projection": "GaussianRandomProjection",
    "svm": "LinearSVC LinearSVR NuSVC NuSVR SVC SVR",
}

#: Hyper-parameters that name places on the writer's machine: a file has None in their place. A
#: cache that a file points to would be read, and read by pickle, when the model is fitted again.
LEFT_OUT = {
    "sklearn.pipeline.Pipeline": ("memory",),
    "zslearn.pipeline.ZeroShotPipeline": ("memory",),
    "zslearn.model_selection.ZeroShotSearchCV": ("checkpoint", "memory"),
}

_registered: dict[str, Any] = {}


def register(item: Any, *, name: str | None = None) -> Any:
    """Allow model files to hold a class, or a function, that is not of the library.

    Call it before :func:`save` and before :func:`load`; a file itself can never do so. Instances
    are saved by their `__dict__`, or by the fields of a dataclass or a named tuple, and made anew
    without `__init__`; a class that defines `__setstate__` is given its state by it.

    Parameters
    ----------
    item : class or function
        For example your own :class:`~zslearn.base.ZeroShotClassifier`, a transformer of a
        pipeline, or a function that a search maximised.
    name : str, optional
        How files name it; by default its module and name, so that a class that moves to another
        module needs its old name here.

    Returns
    -------
    class or function
        The same, so that it can decorate a definition.

    Examples
    --------
    >>> from zslearn import persistence
    >>> from zslearn.baselines import ESZSL
    >>> class MyMethod(ESZSL):
    ...     pass
    >>> _ = persistence.register(MyMethod, name="my_package.MyMethod")
    """
    if not (inspect.isclass(item) or inspect.isfunction(item)):
        raise TypeError(f"register takes a class or a function; got {item!r}.")
    if name is None:
        name = f"{item.__module__}.{item.__qualname__}"
    if not isinstance(name, str) or name.startswith(("zslearn.", "sklearn.")):
        raise ValueError(f"{name!r}: names of zslearn and scikit-learn are taken.")
    _registered[name] = item
    return item


def name_of(item: Any) -> str | None:
    """How a file names a class or a function; None where no file may hold it."""
    for name, registered in _registered.items():
        if registered is item:
            return name
    package = item.__module__.partition(".")[0]
    if package == "zslearn":
        name = part_name(item)
    elif package == "sklearn":
        # Its public module, which may be one or two levels deep.
        parts = [part for part in item.__module__.split(".") if not part.startswith("_")]
        name = ".".join([*parts, item.__qualname__])
    else:
        return None
    try:
        return name if find(name) is item else None
    except BadContentError:
        return None


def find(name: Any) -> Any:
    """The class or function that a file names.

    Parameters
    ----------
    name : object
        What the file says.

    Returns
    -------
    class or function
        Of the closed list.

    Raises
    ------
    BadContentError
        It is not on the list.
    """
    found = None
    if isinstance(name, str):
        found = _registered.get(name)
        if found is None and name.startswith("zslearn.") and name.count(".") == 2:
            found = _of_room(name.split(".")[1]).get(name)
        elif found is None and name.startswith("sklearn."):
            found = _of_sklearn(name)
    if found is None:
        raise BadContentError(
            f"it holds a {plain(name, 100)!r}, which this version of zslearn does not know. If it "
            "is your own class, call zslearn.persistence.register(…) with it before loading"
        )
    return found


@cache
def _of_room(room: str) -> dict[str, Any]:
    """What files may hold of a room, by name."""
    if room not in (*_OF_PARTS, *_OF_FUNCTIONS):
        return {}
    module = importlib.import_module(f"zslearn.{room}")
    found: dict[str, Any] = {}
    for item in (getattr(module, name) for name in module.__all__):
        is_class = inspect.isclass(item) and not issubclass(item, BaseException)
        if (is_class and room in _OF_ESTIMATORS) or (
            inspect.isfunction(item) and room in _OF_FUNCTIONS
        ):
            found[part_name(item)] = item
    if room in _OF_PARTS:
        found.update({n: part for n, part in saved_parts().items() if n.split(".")[1] == room})
    return found


def _of_sklearn(name: str) -> Any:
    module, _, last = name.removeprefix("sklearn.").rpartition(".")
    if last not in _SKLEARN.get(module, "").split():
        return None
    return getattr(importlib.import_module(f"sklearn.{module}"), last)
