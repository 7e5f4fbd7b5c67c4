"""How each column of a table is prepared, and that further tables are prepared alike."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import zslearn
from zslearn.base import InputWarning
from zslearn.datasets import TablePreparation, load_table, read_signature_table
from zslearn.datasets._preparation import tells_apart
from zslearn.persistence import CannotSaveError

N = 120


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def kinds(preparation):
    return {c.name: c.reason or c.kind for c in preparation.columns_}


def test_the_kind_of_each_column(rng):
    y = np.repeat(list("abcdefghij"), 12)
    codes = pd.factorize(y)[0]
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(codes * 20 + rng.integers(0, 5, N), "D")
    junk_days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, N), "D")
    table = pd.DataFrame(
        {
            "weight": rng.normal(size=N),
            "as text": rng.normal(size=N).round(3).astype(str),
            "decimal comma": [f"{v:.2f}".replace(".", ",") for v in rng.normal(size=N) * 9],
            "with n/a": np.where(rng.random(N) < 0.2, "n/a", rng.normal(size=N).astype(str)),
            "stripes": np.where(codes % 2 > 0, "Yes", "no"),
            "colour": np.array(["red", "green", "blue"])[codes % 3],
            "found on": days.strftime("%d.%m.%Y"),
            "seen on": days.strftime("%Y%m%d").astype(int),
            "entered": junk_days.strftime("%Y-%m-%d"),
            "operator": rng.choice(["Anna", "Ben"], N),
            "approved": rng.choice(["yes", "no"], N),
            "pressure": 101_325,
            "laboratory": "Basel",
            "sample_id": rng.permutation(N) + 5000,
            "file": [f"{i}.png" for i in range(N)],
            "Unnamed: 0": rng.integers(0, 9, N),
            "count": np.arange(N),
            "class name": np.char.upper(y),
            "code": codes * 3,
            "void": np.nan,
            "blank": "",
        }
    )
    preparation = TablePreparation().fit(table, y)
    row_numbers, copy = "row numbers", "it encodes the class, which new samples do not have"
    assert kinds(preparation) == {
        **dict.fromkeys(["weight", "as text", "decimal comma", "with n/a"], "number"),
        "stripes": "yes/no",
        "colour": "category",
        **dict.fromkeys(["found on", "seen on"], "date"),
        "entered": "unrelated to the classes",
        "operator": "unrelated to the classes",
        "approved": "unrelated to the classes",
        **dict.fromkeys(["pressure", "laboratory"], "constant"),
        **dict.fromkeys(["sample_id", "Unnamed: 0", "count"], row_numbers),
        "file": "identifier or free text",
        **dict.fromkeys(["class name", "code"], copy),
        **dict.fromkeys(["void", "blank"], "empty"),
    }
    found = preparation.transform(table)
    names = preparation.get_feature_names_out().tolist()
    assert found.shape == (N, len(names)) == (N, 4 + 1 + 3 + 2 * 3)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, :4].std(axis=0), 1)
    assert set(np.unique(found[:, names.index("colour: red")]).round(3)) == {-0.4, 0.6}
    assert "4 numbers, 1 yes/no, 2 dates, 1 category (3 columns)" in preparation.summary()
    assert "'sample_id', 'Unnamed: 0', 'count' (row numbers)" in preparation.summary()


def test_other_tables_in_any_order(rng):
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc")).assign(d="x")
    table.loc[::2, "d"] = "y"
    preparation = TablePreparation(scaling="robust").fit(table)
    expected = preparation.transform(table)
    other = table.assign(note="?")[["d", "note", "c", "a", "b"]]
    np.testing.assert_array_equal(preparation.transform(other), expected)
    np.testing.assert_array_equal(clone(preparation).fit(table).transform(table), expected)
    with pytest.raises(ValueError, match="no columns 'a', 'd'; the table has 'b', 'c'"):
        preparation.transform(table[["b", "c"]])
    with pytest.raises(ValueError, match=r"X has shape \(2, 3\), .* has 4 columns: 'a'"):
        preparation.transform(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="'b' must hold numbers, and has 'high'"):
        preparation.transform(table.assign(b="high"))
    mixed = table.assign(b=[*table["b"].astype(str)[:-1], "high"])
    with pytest.warns(InputWarning, match="'b' holds numbers except for 'high', in 1 rows"):
        odd = preparation.transform(mixed)
    assert odd[-1, 1] == 0  # the median
    with pytest.warns(InputWarning, match="'b' holds numbers except for 'high'") as warned:
        TablePreparation().fit(mixed)
    assert len(warned) == 1
    numbers = TablePreparation(scaling="range").fit(table[["a", "b"]])
    np.testing.assert_array_equal(
        numbers.transform(table[["a", "b"]].to_numpy()), numbers.transform(table)
    )
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(preparation.transform(polars.from_pandas(table)), expected)


@pytest.mark.parametrize(("missing", "fill"), [("median", 2.0), ("mean", 4.0)])
def test_missing_numbers(missing, fill):
    table = pd.DataFrame({"a": [1.0, 2.0, np.nan, 9.0, np.inf], "b": [1, 2, 3, 4, 6]})
    preparation = TablePreparation(scaling=None, missing=missing).fit(table)
    assert preparation.transform(table)[:, 0].tolist() == [1, 2, fill, 9, fill]
    # A column that is missing in all new rows.
    assert preparation.transform(table.assign(a=None))[:, 0].tolist() == [fill] * 5
    assert f"2 missing values are the {missing}" in preparation.summary()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,234", "950", "12,345.6"], [1234, 950, 12345.6]),
        (["1,234,567", "-2,000", "1.25"], [1234567, -2000, 1.25]),
        (["1,234", "0,5", "2"], [1.234, 0.5, 2]),
        (["1.234,5", "1.234", "0,25"], [1234.5, 1234, 0.25]),
        (["1.5", "2,5", "3.25"], [1.5, 2.5, 3.25]),
        (["1.234", "2.345", "9.876"], [1.234, 2.345, 9.876]),
        ([1.234, "2,5", True], [1.234, 2.5, 1]),
        (["1e3", "2,5E-1", "+3"], [1000, 0.25, 3]),
        ([",5", "-1,", ".75"], [0.5, -1, 0.75]),
    ],
)
def test_the_signs_in_numbers(cells, expected):
    table = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
    preparation = TablePreparation(scaling=None).fit(table)
    assert preparation.transform(table)[:, 0].tolist() == pytest.approx(expected)
    # The reading of a row does not depend on other rows.
    single = [preparation.transform(table.iloc[[row]])[0, 0] for row in range(3)]
    assert single == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:The column 'a' holds numbers except for")
def test_a_point_alone_is_no_number():
    table = pd.DataFrame({"a": ["0,5", ".", ".", *(f"1,{i}" for i in range(100, 160))]})
    found = TablePreparation(scaling=None).fit_transform(table)[:, 0]
    assert found[[0, 3, 4]].tolist() == pytest.approx([0.5, 1.1, 1.101])


def test_commas_with_two_readings_are_reported():
    table = pd.DataFrame({"a": ["1,234", "950", "2,500"]})
    with pytest.warns(InputWarning, match="'a', such as in '1,234', are read as thousands"):
        preparation = TablePreparation(scaling=None).fit(table)
    assert preparation.transform(table)[:, 0].tolist() == [1234, 950, 2500]


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_signs_in_numbers_of_files(tmp_path, sep):
    quoted = pd.DataFrame({"label": [*"abc"], "a": ["1,234", "950", "2,500"], "b": [1, 2, 4]})
    other = quoted.assign(a=["1.234", "950", "2.500"], b=["0,5", "2", "4"], day="03.01.2025")
    classes = pd.DataFrame({"size": [1.0, 2, 3, 4]}, index=[*"abcd"])
    path = tmp_path / "samples.csv"
    for table, unit in ((quoted, 1e-3 if sep == ";" else 1), (other, 1)):
        table.to_csv(path, index=False, sep=sep)
        X = load_table(path, signatures=classes, hold_out=None).X
        assert X[:, 0].tolist() == pytest.approx([1234 * unit, 950, 2500 * unit])
    assert X[:, 1].tolist() == [0.5, 2, 4]


def test_columns_of_one_name_are_refused_where_they_matter():
    table = pd.DataFrame([[1.0, 2, 3], [2, 1, 5], [3, 5, 1]], columns=["a", "b", "c"])
    preparation = TablePreparation().fit(table[["a", "b"]])
    with pytest.raises(ValueError, match="Several columns are called 'a'; rename them"):
        preparation.transform(table.set_axis(["a", "b", "a"], axis=1))
    with pytest.raises(ValueError, match="Several columns are called '1'; rename them"):
        TablePreparation().fit(table.set_axis([1, "1", "a"], axis=1))
    others = pd.concat([table, table[["c"]]], axis=1)
    np.testing.assert_array_equal(preparation.transform(others), preparation.transform(table))


def test_periods_are_dates():
    days = pd.period_range("2024-01", periods=12, freq="M")
    table = pd.DataFrame({"month": days})
    preparation = TablePreparation(scaling=None).fit(table)
    assert kinds(preparation) == {"month": "date"}
    for same in (days.to_timestamp(), days.astype(object)):
        found = preparation.transform(pd.DataFrame({"month": same}))
        np.testing.assert_array_equal(found, preparation.transform(table))


def test_a_column_may_have_the_name_of_an_indicator(rng):
    table = pd.DataFrame(rng.normal(size=(40, 2)) * 7, columns=["a", "a: missing"])
    np.testing.assert_allclose(TablePreparation().fit_transform(table).std(axis=0), 1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), clone])
def test_copies_of_an_unfitted_preparation(copied):
    assert copied(TablePreparation(scaling="range")).scaling == "range"


def test_an_indicator_of_missing_values_must_tell_classes_apart(rng):
    y = np.repeat(list("abcdefghij"), 12)
    values = rng.normal(size=N)
    random = pd.DataFrame({"a": np.where(rng.random(N) < 0.3, np.nan, values)})
    telling = pd.DataFrame({"a": np.where(y < "d", np.nan, values)})
    assert TablePreparation().fit(random, y).get_feature_names_out().tolist() == ["a"]
    preparation = TablePreparation().fit(telling, y)
    assert preparation.get_feature_names_out().tolist() == ["a", "a: missing"]
    assert (preparation.transform(telling)[:, 1] > 0).tolist() == (y < "d").tolist()


def test_rare_and_new_values_of_a_category_are_one():
    words = ["red"] * 50 + ["blue"] * 45 + ["mauve", "teal", "puce", None, "Red "]
    y = np.repeat(list("ab"), 50)
    preparation = TablePreparation(scaling=None).fit(pd.DataFrame({"c": words}), y)
    assert preparation.get_feature_names_out().tolist() == ["c: blue", "c: red", "c: other"]
    found = preparation.transform(pd.DataFrame({"c": ["RED", "teal", "new", None, "blue"]}))
    assert found.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_columns_that_cannot_be_used(rng):
    table = pd.DataFrame({"a": [*map(str, range(60)), *["about 5", "low"] * 20]})
    with pytest.raises(ValueError, match="'a' mixes numbers and text, such as 'about 5', 'low'"):
        TablePreparation().fit(table)
    with pytest.raises(ValueError, match=r"No column can be used: 'a' is dropped \(constant\)"):
        TablePreparation().fit(pd.DataFrame({"a": [1, 1, 1]}))
    with pytest.raises(ValueError, match="'a' holds a list in each row"):
        TablePreparation().fit(pd.DataFrame({"a": [[1], [2]]}))
    with pytest.raises(ValueError, match="The 'scaling' parameter of TablePreparation must be"):
        TablePreparation(scaling="much").fit(table)


def test_held_out_rows_tell_whether_columns_tell_classes_apart(rng):
    """Of columns by chance, a few in a thousand are used."""
    codes = np.repeat(np.arange(20), 8)
    noise = rng.normal(size=(len(codes), 400))
    assert sum(tells_apart(noise[:, [i]], codes) for i in range(400)) <= 4
    weak = noise + 0.8 * rng.normal(size=(20, 400))[codes]
    assert sum(tells_apart(weak[:, [i]], codes) for i in range(400)) > 300
    assert not tells_apart(noise[:5, :1], codes[:5])
    assert tells_apart(noise[:5, :1], codes[:5], undecided=True)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_class_tables_in_files(tmp_path, ending):
    pytest.importorskip({".xlsx": "openpyxl", ".parquet": "pyarrow"}.get(ending, "pandas"))
    table = pd.DataFrame(
        {"class": ["ä", "b", "c"], "size": [0.5, None, 2.0], "colour": ["red", "blue", "red"]}
    )
    path = tmp_path / f"c{ending}"
    if ending == ".xlsx":
        table.to_excel(path, index=False)
    elif ending == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    found = read_signature_table(path, any_columns=True)
    assert found.index.tolist() == ["ä", "b", "c"]
    assert found["colour"].tolist() == ["red", "blue", "red"]
    assert found["size"].isna().tolist() == [False, True, False]


def test_sheets_without_a_header(tmp_path):
    pytest.importorskip("openpyxl")
    rows = pd.DataFrame([[0.5, 1], [1.5, 3], [2.5, 4], [0.5, 7]])
    rows.to_excel(tmp_path / "X.xlsx", index=False, header=False)
    classes = pd.DataFrame({"size": [1.0, 2, 3]}, index=[*"abc"])
    data = load_table(tmp_path / "X.xlsx", np.array([*"aabb"]), classes)
    assert data.X.tolist() == rows.to_numpy().tolist()
    assert data.feature_names is None


@pytest.mark.parametrize("name", [0, "size"])
def test_a_column_that_only_unseen_classes_vary_is_kept(name):
    classes = pd.DataFrame({name: [1, 1, 2], "kind": [*"xyx"]}, index=[*"abc"])
    X = pd.DataFrame(np.eye(8, 3), columns=[*"uvw"])
    data = load_table(X, np.array([*"aaaabbbb"]), classes)
    assert data.signatures.columns.tolist() == [str(name), "kind: x", "kind: y"]


def test_sentences_about_classes_are_no_table():
    labels = np.array([*"abcdefghi"])
    classes = pd.DataFrame({"text": [f"number {label}" for label in labels]}, index=labels)
    X = pd.DataFrame(np.eye(9, 4), columns=[*"wxyz"])
    with pytest.raises(ValueError, match=r"^table: The class table: No .*\. Encode sentences with"):
        load_table(X, np.array([*"abcdefghh"]), classes)


def test_a_saved_preparation_is_checked(tmp_path, rng):
    from zslearn.model_selection import TableClassifier

    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.repeat(["u", "v", "w", "x", "y"], 12)
    table["d"] = np.repeat(["red", "blue", "red", "green", "green"], 12)
    classes = pd.DataFrame(rng.normal(size=(6, 4)), index=[*"uvwxyz"])
    model = TableClassifier().fit(table, y, signatures=classes)
    zslearn.save(model, tmp_path / "m.zsl")
    loaded = zslearn.load(tmp_path / "m.zsl")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    np.testing.assert_allclose(loaded.predict_proba(table), model.predict_proba(table))
    assert loaded.columns_.summary() == model.columns_.summary()
    for change in (
        {"columns_": model.columns_.columns_[:-1]},
        {"shift_": np.zeros(2), "scale_": np.ones(2)},
        {"feature_names_in_": np.asarray(["a", "b", "c", "e"], dtype=object)},
    ):
        damaged = copy.deepcopy(model)
        vars(damaged.columns_).update(change)
        with pytest.raises(
            CannotSaveError, match=r"the columns of a table have|columns_ has 3 items"
        ):
            zslearn.save(damaged, tmp_path / "damaged.zsl")
    for values in (
        *({"kind": "code"}, {"fill": np.nan}, {"date_format": "%Q"}, {"levels": ["a"]}),
        *({"decimal": ";"}, {"n_missing": "3"}),
    ):
        with pytest.raises(ValueError, match="is prepared in no known way"):
            type(model.columns_.columns_[0])(**{"name": "a", "kind": "number", **values})
