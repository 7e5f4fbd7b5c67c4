from __future__ import annotations

import csv
import hashlib
import io
import json
import warnings

import pandas as pd
import pytest

from report_records import measured as _record
from zslearn.base import InputWarning
from zslearn.experiments import (
    FORMATS,
    LAYOUTS,
    build_table,
    load_published,
    read_records,
    render,
    summarize_runs,
    write_record,
)


def _frame(*records):
    return pd.DataFrame(records)


NONE = pd.DataFrame(columns=list(_record()))


# Layouts.


@pytest.mark.parametrize("like", LAYOUTS)
def test_a_layout_shows_every_published_number(like):
    table = build_table(NONE, like)
    data = load_published(like)
    shown = sorted(table.published.stack().dropna())
    assert shown == sorted(data["value"])
    assert table.ours.isna().all(axis=None)
    assert table.ours.index.is_unique
    assert table.ours.columns.is_unique
    for format in FORMATS:
        text = render(table, format)
        assert text.endswith("\n")
        for value, decimals in zip(data["value"], data["decimals"], strict=True):
            assert f"{value:.{decimals}f}" in text


def test_layout_of_the_main_table():
    table = build_table(NONE, "main")
    small = ["AwA NS", "AwA2 NS", "CUB NS", "SUN NS"]
    expected = [f"{name} accuracy" for name in [*small, "ImageNet all"]]
    assert list(table.ours.columns) == expected + [f"{name} AUSUC" for name in small]
    assert list(table.ours.index) == list(load_published("main")["method"].unique())
    assert table.published.loc["EXEM (1NNs)", "CUB NS AUSUC"] == 0.366
    assert table.marks_published.loc["EXEM (1NNs)", "CUB NS AUSUC"] == "second"
    assert table.rankings["per_class_accuracy", "published"].n_columns == 4
    assert len(table.rankings["ausuc", "published"].mean_ranks) == 16


@pytest.mark.parametrize(
    ("like", "columns"),
    [
        ("zsl", ["AwA SS G", "AwA SS R", "AwA NS R", "AwA2 SS R", "AwA2 NS R", "CUB SS G"]),
        ("harmonic", ["AwA NS U", "AwA NS S", "AwA NS H", "AwA NS U cal.", "AwA NS S cal."]),
        ("imagenet", ["2-hop per-sample G", "2-hop accuracy R", "3-hop per-sample G"]),
        ("semantic", ["2-hop", "3-hop", "most-500", "most-1K"]),
        ("imagenet_fk", ["F@1", "F@2", "F@5", "F@10", "F@20", "HP@2"]),
        ("knn_overlap", ["AwA SS k=4", "CUB SS k=20", "SUN SS k=29"]),
        ("regularization", ["penalize=w", "penalize=v"]),
    ],
)
def test_names_and_order_of_columns(like, columns):
    assert list(build_table(NONE, like).ours.columns)[: len(columns)] == columns


# Our numbers beside the paper's.


def test_ours_published_and_difference():
    table = build_table(
        _frame(
            _record("eszsl", 0.5512, dataset="cub", split="NS"),
            _record("SynC ovo", 0.5),
            _record("mine", 0.5512),
            _record("EXEM(1NNs)", 0.2),
            _record("EXEM(1NNs)", 0.4004, setting="gzsl", metric="ausuc"),
        )
    )
    assert list(table.ours.index[-2:]) == ["EXEM (1NNs)", "mine"]
    column = "CUB NS accuracy"
    assert table.ours[column].dropna().to_dict() == {
        "ESZSL": 55.1,
        "SynC o-vs-o": 50.0,
        "EXEM (1NNs)": 20.0,
        "mine": 55.1,
    }
    assert table.difference.loc["ESZSL", column] == pytest.approx(55.1 - 53.9)
    assert table.difference.loc["EXEM (1NNs)", "CUB NS AUSUC"] == pytest.approx(0.400 - 0.366)
    marks = table.marks_ours[column]
    assert marks[marks != ""].to_dict() == {"ESZSL": "best", "mine": "best"}
    # Ours have one column, which needs no ranks; the paper's table has four.
    assert list(table.rankings) == [("per_class_accuracy", "published"), ("ausuc", "published")]
    # The conditions are the paper's, so that only ranks get a note.
    assert all(note.startswith("Mean ranks") for note in table.notes)


