"""Reports of descriptions, and random ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn.signatures import description_report, random_descriptions

COLORS = {"red": [1, 0, 0], "blue": [0, 1, 0], "dark": [0, 0, 0.05]}


def by_colors(texts):
    rows = [[COLORS[word] for word in text.lower().split() if word in COLORS] for text in texts]
    return [np.add(np.sum(colors, axis=0), [0, 0, 1]) for colors in rows]


SAID = {
    "robin": ["red bird"],
    "cardinal": ["Red bird."],
    "jay": ["blue bird"],
    "bunting": ["dark blue bird"],
    "ghost": [" "],
}


def test_what_is_wrong_with_descriptions():
    report = description_report(SAID, by_colors)
    assert report.empty == ["ghost"]
    assert report.equal == [("robin", "cardinal")]
    assert report.near == [("jay", "bunting")]
    assert report.everywhere == ["bird"]
    assert sum(report.n_texts.values()) == 4
    text = str(report)
    assert "5 classes, 4 texts" in text
    assert "equal text: 'robin', 'cardinal'; say how they differ" in text
    assert "cannot be distinguished by their text: 'jay'" in text
    assert report.neighbours["by text"].to_dict() == {
        "robin": "cardinal", "cardinal": "robin", "jay": "bunting", "bunting": "jay",
    }  # fmt: skip


def test_neighbours_by_images_stand_beside_those_by_text():
    means = pd.DataFrame([[0, 1.0], [0, 1.1], [5, 0]], index=["robin", "jay", "cardinal"])
    table = description_report(SAID, by_colors, means=means).neighbours
    # robin and jay look like each other, and their texts are far apart.
    assert table.loc["robin", "by images"] == "jay"
    assert table.loc["robin", "its rank by text"] > 1
    assert table["its rank by text"].tolist()[:2] == sorted(table["its rank by text"][:2])[::-1]
    assert pd.isna(table.loc["bunting", "by images"])


def test_reports_of_very_few_classes():
    assert description_report({"a": []}, by_colors).empty == ["a"]
    assert len(description_report({"a": ["red"], "b": ""}, by_colors).neighbours) == 0


def test_random_descriptions_share_their_words():
    said = random_descriptions(["wren", "owl"], 3, random_state=1)
    assert [text.replace("wren", "owl") for text in said["wren"]] == said["owl"]
    assert len(set(said["owl"])) == 3
    assert said == random_descriptions(["wren", "owl"], 3, random_state=1)
    assert said != random_descriptions(["wren", "owl"], 3, random_state=2)
    with pytest.raises(ValueError, match="needs '{}' twice"):
        random_descriptions(["wren"], prompt="a {}")
