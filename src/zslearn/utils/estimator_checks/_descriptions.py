"""Checks of what describing classes may change, and what not."""

from __future__ import annotations

import copy
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone

from zslearn.signatures import MultiSignatures
from zslearn.utils.estimator_checks._problem import (
    ROUNDING,
    fit,
    fitted,
    is_scaled_by_all,
    late_classes,
    new_names,
    problem,
    quiet,
    require,
    require_close,
    require_equal,
    training_data,
    unused_rows,
)


def check_attributes_name_every_class(estimator: Any) -> None:
    """`classes_`, `seen_classes_`, `unseen_classes_` and `n_features_in_` say what was given.

    A user chooses candidates by them, and wrappers tell seen classes from unseen ones.
    """
    model, data = fitted(estimator), problem()
    look = "Leave these attributes to the base class."
    for name, expected in (
        ("classes_", data.signatures.index),
        ("seen_classes_", data.seen_classes),
        ("unseen_classes_", data.unseen_classes),
    ):
        require_equal(estimator, getattr(model, name), np.sort(expected), name, look)
    require(
        model.n_features_in_ == data.X_train.shape[1],
        estimator,
        f"n_features_in_ is {model.n_features_in_}, and X has {data.X_train.shape[1]} columns",
        look,
    )


def check_order_of_classes(estimator: Any) -> None:
    """Signatures in another order give the same scores, to the last digit.

    Rows of a table have no order that means something; columns of scores follow `classes_`.
    """
    first = fitted(estimator).decision_function(unused_rows())
    again = fitted(estimator, "shuffled").decision_function(unused_rows())
    require_equal(
        estimator,
        again,
        first,
        "the scores after shuffling the rows of signatures",
        "Find classes by their label, not by their row in the table of a user.",
    )


def check_renamed_labels(estimator: Any) -> None:
    """Other names for the classes, in the same order, rename the predictions and change nothing.

    A label is a name: nothing may be learned from it.
    """
    names = new_names()
    first = fitted(estimator).predict(unused_rows())
    again = fitted(estimator, "renamed").predict(unused_rows())
    require_equal(
        estimator,
        again,
        np.asarray([names[label] for label in first.tolist()]),
        "what is predicted with numbers in place of names",
        "Work with positions of classes, training.y, and treat labels as names only.",
    )


def check_unused_class(estimator: Any) -> None:
    """Describing fewer classes at `fit` leaves the scores of all others as they are.

    Unseen classes may come and go; the model is learned from the seen ones. With
    `signature_scale="all"` each described class counts by intention.
    """
    _skip_if_scaled_by_all(estimator)
    kept = training_data("without late classes").signatures.index.to_numpy()
    first = fitted(estimator).decision_function(unused_rows(), classes=kept)
    model = fitted(estimator, "without late classes")
    require_close(
        estimator,
        model.decision_function(unused_rows(), classes=kept),
        first,
        "the scores of the other classes, once some unseen ones are not described",
        "Learn from training.signatures, the seen ones; let synthesize treat each class by itself.",
        ROUNDING,
    )


def check_each_class_alone(estimator: Any) -> None:
    """Where `describes_each_alone` is true, a class scores the same whatever others are described.

    A search then has the classes that a fold leaves out described, and no others, not even those
    that it was fitted on.
    """
    if not getattr(estimator, "describes_each_alone", False):
        raise SkipTest("describes_each_alone is not true: all classes are always described.")
    data = training_data()
    some = fitted(estimator).unseen_classes_
    expected = fitted(estimator).decision_function(unused_rows(), classes=some)
    with quiet():
        grid = clone(estimator).fit_grid(
            data.X, data.y, signatures=data.signatures, settings=[{}], classes=some
        )
        ((_, model),) = list(grid)
    look = "Make each class of its own signature in synthesize, or do not set describes_each_alone."
    require_equal(estimator, model.classes_, some, "classes_", look)
    require_close(
        estimator,
        model.decision_function(unused_rows(), classes=some),
        expected,
        "the scores of the classes, once no others are described",
        look,
        ROUNDING,
    )


def check_described_later(estimator: Any) -> None:
    """A class that `add_classes` describes is as if it had been described at `fit`.

    To the last digit: what a model says must not depend on when it was told of a class.
    """
    _skip_if_scaled_by_all(estimator)
    whole = fitted(estimator)
    model = copy.deepcopy(fitted(estimator, "without late classes"))
    look = "Keep what is learned apart from what is described; synthesize all classes together."
    with quiet():
        returned = model.add_classes(problem().signatures.loc[late_classes()])
    require(returned is model, estimator, "add_classes does not return the estimator", look)
    require_equal(estimator, model.classes_, whole.classes_, "classes_ after add_classes", look)
    require_equal(
        estimator,
        model.decision_function(unused_rows()),
        whole.decision_function(unused_rows()),
        "the scores after add_classes, compared with describing all classes at fit,",
        look,
    )


def check_several_views(estimator: Any) -> None:
    """Two kinds of signatures are accepted, together and for a class described later.

    A method receives them joined to one vector per class, or apart where it says
    `keep_views = True`.
    """
    frame = problem().signatures
    late = late_classes()

    def views(rows: Any) -> MultiSignatures:
        return MultiSignatures({"front": rows.iloc[:, :5], "back": rows.iloc[:, 5:]})

    data = training_data()
    model = fit(clone(estimator), data._replace(signatures=views(frame.drop(index=late))))
    with quiet():
        model.add_classes(views(frame.loc[late]))
    scores = model.decision_function(unused_rows())
    require(
        bool(np.isfinite(scores).all()) and scores.shape[1] == len(frame),
        estimator,
        f"MultiSignatures lead to scores of shape {scores.shape} that are not all finite numbers",
        "With keep_views = True, synthesize must handle SignatureViews; without, arrays only.",
    )


def _skip_if_scaled_by_all(estimator: Any) -> None:
    if is_scaled_by_all(estimator):
        raise SkipTest('with signature_scale="all" every class described at fit counts')