def test_cells_as_text():
    records = _frame(_record("ESZSL", 0.51), _record("mine", 0.40), _record("ConSE", 0.34299))
    table = build_table(records, only_ours=True)
    lines = [line.split() for line in render(table).splitlines()]
    assert ["ESZSL", "51.0**", "/", "53.9", "/", "-2.9"] in lines
    assert ["ConSE", "34.3", "/", "34.3", "/", "+0.0"] in lines
    assert ["mine", "40.0*", "/", "–", "/", "–"] in lines
    markdown = render(table, "markdown").splitlines()
    assert "| ESZSL | **51.0** / 53.9 / -2.9 |" in markdown
    assert "| mine | *40.0* / – / – |" in markdown
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert rows[1] == {
        "method": "ESZSL",
        "CUB NS accuracy ours": "51.0",
        "CUB NS accuracy published": "53.9",
        "CUB NS accuracy Δ": "-2.9",
    }
    assert rows[2]["CUB NS accuracy published"] == ""


def test_published_ranks_are_shown_for_the_same_methods_only():
    same = [
        _record(method, value, dataset=dataset)
        for dataset in ("CUB", "SUN")
        for method, value in (("ESZSL", 0.51), ("ConSE", 0.343), ("ALE", 0.6))
    ]
    table = build_table(_frame(*same), only_ours=True)
    lines = [line.split() for line in render(table).splitlines()]
    expected = ["ESZSL", "51.0*", "/", "53.9", "/", "-2.9", "51.0*", "/", "54.5", "/", "-3.5"]
    assert next(line[:-3] for line in lines if line[:1] == ["ESZSL"]) == expected
    assert {side for _, side in table.rankings} == {"ours", "published"}
    # The paper does not have this method, which changes our ranks.
    own = [_record("mine", 0.4, dataset=dataset) for dataset in ("CUB", "SUN")]
    table = build_table(_frame(*same, *own), only_ours=True)
    assert {side for _, side in table.rankings} == {"ours"}
    assert table.rankings["per_class_accuracy", "ours"].mean_ranks["ESZSL"] == 2.0
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert rows[-1]["mean rank accuracy ours"] == "3.0"
    assert "mean rank accuracy published" not in rows[-1]


@pytest.mark.parametrize(
    "other",
    [
        {"features": "mobile"},
        {"split_version": "xlsa17/ns/PS2/0123abcd"},
        {"split_version": "xlsa17/ns/unknown/0123abcd"},
    ],
)
def test_other_features_or_splits_have_no_difference(other):
    table = build_table(_frame(_record(**other)), only_ours=True)
    assert table.published.notna().any(axis=None)
    assert table.difference.isna().all(axis=None)
    for format in FORMATS:
        text = render(table, format)
        assert "53.9" in text
        assert "Δ" not in text
        assert "Delta" not in text


def test_random_class_splits_have_no_difference_to_published_ones():
    def one(version):
        record = _record(split="ss-1", split_version=version, features="GoogLeNet")
        return build_table(_frame(record), "zsl", only_ours=True)

    assert one("xlsa17/ss-1/0123").difference.notna().all(axis=None)
    assert one("xlsa17/ss-1/random/0123").difference.isna().all(axis=None)


def test_records_go_to_the_column_with_the_same_features():
    for features, column in (("GoogLeNet", "AwA SS G"), ("res101", "AwA SS R"), ("x", "AwA SS R")):
        records = _frame(_record(dataset="AWA1", split="ss", features=features))
        table = build_table(records, "zsl")
        assert table.ours.loc["ESZSL"].dropna().to_dict() == {column: 50.0}
        assert list(build_table(records, "zsl", only_ours=True).ours.columns) == [column]


def test_unlike_records_cannot_share_a_column():
    records = _frame(_record(), _record("ALE", features="mobile", value=0.1))
    with pytest.raises(ValueError, match="differ in features: 'mobile', 'res101'"):
        build_table(records)
    assert build_table(records, features="mobile").ours.stack().dropna().to_list() == [10.0]
    records = _frame(_record(), _record("ALE", split_version="PS2", value=0.1))
    with pytest.raises(ValueError, match="split_version: 'PS1', 'PS2'"):
        build_table(records)
    assert build_table(records, split_version="PS1").ours.stack().dropna().to_list() == [50.0]


