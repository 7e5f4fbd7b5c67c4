"""Grids of methods, and the order of their settings."""

from __future__ import annotations

from zslearn.model_selection._grids import expand
from zslearn.synthesis import EXEM, SynC


def test_ties_are_settled_in_the_papers_order():
    first, second = expand(SynC(), "paper")[:2]
    assert first == {"gamma": 2.0**-5, "alpha": 2.0**-30}
    assert second == {"gamma": 2.0**-5, "alpha": 2.0**-28}
    first, second = expand(EXEM(), "paper")[:2]
    assert first == {"n_components": 500, "gamma": 2.0**-4, "nu": 2.0**-8, "C": 2.0**-5}
    assert second["C"] == 2.0**-4


def test_the_first_key_of_a_grid_changes_slowest():
    settings = expand(SynC(), {"alpha": [1.0, 2.0], "gamma": [3.0, 4.0]})
    assert [tuple(setting.values()) for setting in settings] == [
        (1.0, 3.0),
        (1.0, 4.0),
        (2.0, 3.0),
        (2.0, 4.0),
    ]
    assert [list(setting) for setting in settings] == 4 * [["alpha", "gamma"]]


def test_the_papers_grids_and_the_fast_ones():
    assert len(expand(SynC(), "paper")) == 132
    assert len(expand(EXEM(), "paper")) == 11 * 9 * 9 * 2
