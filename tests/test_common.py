"""The checks of `zslearn.base.checks`, over every estimator in all its settings."""

from __future__ import annotations

import estimators
from estimators import all_estimators, expected_failed_checks, instances
from zslearn.base.checks import parametrize_with_checks, zero_shot_checks
from zslearn.baselines import ESZSL


@parametrize_with_checks(instances(), expected_failed_checks=expected_failed_checks)
def test_estimators(estimator, check):
    check(estimator)


def test_what_is_said_of_estimators_and_checks_is_of_some():
    assert set(estimators.SETTINGS) <= set(all_estimators())
    assert set(estimators.EXPECTED_FAILURES) <= set(all_estimators())
    assert set(estimators.SLOW_CHECKS_OF) <= set(all_estimators())
    checks = {check.__name__ for check in zero_shot_checks(ESZSL())}
    assert estimators.SLOW_CHECKS.union(*estimators.SLOW_CHECKS_OF.values()) <= checks
