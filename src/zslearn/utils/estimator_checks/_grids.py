"""Checks of fitting many settings of the hyper-parameters together, as a search does."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Mapping
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import validate_parameter_constraints

from zslearn.scoring import EmbeddedRows
from zslearn.utils.estimator_checks._problem import (
    ROUNDING,
    SOLVER_TOLERANCE,
    fail,
    fit,
    new_class,
    quiet,
    require,
    require_close,
    require_equal,
    training_data,
    unused_rows,
)
from zslearn.utils.estimator_checks._variants import (
    fitted_alone,
    fitted_together,
    grid_settings,
    other_settings,
    solved,
)

_LOOK = (
    "Look at _fit_many: variants that share work must agree in all that the work depends on "
    "(zslearn.base.alike), and what is shared must not change between them."
)


def check_grid_is_valid(estimator: Any) -> None:
    """Each grid in `grids` names hyper-parameters of the estimator, with values that it accepts.

    A search takes a grid by its name, and would find out late.
    """
    known = estimator.get_params(deep=True)
    constraints = estimator._parameter_constraints
    for grid_name, grid in getattr(estimator, "grids", {}).items():
        look = f"Look at grids[{grid_name!r}]."
        parts = [grid] if isinstance(grid, Mapping) else list(grid)
        require(len(parts) > 0, estimator, "a grid is empty", look)
        for name, values in (item for part in parts for item in part.items()):
            require(name in known, estimator, f"{name!r} is no hyper-parameter", look)
            require(len(values) > 0, estimator, f"{name!r} has no values", look)
            for value in values:
                try:
                    validate_parameter_constraints(
                        constraints, {name: value}, type(estimator).__name__
                    )
                except ValueError as error:
                    fail(estimator, f"a value of the grid is refused: {error}", look)


def check_grid_equals_single_fits(estimator: Any) -> None:
    """Settings that are fitted together score as each does when it is fitted alone.

    Else a search would choose by numbers that no user can get. The settings are some of the
    estimator's own grid, and other values of any hyper-parameter, also seeds, tolerances and the
    preparation of features: a grid is not limited to what an author had in mind when sharing work.
    Solvers that stop at `tol` may differ by what a small one leaves, all else by rounding.
    """
    models = fitted_together(estimator)
    settings = [{}, *grid_settings(estimator), *other_settings(estimator)]
    came = [model.position for model in models]
    require(
        sorted(came) == list(range(len(settings))),
        estimator,
        f"of {len(settings)} settings, fit_grid gave those with the numbers {sorted(came)}",
        "Look at _fit_many: it must yield each variant once.",
    )
    for _, setting, model, scores in models:
        _require_setting(estimator, model, setting)
        _require_scores(estimator, scores, fitted_alone(estimator, setting), setting)


def check_grid_with_a_generator(estimator: Any) -> None:
    """With a RandomState as `random_state`, each setting of a grid gets what it gets alone.

    The state of a generator goes on as numbers are drawn: work that draws cannot be shared.
    """
    if "random_state" not in estimator.get_params(deep=False):
        raise SkipTest("has no random_state")
    seeded = clone(estimator).set_params(**solved(estimator), random_state=np.random.RandomState(7))
    data = training_data("small")
    settings = (grid_settings(estimator) or [{}, *other_settings(estimator)])[:2]
    for index, model in clone(seeded).fit_grid(
        data.X, data.y, signatures=data.signatures, settings=settings
    ):
        scores = model.decision_function(unused_rows())
        alone = fit(clone(seeded).set_params(**settings[index]), data)
        _require_scores(seeded, scores, alone, settings[index])


def _require_setting(estimator: Any, model: Any, setting: dict[str, Any]) -> None:
    parameters = model.get_params(deep=True)
    for name, value in setting.items():
        require(
            parameters[name] is value or parameters[name] == value,
            estimator,
            f"the model of {setting} has {name}={parameters[name]!r}",
            _LOOK,
        )


def _require_scores(estimator: Any, scores: Any, alone: Any, setting: dict[str, Any]) -> None:
    require_close(
        estimator,
        scores,
        alone.decision_function(unused_rows()),
        f"the scores of {setting} in a grid, compared with a single fit,",
        _LOOK,
        SOLVER_TOLERANCE if solved(estimator) else ROUNDING,
    )


def check_grid_hands_out_separate_models(estimator: Any) -> None:
    """What happens to one model of a grid changes no other: refitting, describing, dropping it.

    Models may share arrays that none of them writes to.
    """
    # A copy of all together: what they share, the copies share.
    models = copy.deepcopy(fitted_together(estimator))
    look = "A model of a grid must not write to what it shares with others."

    def require_as_before(what: str) -> None:
        for _, setting, model, scores in models:
            actual = model.decision_function(unused_rows())
            require_equal(estimator, actual, scores, f"the scores of {setting}, {what},", look)

    require_as_before("once all others were fitted")
    changed = models.pop(0).model
    with quiet():
        changed.add_classes(new_class())
    data = training_data("small")
    fit(changed, data._replace(X=np.ascontiguousarray(data.X[::-1]) * 3.0 + 1.0))
    require_as_before("once another model of the grid was refitted")


def check_grid_holds_one_model(estimator: Any) -> None:
    """`fit_grid` keeps no model that its caller has dropped.

    A grid of hundreds of settings must take the memory of one.
    """
    settings = (grid_settings(estimator) or [{}, *other_settings(estimator)])[:3]
    look = "Keep nothing of a variant after yielding it; only what the next ones share."
    data = training_data("small")
    grid = clone(estimator).fit_grid(data.X, data.y, signatures=data.signatures, settings=settings)
    earlier: weakref.ref[Any] | None = None
    earlier_parameters: weakref.ref[Any] | None = None
    for _ in settings:
        with quiet():
            _, model = next(grid)
        parameters = model.class_scorer_.parameters
        require(
            not _is_held(earlier),
            estimator,
            "the model before is still held when the next is handed out",
            look,
        )
        require(
            # Settings that make the same parameters may share them.
            not _is_held(earlier_parameters, but_for=parameters),
            estimator,
            "the class parameters of the model before are still held",
            look,
        )
        earlier, earlier_parameters = weakref.ref(model), weakref.ref(parameters)
        del model, parameters


def _is_held(reference: weakref.ref[Any] | None, but_for: Any = None) -> bool:
    """Whether an object is still there, other than as a cycle that nothing refers to."""
    if reference is None or reference() is None or reference() is but_for:
        return False
    gc.collect()
    return reference() is not None


def check_rows_embedded_once(estimator: Any) -> None:
    """Rows that a search embeds once for many settings give the scores of `decision_function`.

    Embedded rows are kept while `embed` reads the very same objects of the next model. What `embed`
    depends on must therefore be an attribute of the estimator that a fit sets anew, not one that
    it changes in place.
    """
    models = fitted_together(estimator)
    for order, visited in (("in turn", models), ("in the opposite order", models[::-1])):
        rows = EmbeddedRows(unused_rows())
        for _, setting, model, scores in visited:
            require_close(
                estimator,
                model.class_scorer_.scores(rows),
                scores,
                f"the scores of {setting} by rows that settings share, visited {order},",
                "embed may read attributes of the estimator only, and must change none.",
                1e-12,
            )
    rows = EmbeddedRows(unused_rows())
    model = models[0].model
    for same in (model, copy.copy(model)):
        same.class_scorer_.scores(rows)
    require(
        rows.n_embeddings == 1,
        estimator,
        "rows are embedded again for a model with the very same attributes",
        "embed must read attributes by their names, not vars(self).",
    )