@pytest.mark.parametrize("choice", [{"features": "res101"}, {"protocol": "default"}])
def test_choices_may_leave_no_records(choice):
    assert build_table(NONE, **choice).ours.isna().all(axis=None)
    # The first choice leaves nothing for the next.
    choices = {"split_version": "PS2", "grid": "paper", **choice}
    assert build_table(_frame(_record()), **choices).ours.isna().all(axis=None)


def test_seeds_are_averaged():
    records = _frame(*(_record(value=v, seed=i) for i, v in enumerate((0.5, 0.6, 0.4001))))
    table = build_table(records)
    assert table.ours.loc["ESZSL", "CUB NS accuracy"] == 50.0
    assert "Spread – mean ± standard deviation over 3 seeds." in table.notes
    assert table.deviation.loc["ESZSL", "CUB NS accuracy"] == pytest.approx(10.0, abs=0.01)
    # One run in two files.
    table = build_table(_frame(_record(), _record()))
    note = "Means over several records of one run – CUB NS accuracy: 2."
    assert note in table.notes


def test_class_splits_are_averaged():
    def one(k, value, method="ESZSL"):
        version = f"xlsa17/ss-{k}/{k:08x}"
        return _record(method, value, split=f"ss-{k}", split_version=version, features="GoogLeNet")

    values = (0.5, 0.6, 0.7, 0.6)
    table = build_table(_frame(*(one(k, v) for k, v in enumerate(values, start=1))), "zsl")
    assert table.ours.loc["ESZSL"].dropna().to_dict() == {"CUB SS G": 60.0}
    assert "Means over class splits – CUB SS G: ss-1, ss-2, ss-3, ss-4." in table.notes


def test_split_versions_other_than_the_papers_are_noted():
    one, other = "xlsa17/ns/PS2/0123abcd", "xlsa17/ns/unknown/4567abcd"
    table = build_table(_frame(_record(split_version=one)))
    assert "Other split version – ours: PS2; published: PS1." in table.notes
    table = build_table(_frame(_record(split_version=other)))
    assert "Other split version – ours: unknown; published: PS1." in table.notes
    table = build_table(_frame(_record(split_version="xlsa17/ns/PS1/0123abcd")))
    assert not any("version" in note for note in table.notes)
    both = _frame(_record(split_version=one), _record("ALE", split_version=other))
    with pytest.raises(ValueError, match="differ in split_version"):
        build_table(both)
    for chosen in ("PS2", one):
        shown = build_table(both, split_version=chosen).ours.stack().dropna()
        assert list(shown.index) == [("ESZSL", "CUB NS accuracy")]


def test_data_sets_that_are_not_in_the_paper_come_last():
    glyphs = {"dataset": "glyphs", "split": "letters", "split_version": "1", "features": "hog"}
    records = _frame(
        _record("ESZSL", 0.123, setting="gzsl", metric="ausuc", **glyphs),
        _record("ESZSL", 0.9, **glyphs),
        _record("mine", 0.8, **glyphs),
    )
    table = build_table(records)
    assert list(table.ours.columns[-2:]) == ["glyphs letters accuracy", "glyphs letters AUSUC"]
    assert table.ours.loc["ESZSL"].dropna().to_list() == [90.0, 0.123]
    assert "Not in the paper's table – glyphs (features: hog)." in table.notes
    assert not any("Other" in note for note in table.notes)
    # ImageNet's table has no columns for small data sets, nor the main table for other CUB splits.
    assert build_table(records, "imagenet").ours.isna().all(axis=None)
    assert build_table(_frame(_record(split="ss")), "main").ours.isna().all(axis=None)
    with pytest.raises(ValueError, match="None of the records fits into the table 'imagenet'"):
        build_table(records, "imagenet", only_ours=True)


def test_parts_of_imagenet_and_kinds_of_signatures():
    hop = {"dataset": "ImageNet", "split": "ss", "subset": "2-hop", "split_version": ""}
    records = _frame(
        _record("EXEM (1NN)", 0.15, semantic="hie", **hop),
        _record("EXEM (1NNs)", 0.16, semantic="hie", **hop),
        _record("EXEM (1NN)", 0.11, semantic="wv-v1", **hop),
    )
    table = build_table(records, "semantic")
    assert table.ours["2-hop"].dropna().to_dict() == {
        "wv-v1 · EXEM (1NN)": 11.0,
        "hie · EXEM (1NN)": 15.0,
        "hie · EXEM (1NNs)": 16.0,
    }
    # Compared within a kind of signatures, as in the paper.
    assert list(table.marks_ours["2-hop"][lambda marks: marks != ""]) == ["best", "second", "best"]
    plain = build_table(records, "imagenet")
    assert "Omitted – records with other signatures: 'hie'." in plain.notes
    assert plain.ours["2-hop accuracy R"].dropna().to_dict() == {"EXEM (1NN)": 11.0}


