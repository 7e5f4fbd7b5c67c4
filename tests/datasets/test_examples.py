"""Example data for a first try: what is written is what the commands read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn import GaussianEXEM
from zslearn.datasets import load_table, write_example


def test_the_table_is_learned_and_unseen_combinations_are_named(tmp_path):
    classes, shapes, new = write_example("table", tmp_path / "made")
    with pytest.warns(UserWarning, match="standardised|brought to mean 0|larger than"):
        data = load_table(shapes, signatures=classes, label="class", feature_scaling="auto")
    assert len(data.seen_classes) == 60
    assert len(data.unseen_classes) == 15
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    table = pd.read_csv(new)
    X = data.features_from(table.drop(columns="class"))
    is_unseen = table["class"].isin(data.unseen_classes).to_numpy()
    y = table["class"].to_numpy()
    assert model.score(X[is_unseen], y[is_unseen], classes=data.unseen_classes) > 0.8
    # Drawn again, it is the same table.
    again = write_example("table", tmp_path / "again")
    assert again[1].read_bytes() == shapes.read_bytes()


def test_pictures_lie_in_a_folder_for_each_class(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    classes, pictures, new = write_example("pictures", tmp_path)
    described = pd.read_csv(classes)["class"].tolist()
    assert len(described) == 75
    assert {path.name for path in new.iterdir()} == set(described)
    assert {path.name for path in pictures.iterdir()} < set(described)
    image = np.asarray(image_module.open(next(pictures.rglob("*.png"))))
    assert image.shape == (64, 64, 3)
    assert image.std() > 10


def test_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'kind' parameter .* Got 'tables'"):
        write_example("tables", tmp_path / "made")
    assert not (tmp_path / "made").exists()
