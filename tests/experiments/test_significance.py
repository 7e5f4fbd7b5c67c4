"""Several seeds and class splits: means, spreads, and which methods do not differ."""

from __future__ import annotations

import csv
import io
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report_records import measured
from zslearn.experiments import (
    build_table,
    read_records,
    render,
    summarize_runs,
    write_record,
)
from zslearn.experiments._records import REQUIRED
from zslearn.experiments._summary import Measured, do_not_differ

RNG = np.random.RandomState(0)
_record = partial(measured, seed=0)


def test_subsets_have_rows_and_analyses_are_skipped():
    parts = [_record("ESZSL", 0.4, subset="2-hop"), _record("ESZSL", 0.2, subset="all")]
    varied = _record("ESZSL", 0.9, subset="all", variant="n_seen=3")
    found = summarize_runs(pd.DataFrame([varied, *parts])).mean["accuracy"]
    assert found.to_dict() == {("2-hop", "ESZSL"): 0.4, ("all", "ESZSL"): 0.2}


def test_runs_with_images_are_not_averaged_with_analyses_of_the_same_variant(tmp_path):
    fields = {name: _record("ESZSL", 0.4)[name] for name in REQUIRED}
    run = {"schema": 1, **fields, "seed": 0, "variant": "shots=1", "protocol": "default, 1 shots"}
    write_record({**run, "metrics": {"per_class_accuracy": 0.4}}, tmp_path / "run.json")
    analysis = {"analysis": "shots", "protocol": "default", "seed": 1}
    write_record({**run, **analysis, "metrics": {"per_class_accuracy": 0.9}}, tmp_path / "job.json")
    records = read_records(tmp_path)
    assert sorted(records["analysis"]) == ["", "shots"]
    assert summarize_runs(records).mean["accuracy"].to_dict() == {"ESZSL": 0.4}
    table = build_table(records, "zsl", only_ours=True)
    assert table.ours.to_numpy().tolist() == [[40.0]]


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.02, 0.05, -0.02])
@pytest.mark.parametrize("n", [2, 5, 12])
def test_the_rule_is_the_paired_t_test(shift, n):
    first = RNG.normal(0.5, 0.05, n)
    second = first + shift + RNG.normal(0, 0.01, n)
    over_seeds = [
        Measured({(i, ""): v for i, v in enumerate(values)}) for values in (first, second)
    ]
    p = stats.ttest_rel(first, second).pvalue
    assert do_not_differ(*over_seeds) == (p >= 0.05)
    over_splits = [
        Measured({(0, f"ss-{i}"): v for i, v in enumerate(values)}) for values in (first, second)
    ]
    assert do_not_differ(*over_splits) == (p >= 0.05)


def test_class_splits_are_the_pairs_where_there_are_several():
    """Twenty seeds on two splits are two problems, not forty."""
    gaps = {"ss-1": 0.1, "ss-2": 0.01}
    first = {(i, s): 0.5 + RNG.normal(0, 1e-3) for i, s in product(range(20), gaps)}
    second = {(i, s): value + gaps[s] for (i, s), value in first.items()}
    assert do_not_differ(Measured(first), Measured(second))
    on_one = [
        Measured({run: v for run, v in runs.items() if run[1] == "ss-2"})
        for runs in (first, second)
    ]
    # The gap is the same for every seed, which leaves nothing to judge by.
    assert do_not_differ(*on_one) is None


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.3])
def test_accuracies_are_compared_over_classes(shift):
    """A paired t test over classes, each with its mean over the seeds."""
    random = np.random.RandomState(3)
    first = random.rand(3, 20)
    second = first - shift + random.normal(0, 0.1, (3, 20))
    cells = [
        Measured(
            {(i, ""): row.mean() for i, row in enumerate(values)},
            {(i, ""): dict(enumerate(row)) for i, row in enumerate(values)},
        )
        for values in (first, second)
    ]
    p = stats.ttest_rel(first.mean(axis=0), second.mean(axis=0)).pvalue
    assert do_not_differ(*cells) == (p >= 0.05)
    # Also with one seed, and where all seeds give the same.
    single = [cell.only([(0, "")]) for cell in cells]
    p = stats.ttest_rel(first[0], second[0]).pvalue
    assert do_not_differ(*single) == (p >= 0.05)
    # Values of other classes are no pairs; then seeds decide.
    cells[1].by_class[1, ""] = {"another": 0.5}
    p = stats.ttest_rel(first.mean(axis=1), second.mean(axis=1)).pvalue
    assert do_not_differ(*cells) == (p >= 0.05)