def test_best_of_a_row_where_rows_are_data_sets():
    ss = {"split": "ss", "features": "GoogLeNet", "method": "SynC ovo"}
    records = _frame(
        _record(value=0.5, variant="penalize=w", **ss),
        _record(value=0.6, variant="penalize=v", **ss),
    )
    table = build_table(records, "regularization")
    assert table.ours.loc["CUB"].to_list() == [50.0, 60.0]
    assert table.marks_ours.loc["CUB"].to_list() == ["second", "best"]
    assert "of its row" in render(table)


def test_uncalibrated_numbers_come_from_conventional_tuning():
    uncalibrated = _record(value=0.1, setting="gzsl", metric="harmonic")
    table = build_table(_frame(uncalibrated), "harmonic")
    assert table.ours.loc["ESZSL"].dropna().to_dict() == {"CUB NS H": 10.0}
    # A method tuned for the generalized setting gives another number at factor 0.
    tuned = uncalibrated | {"grid": "fast"}
    assert build_table(_frame(tuned), "harmonic").ours.isna().all(axis=None)
    both = _frame(_record(grid="fast"), tuned)
    assert summarize_runs(both).mean.columns.tolist() == ["accuracy"]
    assert summarize_runs(_frame(_record(grid="fast"), uncalibrated)).mean.columns.tolist() == [
        "accuracy",
        "H",
    ]
    both = build_table(
        _frame(uncalibrated, {**uncalibrated, "setting": "zsl", "value": 0.2}), "harmonic"
    )
    assert both.ours.loc["ESZSL"].dropna().to_dict() == {"CUB NS H": 20.0}
    # Calibrated numbers never come from a method tuned for the conventional setting.
    wrong = build_table(_frame(_record(metric="calibrated_harmonic")), "harmonic")
    assert wrong.ours.isna().all(axis=None)


def test_latex_marks_the_best_and_escapes_names():
    pair = [_record(method="a_b", value=0.52), _record(method="c&d", value=0.5)]
    text = render(build_table(_frame(*pair), only_ours=True), "latex")
    assert "a\\_b & \\textbf{52.0} \\\\\n" in text
    assert "c\\&d & \\textit{50.0} \\\\\n" in text


def test_invalid_arguments():
    with pytest.raises(ValueError, match="Unknown layout 'best'; choose from main, zsl"):
        build_table(NONE, "best")
    with pytest.raises(ValueError, match="lack the columns 'split_version'"):
        build_table(NONE.drop(columns="split_version"))
    with pytest.raises(ValueError, match="Unknown format 'pdf'"):
        render(build_table(NONE), "pdf")


# Records.


def _written(**changes):
    return {
        "schema": 1,
        "dataset": "CUB",
        "split": "ns",
        "split_version": "PS2",
        "features": "efficientnet_lite0",
        "method": "ESZSL",
        "setting": "zsl",
        "seed": 0,
        "metrics": {"per_class_accuracy": 0.5, "ausuc": None, "harmonic": float("nan"), "bias": 7},
        "hyper_parameters": {"alpha": 1},
        "times": {"fit": 1.5},
        **changes,
    }


def _signed(**changes):
    """The text of a record with its checksum, as documented in read_records."""
    record = _written(**changes)
    plain = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return json.dumps(record | {"checksum": hashlib.sha256(plain.encode()).hexdigest()}, indent=2)


