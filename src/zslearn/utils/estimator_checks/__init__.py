"""Checks of a zero-shot estimator, for its author's tests.

All that a user, a search or a wrapper relies on is checked, on a small made-up problem::

    from zslearn.utils.estimator_checks import parametrize_with_checks

    @parametrize_with_checks([MyMethod(), MyMethod(alpha=2.0)])
    def test_my_method(estimator, check):
        check(estimator)

Without pytest, :func:`check_zero_shot_estimator` runs them one after another. Each check is a
function of this module that takes an estimator; its docstring says what must hold and why.
"""

from zslearn.utils.estimator_checks._conventions import (
    check_documentation,
    check_error_leaves_the_model,
    check_predicting_changes_nothing,
    check_refit_forgets,
    check_scikit_learn,
    check_wrong_parameters_are_named,
)
from zslearn.utils.estimator_checks._descriptions import (
    check_attributes_name_every_class,
    check_described_later,
    check_each_class_alone,
    check_order_of_classes,
    check_renamed_labels,
    check_several_views,
    check_unused_class,
)
from zslearn.utils.estimator_checks._grids import (
    check_grid_equals_single_fits,
    check_grid_hands_out_separate_models,
    check_grid_holds_one_model,
    check_grid_is_valid,
    check_grid_with_a_generator,
    check_rows_embedded_once,
)
from zslearn.utils.estimator_checks._predictions import (
    check_array_api_strict,
    check_better_than_chance,
    check_candidates,
    check_float32,
    check_n_jobs,
    check_pickling,
    check_repeatable,
    check_small_blocks,
    check_top_k,
    check_torch,
)
from zslearn.utils.estimator_checks._running import (
    check_zero_shot_estimator,
    parametrize_with_checks,
    zero_shot_checks,
)
from zslearn.utils.estimator_checks._saving import check_saving
from zslearn.utils.estimator_checks._weights import (
    check_classes_from_threads,
    check_sample_weight,
)
from zslearn.utils.estimator_checks._wrappers import (
    check_inside_calibrated_stacking,
    check_inside_exem,
    check_inside_search,
)

__all__ = [
    "check_array_api_strict",
    "check_attributes_name_every_class",
    "check_better_than_chance",
    "check_candidates",
    "check_classes_from_threads",
    "check_described_later",
    "check_documentation",
    "check_each_class_alone",
    "check_error_leaves_the_model",
    "check_float32",
    "check_grid_equals_single_fits",
    "check_grid_hands_out_separate_models",
    "check_grid_holds_one_model",
    "check_grid_is_valid",
    "check_grid_with_a_generator",
    "check_inside_calibrated_stacking",
    "check_inside_exem",
    "check_inside_search",
    "check_n_jobs",
    "check_order_of_classes",
    "check_pickling",
    "check_predicting_changes_nothing",
    "check_refit_forgets",
    "check_renamed_labels",
    "check_repeatable",
    "check_rows_embedded_once",
    "check_sample_weight",
    "check_saving",
    "check_scikit_learn",
    "check_several_views",
    "check_small_blocks",
    "check_top_k",
    "check_torch",
    "check_unused_class",
    "check_wrong_parameters_are_named",
    "check_zero_shot_estimator",
    "parametrize_with_checks",
    "zero_shot_checks",
]