def _without_chance():
    """Two methods that give the same for every seed; one number has values of classes."""
    rows = []
    for method, values in (("ESZSL", (0.9, 0.8, 0.7)), ("SAE", (0.8, 0.9, 0.5))):
        of_classes = tuple(zip("abc", values, strict=True))
        for seed in (0, 1):
            mean = float(np.mean(values))
            rows.append(_record(method, mean, seed=seed, by_class=of_classes))
            rows.append(_record(method, mean / 2, seed=seed, metric="ausuc", setting="gzsl"))
    return pd.DataFrame(rows)


def test_a_note_says_what_is_not_judged():
    records = _without_chance()
    summary = summarize_runs(records)
    assert summary.verdict.loc["SAE"].to_dict() == {
        "accuracy": "not different",
        "AUSUC": "not judged",
    }
    assert any(note.startswith("Not judged against the best – AUSUC:") for note in summary.notes)
    table = build_table(records, only_ours=True)
    assert table.verdict.loc["SAE"].tolist() == ["not different", "not judged"]
    assert any(note.startswith("Not judged against the best – CUB NS") for note in table.notes)
    assert "over classes for accuracies" in render(table)
    # Without values of classes the gap of 88.7 ± 0.0 and 86.7 ± 0.0 is not judged, either.
    bare = summarize_runs(records.drop(columns="by_class"))
    assert bare.verdict.loc["SAE"].tolist() == ["not judged", "not judged"]
    assert summarize_runs(records.query("seed == 0").drop(columns="by_class")).notes == []


def test_unfinished_runs_are_ranked_by_the_common_ones():
    """Seed 1 is easy; the method that lacks it is better on seed 0."""
    records = pd.DataFrame(
        [
            _record("ESZSL", 0.5),
            _record("ESZSL", 0.9, seed=1),
            _record("ALE", 0.6),
        ]
    )
    table = build_table(records, only_ours=True)
    column = "CUB NS accuracy"
    assert table.ours[column].to_dict() == {"ALE": 60.0, "ESZSL": 70.0}
    assert table.marks_ours[column].to_dict() == {"ALE": "best", "ESZSL": "second"}
    assert any(note.startswith(f"Unequal runs – {column}:") for note in table.notes)
    apart = build_table(records.query("seed == 1 or method == 'ALE'"), only_ours=True)
    assert apart.marks_ours[column].to_dict() == {"ALE": "second", "ESZSL": "best"}
    assert any(note.startswith(f"No common runs – {column}:") for note in apart.notes)


def _five_seeds():
    """One best method, one that does not differ from it, one that does."""
    noise = [0.01, -0.02, 0.015, -0.01, 0.005]
    rows = []
    for seed, e in enumerate(noise):
        rows += [
            _record("ESZSL", 0.6 + e, seed=seed),
            _record("ALE", 0.598 - e, seed=seed),
            _record("ConSE", 0.3 + e / 10, seed=seed),
        ]
    return pd.DataFrame(rows)


def test_a_summary_of_several_seeds():
    records = _five_seeds()
    summary = summarize_runs(records)
    by_method = records.groupby("method")["value"]
    for method in ("ESZSL", "ALE", "ConSE"):
        values = by_method.get_group(method)
        assert summary.mean.loc[method, "accuracy"] == pytest.approx(values.mean())
        assert summary.deviation.loc[method, "accuracy"] == pytest.approx(values.std(ddof=1))
    assert summary.not_different["accuracy"].to_dict() == {
        "ESZSL": False,
        "ALE": True,
        "ConSE": False,
    }
    assert summary.runs == "mean ± standard deviation over 5 seeds"
    assert summary.cells()["accuracy"].tolist() == [
        "0.600 ± 0.015",
        "0.598 ± 0.015 ≈",
        "0.300 ± 0.001",
    ]
    single = records[records["seed"] == 0]
    assert summarize_runs(single).runs == ""
    assert summarize_runs(single).cells()["accuracy"].tolist() == ["0.610", "0.588", "0.301"]


def test_a_summary_of_class_splits():
    splits = [_record("ESZSL", v, split=f"ss-{i}") for i, v in enumerate((0.5, 0.7), start=1)]
    summary = summarize_runs(pd.DataFrame(splits))
    assert summary.mean.loc["ESZSL", "accuracy"] == pytest.approx(0.6)
    assert summary.runs == "mean over ss-1, ss-2"
    both = summarize_runs(pd.DataFrame([*splits, _record("ESZSL", 0.4)]))
    assert both.mean["accuracy"].to_dict() == {("ss", "ESZSL"): 0.6, ("ns", "ESZSL"): 0.4}
    alone = summarize_runs(pd.DataFrame(splits[:1]))
    assert alone.runs == ""


