"""The checks of `zslearn.base.checks`, over every estimator."""

from __future__ import annotations

import pytest

import estimators
from estimators import all_estimators, expected_failed_checks, instances
from zslearn.base.checks import parametrize_with_checks, zero_shot_checks
from zslearn.baselines import ESZSL

# Checks of code that depends on the setting; the others cover code that all settings share.
PATH_SENSITIVE = {
    "check_repeatable",
    "check_top_k",
    "check_described_later",
    "check_saving",
    "check_float32",
    "check_grid_equals_single_fits",
    "check_torch",
}


def _path_sensitive(mark):
    names, cases = mark.args
    return pytest.mark.parametrize(
        names, [case for case in cases if case.id.rpartition("-")[2] in PATH_SENSITIVE]
    )


@parametrize_with_checks(instances(others=False), expected_failed_checks=expected_failed_checks)
def test_defaults(estimator, check):
    check(estimator)


@_path_sensitive(
    parametrize_with_checks(
        instances(defaults=False), expected_failed_checks=expected_failed_checks
    )
)
def test_other_settings(estimator, check):
    check(estimator)


def test_what_is_said_of_estimators_and_checks_is_of_some():
    assert set(estimators.SETTINGS) <= set(all_estimators())
    assert set(estimators.EXPECTED_FAILURES) <= set(all_estimators())
    assert set(estimators.SLOW_CHECKS_OF) <= set(all_estimators())
    checks = {check.__name__ for check in zero_shot_checks(ESZSL())}
    named = estimators.SLOW_CHECKS.union(PATH_SENSITIVE, *estimators.SLOW_CHECKS_OF.values())
    assert named <= checks
