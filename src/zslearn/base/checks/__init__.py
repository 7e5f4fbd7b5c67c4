"""Checks of a zero-shot estimator, for its author's tests.

They cover everything that users, searches and wrappers rely on, on a small synthetic problem::

    from zslearn.base.checks import parametrize_with_checks

    @parametrize_with_checks([MyMethod(), MyMethod(alpha=2.0)])
    def test_my_method(estimator, check):
        check(estimator)

Without pytest, :func:`check_zero_shot_estimator` runs them one after another. A check is a function
that takes an estimator; its docstring states the requirement.
"""

from zslearn.base.checks._running import (
    check_zero_shot_estimator,
    parametrize_with_checks,
    zero_shot_checks,
)

__all__ = ["check_zero_shot_estimator", "parametrize_with_checks", "zero_shot_checks"]
