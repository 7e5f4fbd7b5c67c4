"""The classes and functions that a model file may contain, and the state of their instances.

Names in files are looked up in a closed list, which users can extend but files cannot: the public
classes of the library, the parts marked with `saved_part`, some classes of scikit-learn, and
everything passed to :func:`register`. A name in a file never causes an import.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import types
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator

from zslearn._utils._messages import plain
from zslearn._utils._saved import declared, part_name, saved_parts
from zslearn.persistence._container import BadContentError, CannotSaveError

#: Limit of `n_jobs` in files.
_MAX_JOBS = 1024


def parameter_names(cls: type) -> frozenset[str]:
    """Hyper-parameters of an estimator; none for other classes."""
    names = getattr(cls, "_get_param_names", None)
    return frozenset(names()) if callable(names) else frozenset()


def _field_names(cls: type) -> list[str] | None:
    """Fields of a named tuple or a dataclass; None for other classes."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    # The fields of an estimator are only its hyper-parameters.
    if dataclasses.is_dataclass(cls) and not issubclass(cls, BaseEstimator):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    return None


def state_of(value: Any) -> dict[str, Any]:
    """The saved state of an object: its fields, or the result of `__getstate__`."""
    fields = _field_names(type(value))
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    state = value.__getstate__() or {}
    if not isinstance(state, dict):
        raise TypeError(f"{type(value).__name__}.__getstate__ must return a dict of attributes.")
    # scikit-learn adds its version, which the header contains.
    return {name: item for name, item in state.items() if name != "_sklearn_version"}


def make(cls: type, state: dict[str, Any]) -> Any:
    """An object of a class with a state from a file."""
    if _field_names(cls) is not None:
        return cls(**state)
    signature = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    for name in parameter_names(cls) - set(state):
        # A hyper-parameter that the version of the writer lacked gets its default.
        if signature[name].default is inspect.Parameter.empty:
            raise BadContentError(f"its {cls.__name__} lacks the hyper-parameter {name}")
        state = {**state, name: signature[name].default}
    _refuse_names(cls, state)
    value: Any = object.__new__(cls)
    # The method of scikit-learn only compares versions.
    if getattr(cls, "__setstate__", BaseEstimator.__setstate__) is not BaseEstimator.__setstate__:
        value.__setstate__(state)
    else:
        vars(value).update(state)
    # Pipelines validate their steps only when they are used.
    for validate in ("_validate_params", "_validate_steps"):
        if hasattr(value, validate):
            getattr(value, validate)()
    jobs = state.get("n_jobs")
    if jobs is not None and not (isinstance(jobs, int) and 1 <= abs(jobs) <= _MAX_JOBS):
        raise BadContentError(f"its {cls.__name__} has n_jobs={plain(jobs, 30)}")
    return value


def _refuse_names(cls: type, state: dict[str, Any]) -> None:
    """Refuse attributes that would hide a method, a property or a constant of the class."""
    own = cls.__module__.startswith("zslearn.")
    # A class of the library that is restored by `__setstate__` may compute what it declares.
    restored = declared(cls).keys() if own and "__setstate__" in vars(cls) else ()
    for name in set(state) - parameter_names(cls) - set(restored):
        in_class = inspect.getattr_static(cls, name, None)
        hides = in_class is not None and (own or callable(in_class) or hasattr(in_class, "__get__"))
        if hides or not name.isidentifier() or name.startswith("__"):
            reason = "hides one of its class" if hides else "has an invalid name"
            raise BadContentError(
                f"the attribute {plain(name, 60)!r} of its {cls.__name__} {reason}"
            )


#: Packages whose public classes and marked parts files may contain.
_OF_ESTIMATORS = (
    *("baselines", "calibration", "model_selection"),
    *("networks", "signatures", "synthesis"),
)
#: Packages whose marked parts files may contain.
_OF_PARTS = (*_OF_ESTIMATORS, "base", "datasets", "_solvers")
#: Functions that files may contain: the scoring functions of searches.
_SCORERS = frozenset(
    {"zslearn.model_selection.unseen_accuracy_scorer", "zslearn.synthesis.exemplar_distance_score"}
)

#: Classes of scikit-learn by module, which EXEM, generated features and pipelines need. Each uses
#: only NumPy, takes no functions and starts no processes; memory is limited by the size of its
#: state. libsvm is excluded because its compiled code trusts the sizes it is given. Only pipelines
#: contain other estimators.
_SKLEARN = {
    "decomposition": "PCA TruncatedSVD",
    "gaussian_process": "GaussianProcessRegressor",
    "gaussian_process.kernels": "ConstantKernel Matern Product RBF Sum WhiteKernel",
    "impute": "SimpleImputer",
    "kernel_ridge": "KernelRidge",
    "linear_model": "LinearRegression LogisticRegression Ridge RidgeClassifier",
    "pipeline": "Pipeline",
    "preprocessing": "MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer "
    "RobustScaler StandardScaler",
}