def test_class_splits_that_were_drawn_are_named():
    def record(k, value, kind):
        return _record("ESZSL", value, split=f"ss-{k}", split_version=f"xlsa17/ss-{k}/{kind}/0a")

    drawn = pd.DataFrame([record(1, 0.5, "random-seed0"), record(2, 0.7, "random-seed0")])
    assert summarize_runs(drawn).runs == "mean over ss-1, ss-2, drawn at random"
    table = build_table(drawn, "zsl", only_ours=True)
    assert "Class splits drawn at random, not the published ones – CUB SS G." in table.notes
    other = pd.DataFrame([record(1, 0.5, "random-seed1") | {"seed": 1}])
    with pytest.raises(ValueError, match="differ in split_version"):
        build_table(pd.concat([drawn, other]), "zsl")


def test_tables_of_several_seeds():
    table = build_table(_five_seeds(), only_ours=True)
    column = "CUB NS accuracy"
    assert table.ours[column].to_dict() == {"ConSE": 30.0, "ALE": 59.8, "ESZSL": 60.0}
    assert table.not_different[column].to_dict() == {"ConSE": False, "ALE": True, "ESZSL": False}
    text = render(table)
    assert "ours (5 seeds) / published" in text
    assert "Spread – mean ± standard deviation over 5 seeds." in text
    assert "≈ – does not differ from the best" in text
    assert "60.0 ± 1.5** / 53.9" in text
    assert "59.8 ± 1.5* ≈ / 54.9" in text
    assert "**60.0 ± 1.5** / 53.9" in render(table, "markdown")
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert rows[1]["CUB NS accuracy ours (5 seeds)"] == "59.8"
    assert rows[1]["CUB NS accuracy ±"] == "1.5"
    fewer = build_table(_five_seeds().query("method != 'ALE' or seed < 3"), only_ours=True)
    assert "ours (3 to 5 seeds)" in render(fewer)


def test_tables_as_restructured_text():
    docutils = pytest.importorskip("docutils.core")
    records = pd.concat(
        [
            _five_seeds(),
            pd.DataFrame([_record('CMT*; "own"_', 0.1 + i / 100, seed=i) for i in (0, 1)]),
        ]
    )
    table = build_table(records, only_ours=True)
    text = render(table, "rst")
    lines = text.splitlines()
    assert ".. csv-table::" in lines
    assert "   :delim: ;" in lines
    # The best goes by the two seeds that all have.
    assert "   ALE;**59.8 ± 1.5**;54.9;+4.9" in lines
    assert "   ConSE;30.0 ± 0.1;34.3;−4.3" in lines
    tree = docutils.publish_doctree(text, settings_overrides={"report_level": 1})
    assert "system_message" not in str(tree)
    cells = [[entry.astext() for entry in row] for row in tree.findall() if row.tagname == "row"]
    assert cells[0][:2] == ["method", "CUB NS accuracy, ours (2 to 5 seeds)"]
    assert cells[-1][:2] == ['CMT*; "own"_', "10.5 ± 0.7"]
    assert len({len(row) for row in cells}) == 1


def test_records_of_two_protocols_cannot_share_a_column():
    records = pd.DataFrame(
        [_record("ESZSL", 0.5), _record("ALE", 0.6, protocol="authors", grid="paper")]
    )
    with pytest.raises(ValueError, match="differ in protocol: 'authors', 'default'.*protocol="):
        build_table(records)
    table = build_table(records, protocol="authors", only_ours=True)
    assert table.ours["CUB NS accuracy"].to_dict() == {"ALE": 60.0}
    assert "Protocol – ours: authors." in table.notes
    default = build_table(records, protocol="default")
    assert not any("Protocol" in note for note in default.notes)
    grids = pd.DataFrame([_record("ALE", 0.5, grid="fast"), _record("ALE", 0.6, grid="paper")])
    both = build_table(grids)
    assert both.ours["CUB NS accuracy"].dropna().tolist() == [50.0]
    assert "Several grids (fast, paper) – ALE: the table shows fast." in both.notes
    assert build_table(grids, grid="paper").ours["CUB NS accuracy"].dropna().tolist() == [60.0]
