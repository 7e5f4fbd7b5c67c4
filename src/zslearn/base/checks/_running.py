"""Run the checks with pytest, or one after another."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import SkipTest

from sklearn import config_context

from zslearn.base.checks import _behaviour, _grids

Check = Callable[[Any], None]

#: In the order in which they run: basic and fast checks come first.
_CHECKS: tuple[Check, ...] = (
    _behaviour.check_documentation,
    _behaviour.check_wrong_parameters_are_named,
    _grids.check_grid_is_valid,
    _behaviour.check_attributes_name_every_class,
    _behaviour.check_repeatable,
    _behaviour.check_better_than_chance,
    _behaviour.check_candidates,
    _behaviour.check_top_k,
    _behaviour.check_order_of_classes,
    _behaviour.check_renamed_labels,
    _behaviour.check_unused_class,
    _behaviour.check_classes_are_independent,
    _behaviour.check_described_later,
    _behaviour.check_described_by_name,
    _behaviour.check_several_views,
    _behaviour.check_predicting_changes_nothing,
    _behaviour.check_error_leaves_the_model,
    _behaviour.check_float32,
    _behaviour.check_small_blocks,
    _behaviour.check_pickling,
    _behaviour.check_saving,
    _behaviour.check_n_jobs,
    _behaviour.check_torch,
    _behaviour.check_array_api_strict,
    _grids.check_grid_equals_single_fits,
    _grids.check_grid_with_a_generator,
    _grids.check_grid_hands_out_separate_models,
    _grids.check_grid_holds_one_model,
    _grids.check_rows_embedded_once,
    _grids.check_sample_weight,
    _grids.check_inside_exem,
    _grids.check_inside_calibrated_stacking,
    _grids.check_inside_search,
    _behaviour.check_scikit_learn,
)
_NAMES = frozenset(check.__name__ for check in _CHECKS)


def zero_shot_checks(
    estimator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> Iterator[Check]:
    """Yield all checks of an estimator.

    Parameters
    ----------
    estimator : zero-shot estimator
        An unfitted estimator.
    expected_failed_checks : mapping of str to str, optional
        Checks that are expected to fail, with the reason. Those of scikit-learn, which a single
        check runs, are not run; others are yielded as well.

    Yields
    ------
    callable
        Takes the estimator; raises an AssertionError if it fails, and `unittest.SkipTest` if it
        does not apply or a package is missing.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.base.checks import zero_shot_checks
    >>> next(zero_shot_checks(ESZSL())).__name__
    'check_documentation'
    """
    _refuse_non_estimators(estimator)
    expected = (expected_failed_checks or {}).items()
    of_scikit_learn = {name: reason for name, reason in expected if name not in _NAMES}
    for check in _CHECKS:
        if check is _behaviour.check_scikit_learn and of_scikit_learn:
            check = functools.partial(check, expected_failed_checks=of_scikit_learn)
        yield check


def check_zero_shot_estimator(
    estimator: Any, *, expected_failed_checks: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run all checks up to the first that fails.

    Parameters
    ----------
    estimator, expected_failed_checks
        See :func:`zero_shot_checks`.

    Returns
    -------
    list of dict
        For each check its "check_name", its "status" ("passed", "skipped" or "xfail") and the
        "reason" if it did not pass.

    Raises
    ------
    AssertionError
        If a check fails; the message names it.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.base.checks import check_zero_shot_estimator
    >>> results = check_zero_shot_estimator(ESZSL())  # doctest: +SKIP
    >>> {result["status"] for result in results}  # doctest: +SKIP
    {'passed', 'skipped'}
    """
    expected = dict(expected_failed_checks or {})
    results = []
    for check in zero_shot_checks(estimator, expected_failed_checks=expected):
        name = _name(check)
        status, reason = "passed", ""
        try:
            check(estimator)
        except SkipTest as skip:
            status, reason = "skipped", str(skip)
        except Exception as error:
            if name not in expected:
                message = str(error)
                if not isinstance(error, AssertionError):
                    message = f"{estimator!r}: {type(error).__name__}: {error}"
                raise AssertionError(f"{name} failed: {message}") from error
            status, reason = "xfail", expected[name]
        results.append({"check_name": name, "status": status, "reason": reason})
    return results


def parametrize_with_checks(
    estimators: Sequence[Any],
    *,
    expected_failed_checks: Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None = None,
) -> Any:
    """Parametrise a test that has the arguments `estimator` and `check` with all pairs.

    Parameters
    ----------
    estimators : sequence of zero-shot estimators
        Unfitted estimators, possibly in a `pytest.param` with an id and marks.
    expected_failed_checks : mapping of str to str, or callable, optional
        Checks that are marked `xfail`, with the reason; or a function of an estimator that returns
        such a mapping.

    Returns
    -------
    decorator
        A `pytest.mark.parametrize`.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.base.checks import parametrize_with_checks
    >>> @parametrize_with_checks([ESZSL(), ESZSL(center=None)])
    ... def test_my_method(estimator, check):
    ...     check(estimator)
    """
    try:
        import pytest
    except ImportError as error:
        raise ImportError(
            "parametrize_with_checks needs pytest, which is not installed: pip install pytest. "
            "Or call check_zero_shot_estimator, which does not need it."
        ) from error
    parameters = []
    for item in estimators:
        estimator, label, marks = _unpack(item)
        _refuse_non_estimators(estimator)
        expected = expected_failed_checks or {}
        if callable(expected):
            expected = expected(estimator)
        for check in zero_shot_checks(estimator, expected_failed_checks=expected):
            name = _name(check)
            xfail = [pytest.mark.xfail(reason=expected[name])] if name in expected else []
            parameters.append(
                pytest.param(estimator, check, id=f"{label}-{name}", marks=[*marks, *xfail])
            )
    return pytest.mark.parametrize(("estimator", "check"), parameters)


def _unpack(item: Any) -> tuple[Any, str, Sequence[Any]]:
    """The estimator, id and marks of an item, which may be a `pytest.param`."""
    if not (hasattr(item, "values") and hasattr(item, "marks")):
        return item, _label(item), ()
    (estimator,) = item.values
    return estimator, item.id or _label(estimator), item.marks


def _refuse_non_estimators(estimator: Any) -> None:
    """Refuse classes, and objects that are not estimators."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"Checks take estimators, not {estimator!r}: pass an instance, such as "
            f"{getattr(estimator, '__name__', 'MyMethod')}()."
        )


def _name(check: Check) -> str:
    return getattr(check, "func", check).__name__


def _label(estimator: Any) -> str:
    """The estimator with its non-default hyper-parameters on one line."""
    with config_context(print_changed_only=True):
        return re.sub(r"\s+", "", repr(estimator))