def test_records_are_read_from_a_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.json").write_text(_signed())
    write_record(_written(method="ALE", seed=None, semantic="attributes"), tmp_path / "b.json")
    (tmp_path / ".c.12.tmp.json").write_text("{")
    (tmp_path / ".blocks").mkdir()
    (tmp_path / ".blocks" / "d.json").write_text("{")
    (tmp_path / "readme.txt").write_text("no record")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = read_records(tmp_path)
    assert records[["method", "metric", "value", "file", "semantic"]].to_numpy().tolist() == [
        ["ALE", "per_class_accuracy", 0.5, "b.json", "attributes"],
        ["ALE", "bias", 7.0, "b.json", "attributes"],
        ["ESZSL", "per_class_accuracy", 0.5, "deep/a.json", ""],
        ["ESZSL", "bias", 7.0, "deep/a.json", ""],
    ]
    table = build_table(records)
    assert table.ours["CUB NS accuracy"].dropna().to_dict() == {"ALE": 50.0, "ESZSL": 50.0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        (_signed()[:-20], "Expecting|Unterminated|delimiter"),
        ("\xff", "decode"),
        ("[" * 200_000, "recursion"),
        ("[1, 2]", "not a JSON object"),
        ('{"a": 1}', "without a checksum"),
        (json.dumps(_written()), "without a checksum.*run it again"),
        (_signed().replace("0.5", "9.0"), "checksum does not match"),
        (_signed().replace("0.5", "0.6"), "checksum does not match"),
        (_signed(checksum="other").replace("CUB", "SUN"), "checksum does not match"),
        (json.dumps({"checksum": [], "schema": 1}), "checksum does not match"),
        (_signed(schema=2), "schema 2; this version reads 1"),
        (_signed(method=None), "'method' is None"),
        (_signed(dataset=" "), "'dataset' is empty"),
        (_signed(method="\x1b[31mred"), "'method' is"),
        (_signed(seed="0"), "'seed' is '0'"),
        (_signed(metrics=[1]), "'metrics' is not an object"),
        (_signed(metrics={"ausuc": "0.5"}), "'ausuc' is '0.5'"),
        (_signed(metrics={"ausuc": True}), "'ausuc' is True"),
        (_signed(metrics={"per_class_accuracy": 63.4}), "63.4, not a fraction"),
        (_signed(metrics={"flat_hit_at_5": -1}), "not a fraction"),
        (_signed(per_class={"wren": 1.5}), "'per_class' is not"),
        (_signed(curve={"acc_unseen": [0.5], "acc_seen": [0.5, 1]}), "'curve' is not"),
        (
            _signed(cross_validation={"params": [{}, {}], "mean": [0.1]}),
            "'cross_validation' is not",
        ),
        (_signed(edges={"alpha": "left"}), "'edges' is not"),
        (_signed(protocol=3), "'protocol' is 3"),
        (_signed(metrics={"bias": float("inf")}), "'bias' is inf"),
        (_signed(metrics={"bias": 10**400}), "'bias' is 1000"),
    ],
)
def test_invalid_records_are_skipped_with_a_warning(tmp_path, text, reason):
    (tmp_path / "good.json").write_text(_signed())
    (tmp_path / "odd.json").write_bytes(text.encode("latin-1"))
    with pytest.warns(InputWarning, match=f"(?s)odd.json.*({reason})") as caught:
        records = read_records(tmp_path)
    assert len(caught) == 1
    assert set(records["file"]) == {"good.json"}


# Data of a user.


def _own(method, value, **changes):
    return _record(
        method, value, **{"dataset": "pets", "split": "own", "split_version": "v1"} | changes
    )


@pytest.mark.parametrize("like", ["main", "zsl", "gzsl", "harmonic"])
@pytest.mark.parametrize("dataset", ["pets", "CUB", "awa"])
def test_a_table_of_own_data_does_not_name_the_paper(like, dataset):
    records = _frame(
        *(
            _own(method, value, dataset=dataset, setting=setting, metric=metric)
            for method, value in (("ESZSL", 0.5), ("mine", 0.4))
            for setting, metric in (
                ("zsl", "per_class_accuracy"),
                ("gzsl", "ausuc"),
                ("gzsl", "harmonic"),
            )
        )
    )
    table = build_table(records, like, only_ours=True)
    for format in FORMATS:
        text = render(table, format).casefold()
        for word in ("paper", "published", "table 2", "small data sets", "awa2", "sun", "imagenet"):
            assert word not in text
        assert "eszsl" in text
    name = dataset if dataset == "pets" else f"{dataset} (own)"
    assert all(column.startswith(name) for column in table.ours.columns)
    assert "ours" not in render(table).splitlines()[3]
    # With a data set of the paper it is the paper's table again.
    both = build_table(
        pd.concat([records, _frame(_record(metric="ausuc", setting="gzsl"))]), "main"
    )
    assert "(Table 2 of the paper)" in both.title
    assert any("Not in the paper's table" in note for note in both.notes)
