"""Checks of a zero-shot estimator, for its author's tests.

All that a user, a search or a wrapper relies on is checked, on a small made-up problem::

    from zslearn.base.checks import parametrize_with_checks

    @parametrize_with_checks([MyMethod(), MyMethod(alpha=2.0)])
    def test_my_method(estimator, check):
        check(estimator)

Without pytest, :func:`check_zero_shot_estimator` runs them one after another. Each check is a
function of this module that takes an estimator; its docstring says what must hold and why.
"""

from zslearn.base.checks._running import (
    check_zero_shot_estimator,
    parametrize_with_checks,
    zero_shot_checks,
)

__all__ = ["check_zero_shot_estimator", "parametrize_with_checks", "zero_shot_checks"]
