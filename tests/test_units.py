"""Columns in different units are detected, reported, and scaled by the seen classes."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zslearn
from zslearn import EXEM, GaussianEXEM, SynC
from zslearn._utils._validation import dominating_columns, some_rows
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import load_table, load_xlsa17
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, attribute_signatures

METHODS = [EXEM(), SynC(), GaussianEXEM(), ESZSL()]
N_UNSEEN = 12


def make_animals(seed=0, n_classes=48, per_class=15):
    """Samples, and classes by 16 yes or no columns and a weight from grams to tons."""
    rng = np.random.default_rng(seed)
    labels = [f"c{i:02d}" for i in range(n_classes)]
    classes = pd.DataFrame((rng.random((n_classes, 16)) < 0.5) * 1.0, labels).add_prefix("is_")
    classes["weight_kg"] = np.exp(rng.normal(2, 2.5, n_classes)).round(3)
    latent = (classes - classes.mean()) / classes.std()
    latent["weight_kg"] *= 0.3
    y = np.repeat(labels, per_class)
    X = latent.loc[y].to_numpy() @ rng.normal(size=(17, 40)) + rng.normal(
        scale=3, size=(len(y), 40)
    )
    return np.maximum(X, 0), y, classes, labels[-N_UNSEEN:]


@pytest.fixture(scope="module")
def animals():
    return make_animals()


def accuracy(method, X, y, signatures, unseen):
    trained = ~np.isin(y, unseen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        model = method.fit(X[trained], y[trained], signatures=signatures)
    return model.score(X[~trained], y[~trained], classes=unseen)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_one_column_in_kilograms(animals, method):
    X, y, classes, unseen = animals
    assert accuracy(method, X, y, classes, unseen) < 0.75
    for scaling in ("standard", "range"):
        scaled = attribute_signatures(classes, signature_scaling=scaling)
        assert accuracy(method, X, y, scaled, unseen) > 0.8
    with pytest.warns(InputWarning, match="table: .* only on the column 'weight_kg', "):
        data = load_table(X, y, classes, unseen_classes=unseen)
    assert data.signatures.attrs == {"signature_scaling": "standard"}
    assert accuracy(method, X, y, data.signatures, unseen) > 0.85


def test_the_same_as_standardising_by_hand(animals):
    X, y, classes, unseen = animals
    seen = classes.drop(index=unseen)
    by_hand = (classes - seen.mean()) / seen.std(ddof=0)
    trained = ~np.isin(y, unseen)
    scaled = attribute_signatures(classes, signature_scaling="standard")
    ours = ESZSL().fit(X[trained], y[trained], signatures=scaled)
    other = ESZSL().fit(X[trained], y[trained], signatures=by_hand)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), rtol=1e-8)


def test_fit_warns_once_and_says_how(animals):
    X, y, classes, unseen = animals
    trained = ~np.isin(y, unseen)
    odd = classes.copy()
    odd.loc["c02"] = 0
    for method in (ESZSL(), CalibratedStacking(ESZSL()), ZeroShotSearchCV(ESZSL(), "fast")):
        with pytest.warns(InputWarning) as said:
            method.fit(X[trained], y[trained], signatures=odd)
        assert len([w for w in said if "'c02' in signatures is all zeros" in str(w.message)]) == 1
        units = [str(w.message) for w in said if "weight_kg" in str(w.message)]
        assert len(units) == 1
        assert "signature_scaling='standard'" in units[0]
        assert Path(said[0].filename) == Path(__file__)
    views = MultiSignatures({"animals": classes, "answers": classes.iloc[:, :16]})
    with pytest.warns(InputWarning, match="the view 'animals' of signatures: .* column 'weight_"):
        ESZSL().fit(X[trained], y[trained], signatures=views)


def test_a_class_that_is_described_later_has_the_units_of_the_others(animals, tmp_path):
    X, y, classes, unseen = animals
    trained = ~np.isin(y, unseen)
    scaled = attribute_signatures(classes, signature_scaling="standard")
    whole = ESZSL().fit(X[trained], y[trained], signatures=scaled)
    model = ESZSL().fit(X[trained], y[trained], signatures=scaled.drop(index=unseen))
    zslearn.save(model, tmp_path / "m.zsl")
    model = zslearn.load(tmp_path / "m.zsl").add_classes(classes.loc[unseen])
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X))
    # The table stays in its units.
    pd.testing.assert_frame_equal(
        model.signature_table_.as_user(), classes, check_names=False, check_index_type=False
    )
    assert model.signature_table_.as_user().attrs == scaled.attrs
    views = MultiSignatures({"a": scaled, "b": classes.iloc[:, :4]})
    table = ESZSL().fit(X[trained], y[trained], signatures=views).signature_table_
    assert table.scalings == ("standard", None)
    assert table.units[1] is None


def test_a_view_that_some_classes_lack(animals):
    X, y, classes, unseen = animals
    trained = ~np.isin(y, unseen)
    scaled = attribute_signatures(classes, signature_scaling="standard")
    views = MultiSignatures({"a": scaled.drop(index="c00"), "b": classes.iloc[:, :16]})
    model = GaussianEXEM().fit(X[trained], y[trained], signatures=views)
    units = model.signature_table_.units[0]
    seen = classes.drop(index=[*unseen, "c00"])
    np.testing.assert_allclose(units[0], seen.mean())
    assert model.score(X[~trained], y[~trained], classes=unseen) > 0.85


def test_folds_use_the_units_of_their_own_classes(animals):
    """Held-out classes do not influence the scaling of a fold."""
    X, y, classes, _ = animals
    heavy = classes.copy()
    heavy.loc["c00", "weight_kg"] = 1e9
    trained = y != "c00"
    for table in (classes, heavy):
        scaled = attribute_signatures(table, signature_scaling="standard")
        model = ESZSL().fit(X[trained], y[trained], signatures=scaled)
        units = model.signature_table_.units[0]
        assert units[1, -1] == pytest.approx(classes["weight_kg"].drop("c00").std(ddof=0))


def test_one_feature_in_grams(animals):
    X, y, classes, unseen = animals
    heavy = np.column_stack([X, np.exp(np.random.default_rng(0).normal(8, 3, len(X)))])
    signatures = attribute_signatures(classes, signature_scaling="standard")
    trained = ~np.isin(y, unseen)
    columns = [*(f"f{i}" for i in range(40)), "grams"]
    frame = pd.DataFrame(heavy, columns=columns)
    with pytest.warns(InputWarning, match=r"X: .* only on the column 'grams',.*StandardScaler"):
        model = SynC().fit(frame[trained], y[trained], signatures=signatures)
    assert model.score(frame[~trained], y[~trained], classes=unseen) < 0.6
    with pytest.warns(InputWarning, match="X: .* only on column 40,"):
        SynC().fit(heavy[trained], y[trained], signatures=signatures)
    options = {"signature_scaling": "standard", "unseen_classes": unseen}
    with pytest.warns(InputWarning, match="only on the column 'grams', .*feature_scaling='st"):
        assert load_table(frame, y, classes, **options).preparation.scaling is None
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        pipe = make_pipeline(StandardScaler(), SynC())
        pipe = CalibratedStacking(pipe, bias=0.0).fit(
            heavy[trained], y[trained], signatures=signatures
        )
        assert pipe.score(heavy[~trained], y[~trained], classes=unseen) > 0.85
        data = load_table(frame, y, classes, feature_scaling="standard", **options)
    np.testing.assert_allclose(data.X_train.std(axis=0), 1)
    assert accuracy(SynC(), data.X, data.y, data.signatures, unseen) > 0.85
    np.testing.assert_allclose(data.features_from(frame), data.X)
    ranged = load_table(frame, y, classes, feature_scaling="range", **options)
    assert (ranged.X_train.min(axis=0) == 0).all()
    with pytest.warns(InputWarning, match="All features are standardised"):
        auto = load_table(frame, y, classes, feature_scaling="auto", **options)
    np.testing.assert_array_equal(auto.X, data.X)


# -------------------------------------------------------------------------------------- the rule


def test_what_has_several_units_is_found():
    assert dominating_columns(load_wine().data) == [12]
    assert dominating_columns(load_breast_cancer().data) == [3, 23]
    answers = (np.random.default_rng(0).random((30, 6)) < 0.5) * 1.0
    legs = np.random.default_rng(1).choice([0, 2, 4, 6, 8], 30)
    assert dominating_columns(np.column_stack([answers, legs])) == [6]
    # Missing values hide no unit; a temperature near 310 K does not decide distances.
    holes = np.column_stack([answers, legs * 100.0])
    holes[0, 0] = np.nan
    assert dominating_columns(holes) == [6]
    assert dominating_columns(np.column_stack([answers, 310 + 0.1 * legs])) == []


@pytest.mark.skipif("ZSLEARN_DATA" not in os.environ, reason="needs the benchmarks' files")
def test_benchmarks_are_left_alone():
    root = Path(os.environ["ZSLEARN_DATA"]) / "xlsa17"
    for path in root.glob("*/*_splits.mat"):
        found = loadmat(path)
        for variable in ("att", "original_att"):
            if variable in found:
                assert dominating_columns(found[variable].T) == [], path
    features = root / "CUB" / "efficientnet_lite0.mat"
    if features.is_file():
        data = load_xlsa17("CUB", features=features.name)
        assert dominating_columns(some_rows(data.X)) == []
        assert data.signatures.attrs == {}


def test_one_column_as_a_series_is_refused_by_its_shape():
    with pytest.raises(ValueError, match="Expected (a 2-dimensional|2D)"):
        GaussianEXEM().fit(pd.Series([1.0, 2.0, 3.0]), ["a", "b", "a"])