#: Hyper-parameters that are paths on the writer's machine, stored as None. If a file could set a
#: cache folder, its content would be unpickled when the model is fitted again.
OMITTED_PATHS = {
    "sklearn.pipeline.Pipeline": ("memory",),
    "zslearn.base.ZeroShotPipeline": ("memory",),
    "zslearn.model_selection.ZeroShotSearchCV": ("checkpoint", "memory"),
}

_registered: dict[str, Any] = {}


def register(item: Any, *, name: str | None = None) -> Any:
    """Allow model files to contain a class or function that is not part of the library.

    Call it before :func:`save` and before :func:`load`. Instances are saved as their `__dict__`, or
    as the fields of a dataclass or named tuple. They are restored without `__init__`, by
    `__setstate__` if the class defines it. :ref:`saving` has an example.

    Parameters
    ----------
    item : class or function
        For example your own :class:`~zslearn.base.ZeroShotClassifier`, a transformer of a
        pipeline, or a scoring function of a search.
    name : str, optional
        Its name in files, by default its module and name. If a class moves to another module, pass
        its old name.

    Returns
    -------
    class or function
        The same object, so that `register` can be used as a decorator.
    """
    if not (inspect.isclass(item) or inspect.isfunction(item)):
        raise TypeError(f"register takes a class or a function; got {item!r}.")
    if name is None:
        name = f"{item.__module__}.{item.__qualname__}"
    if not isinstance(name, str) or name.startswith(("zslearn.", "sklearn.")):
        raise ValueError(f"name={name!r} is reserved: it begins with zslearn. or sklearn.")
    _registered[name] = item
    return item


def name_of(item: Any, where: str) -> str:
    """The name of a class or function in files; errors name `where` it occurs in the model."""
    for name, registered in _registered.items():
        if registered is item:
            return name
    module = item.__module__
    if module.startswith("sklearn."):
        # The public module, one or two levels deep.
        public = [part for part in module.split(".") if not part.startswith("_")]
        name = ".".join([*public, item.__qualname__])
    else:
        name = part_name(item)
    if _lookup(name) is item:
        return name
    kind = "the function" if isinstance(item, types.FunctionType) else "an instance of"
    problem = f"{where} is {kind} {module}.{item.__qualname__}, which model files cannot contain"
    if module.startswith("sklearn."):
        known = " ".join(_SKLEARN.values()).replace(" ", ", ")
        raise CannotSaveError(
            f"{problem}. Of scikit-learn they support {known}. Use one of these, or pickle the "
            "model if you are the only one who loads it."
        )
    raise CannotSaveError(
        f"{problem}, because loading a file must not run unknown code. Register your own classes "
        "with zslearn.persistence.register(…) before saving and before loading."
    )


def find(name: Any) -> Any:
    """The class or function with a name in files."""
    found = _registered.get(name, _lookup(name)) if isinstance(name, str) else None
    if found is None:
        raise BadContentError(
            f"it contains a {plain(name, 100)!r}, which this version does not support. Register "
            "your own classes with zslearn.persistence.register(…) before loading"
        )
    return found


def _lookup(name: str) -> Any:
    """The class or function of zslearn or scikit-learn with a name in files, or None."""
    package, _, rest = name.partition(".")
    module, _, last = rest.rpartition(".")
    if package == "zslearn":
        return _of_package(module).get(name)
    if package == "sklearn" and last in _SKLEARN.get(module, "").split():
        return getattr(importlib.import_module(f"sklearn.{module}"), last)
    return None


@cache
def _of_package(package: str) -> dict[str, Any]:
    """Classes and functions of a package of the library that files may contain, by name."""
    found: dict[str, Any] = {}
    if package not in _OF_PARTS:
        return found
    module = importlib.import_module(f"zslearn.{package}")
    if package in _OF_ESTIMATORS:
        for item in (getattr(module, name) for name in module.__all__):
            is_class = inspect.isclass(item) and not issubclass(item, BaseException)
            if is_class or (inspect.isfunction(item) and part_name(item) in _SCORERS):
                found[part_name(item)] = item
    found.update({n: part for n, part in saved_parts().items() if n.split(".")[1] == package})
    return found
