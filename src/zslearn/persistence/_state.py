"""The state of objects: what is saved of them, and how they are made of it anew."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from sklearn.base import BaseEstimator

from zslearn.persistence._errors import BadContentError
from zslearn.utils import plain

#: Threads or processes at most that a file may ask for.
_MOST_JOBS = 1024


def parameter_names(cls: type) -> frozenset[str]:
    """Hyper-parameters of an estimator; none for other classes."""
    names = getattr(cls, "_get_param_names", None)
    return frozenset(names()) if callable(names) else frozenset()


def field_names(cls: type) -> tuple[str, ...] | None:
    """Fields of a named tuple or a dataclass; None for other classes."""
    if issubclass(cls, tuple):
        return tuple(cls._fields) if hasattr(cls, "_fields") else None
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return None


def state_of(value: Any) -> dict[str, Any]:
    """What is saved of an object: its fields, else its `__getstate__` or `__dict__`."""
    fields = field_names(type(value))
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    state = value.__getstate__()
    if state is None:
        state = {}
    if not isinstance(state, dict):
        raise TypeError(f"{type(value).__name__}.__getstate__ returns no dict of its attributes.")
    # scikit-learn's mark of a pickle; the header has its version.
    return {name: item for name, item in state.items() if name != "_sklearn_version"}


def make(cls: type, state: dict[str, Any]) -> Any:
    """An object of a class, with a state from a file.

    Parameters
    ----------
    cls : type
        A class that files may hold.
    state : dict
        What :func:`state_of` gave when it was saved.

    Returns
    -------
    object
        Of the class; hyper-parameters are checked as `fit` checks them.
    """
    try:
        return _make(cls, state)
    except BadContentError:
        raise
    except Exception as error:
        reason = plain(error, 300).rstrip(".") or type(error).__name__
        raise BadContentError(f"its {cls.__name__} cannot be: {reason}") from error


def _make(cls: type, state: dict[str, Any]) -> Any:
    fields = field_names(cls)
    if fields is not None:
        if not set(state) <= set(fields):
            raise BadContentError(
                f"its {cls.__name__} has {_names(state)}, and should have {_names(fields)}"
            )
        # A field that an earlier version did not have takes its default.
        return cls(**state)
    # What earlier versions saved and this one computes when it is asked for.
    computed = getattr(cls, "_computed_attributes", ())
    state = {name: value for name, value in state.items() if name not in computed}
    state = {**_missing_parameters(cls, state), **state}
    _refuse_names(cls, state)
    value: Any = object.__new__(cls)
    # scikit-learn's own compares versions only.
    if getattr(cls, "__setstate__", BaseEstimator.__setstate__) is not BaseEstimator.__setstate__:
        value.__setstate__(state)
    else:
        vars(value).update(state)
    if hasattr(value, "_validate_params"):
        value._validate_params()
    for check in ("_validate_steps", "_validate_transformers"):
        # Of a pipeline, which checks them when it is used.
        if hasattr(value, check):
            getattr(value, check)()
    jobs = state.get("n_jobs")
    if jobs is not None and not (isinstance(jobs, int) and abs(jobs) <= _MOST_JOBS):
        raise BadContentError(f"its {cls.__name__} has n_jobs={plain(jobs, 30)}")
    return value


def _missing_parameters(cls: type, state: dict[str, Any]) -> dict[str, Any]:
    """Defaults of hyper-parameters that an earlier version did not have."""
    missing = sorted(parameter_names(cls) - set(state))
    if not missing:
        return {}
    signature = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    required = [name for name in missing if signature[name].default is inspect.Parameter.empty]
    if required:
        raise BadContentError(f"its {cls.__name__} lacks {_names(required)}")
    return {name: signature[name].default for name in missing}


def _refuse_names(cls: type, state: dict[str, Any]) -> None:
    """An attribute may not stand before a method, a property or a constant of its class."""
    own = cls.__module__.startswith("zslearn.")
    for name in state:
        if not name.isidentifier() or name.startswith("__"):
            raise BadContentError(f"its {cls.__name__} has the attribute {plain(name, 60)!r}")
        in_class = inspect.getattr_static(cls, name, None)
        if in_class is not None and (own or callable(in_class) or hasattr(in_class, "__get__")):
            raise BadContentError(
                f"its {cls.__name__} has the attribute {plain(name, 60)!r}, which its class defines"
            )


def _names(names: Any) -> str:
    return plain(", ".join(names), 200) or "nothing"
