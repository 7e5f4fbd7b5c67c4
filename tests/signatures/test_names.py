"""Names of classes and attributes: many of them, and those that nobody can tell apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn.baselines import ESZSL

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
SHOWN = r"code points: 'caf\\xe9' and 'cafe\\u0301'"


def fitted(names):
    rng = np.random.default_rng(0)
    signatures = pd.DataFrame(rng.normal(size=(len(names), 3)), index=names)
    y = np.repeat(names[:3], 4)
    return ESZSL().fit(rng.normal(size=(12, 5)), y, signatures=signatures)


def test_twins_among_the_signatures_and_new_classes():
    with pytest.raises(ValueError, match="signatures has names that look the same.*" + SHOWN):
        fitted(["ant", "bee", COMPOSED, DECOMPOSED])
    model = fitted(["ant", "bee", COMPOSED])
    new = pd.DataFrame([[1.0, 2, 3]], index=[DECOMPOSED])
    with pytest.raises(ValueError, match=SHOWN):
        model.add_classes(new)
    assert COMPOSED in fitted(["ant", "bee", COMPOSED]).classes_


class Counted(str):
    """A name that counts how often it is compared or looked up."""

    uses = 0

    def __hash__(self):
        Counted.uses += 1
        return str.__hash__(self)

    def __eq__(self, other):
        Counted.uses += 1
        return str.__eq__(self, other)


def uses(n_names, change):
    """Uses of the names of attributes when a class is added whose attributes are changed."""
    names = [Counted(f"attribute {i}") for i in range(n_names)]
    values = np.random.default_rng(0).normal(size=(3, n_names))
    classes = ["ant", "bee", "cat"]
    known = pd.DataFrame(values, index=classes, columns=pd.Index(names, dtype=object))
    model = ESZSL().fit(np.eye(3), classes, signatures=known)
    new = pd.DataFrame(values[:1] + 1, index=["dog"], columns=pd.Index(change(names), dtype=object))
    Counted.uses = 0
    if set(new.columns) == set(names):
        model.add_classes(new)
    else:
        with pytest.raises(ValueError, match=r"They differ in 'other', 'attribute 0'"):
            model.add_classes(new)
    return Counted.uses


@pytest.mark.parametrize(
    "change", [lambda names: names[::-1], lambda names: [Counted("other"), *names[1:]]]
)
def test_attributes_are_matched_in_linear_time(change):
    assert uses(400, change) < 8 * uses(100, change)  # 16 times as many would be quadratic


def test_many_classes_one_of_them_repeated():
    names = [f"class {i}" for i in range(60_000)]
    names[-1] = names[0]
    signatures = pd.DataFrame(np.ones((60_000, 1)), index=names)
    with pytest.raises(ValueError, match=r"describes a class more than once: 'class 0'\."):
        ESZSL().fit(np.eye(2), ["class 1", "class 2"], signatures=signatures)
