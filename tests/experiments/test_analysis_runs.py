"""Analyses as runs: resuming, failures, plots and the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import FitFailedWarning

from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.datasets import ZeroShotDataset, make_zero_shot
from zslearn.experiments import build_table, read_records
from zslearn.experiments._names import method_style
from zslearn.experiments.analyses import (
    AnalysisDisplay,
    run_analysis,
    summarize_analysis,
)
from zslearn.experiments.analyses._jobs import Job, JobRunner
from zslearn.experiments.analyses._run import analyze
from zslearn.synthesis import EXEM

ALPHAS = [2.0**-16, 2.0**-12, 2.0**-8]


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(random_state=0)


def test_finished_jobs_are_not_repeated(data, tmp_path):
    first = analyze("components", data, tmp_path, alphas=ALPHAS)
    said: list[str] = []
    second = analyze("components", data, tmp_path, alphas=ALPHAS, say=said.append)
    assert said == []
    pd.testing.assert_frame_equal(first, second)
    analyze("components", data, tmp_path, alphas=ALPHAS, resume=False, say=said.append)
    assert len(said) == 3


def test_an_interrupted_analysis_resumes(data, tmp_path):
    whole = analyze("components", data, tmp_path / "whole", alphas=ALPHAS)
    said: list[str] = []

    def stop(text):
        said.append(text)
        if len(said) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze("components", data, tmp_path / "part", alphas=ALPHAS, say=stop)
    assert len(list((tmp_path / "part").glob("*.json"))) == 1
    rest: list[str] = []
    found = analyze("components", data, tmp_path / "part", alphas=ALPHAS, say=rest.append)
    assert len(rest) == 2
    pd.testing.assert_frame_equal(found, whole)


def test_other_data_and_options_are_recomputed(data, tmp_path):
    analyze("components", data, tmp_path, alphas=ALPHAS[:1])
    said: list[str] = []
    analyze("components", data, tmp_path, alphas=ALPHAS[:1], n_splits=2, say=said.append)
    assert len(said) == 1
    other = make_zero_shot(random_state=1)
    analyze("components", other, tmp_path, alphas=ALPHAS[:1], n_splits=2, say=said.append)
    assert len(said) == 2


def _fails():
    raise RuntimeError("no luck\nat all")


def test_a_failing_job_does_not_stop_the_others(data, tmp_path):
    jobs = [
        Job("ESZSL", 0, lambda: {"metrics": {"x": 1.0}}, {"n": 1}),
        Job("ESZSL", 0, _fails, {"n": 2}),
    ]
    runner = JobRunner("trial", data, tmp_path)
    with pytest.warns(FitFailedWarning, match=r"n 2, seed 0 \(no luck at all\)"):
        frame = runner.run(jobs)
    assert frame["n"].tolist() == [1]
    # The next run retries it.
    jobs[1] = Job("ESZSL", 0, lambda: {"metrics": {"x": 2.0}}, {"n": 2})
    assert runner.run(jobs)["value"].tolist() == [1.0, 2.0]


def test_an_analysis_without_successful_jobs_raises(data, tmp_path):
    with pytest.raises(ValueError, match="Every part of trial failed"):
        JobRunner("trial", data, tmp_path).run([Job("ESZSL", 0, _fails)])
    with pytest.raises(ValueError, match="nothing to compute"):
        JobRunner("trial", data, tmp_path).run([])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": "ESZL"}, "Did you mean"),
        ({"methods": []}, "at least one method"),
        ({"seeds": [-1]}, "seeds must be whole numbers"),
        ({"shares": [0.0, 1.0]}, "shares must lie in"),
        ({"grid": "slow"}, "Unknown grid 'slow'"),
        ({"n_splits": 0}, "n_splits=0 must be at least 2"),
    ],
)
def test_invalid_options_raise_before_any_computation(data, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        analyze("seen-classes", data, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_several_splits_are_analysed_and_averaged_in_tables(tmp_path):
    pytest.importorskip("matplotlib")
    first = make_zero_shot(random_state=0)
    splits = dict.fromkeys(("ss-1", "ss-2"), first.active_split)
    several = ZeroShotDataset(
        first.X, first.y, first.signatures, splits, "ss-1", "mine", first.features
    )
    options = {"splits": ["ss-1", "ss-2"], "methods": "krr", "dimensions": [10, None]}
    frame, _ = run_analysis("regressors", several, tmp_path, **options)
    assert set(frame["split"]) == {"ss-1", "ss-2"}
    table = build_table(read_records(tmp_path), "regressor", only_ours=True).ours
    assert list(table.columns) == ["n_components=None"]
    with pytest.raises(ValueError, match="one split at a time"):
        run_analysis("curves", several, tmp_path, splits=["ss-1", "ss-2"])


# Plots.


def _frame():
    rows = [
        (method, n, seed, "per_class_accuracy", 0.01 * n + 0.1 * seed)
        for method in ("ESZSL", "EXEM (1NN)", "a $name")
        for n in (10, 20)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["method", "n_seen", "seed", "metric", "value"])


def test_methods_have_their_colours_and_exem_is_dashed():
    pytest.importorskip("matplotlib")
    display = AnalysisDisplay(_frame(), "seen-classes").plot()
    lines = {bar.get_label(): bar.lines[0] for bar in display.ax_.containers}
    assert lines["ESZSL"].get_color() == method_style("ESZSL").color
    assert lines["ESZSL"].get_linestyle() == "-"
    assert lines["EXEM (1NN)"].get_linestyle() == "--"
    np.testing.assert_allclose(lines["ESZSL"].get_ydata().astype(float), [15.0, 25.0])
    (bars,) = display.ax_.containers[0].lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    spread = 100 * np.std([0.1, 0.2], ddof=1)
    np.testing.assert_allclose(ends, [[15 - spread, 15 + spread], [25 - spread, 25 + spread]])


@pytest.mark.slow
def test_plots_are_saved_reproducibly_as_svg_and_png(tmp_path):
    pytest.importorskip("matplotlib")
    first = AnalysisDisplay(_frame(), "seen-classes").save(tmp_path / "a")
    second = AnalysisDisplay(_frame(), "seen-classes").save(tmp_path / "b")
    assert [path.name for path in first] == ["seen-classes.svg", "seen-classes.png"]
    assert first[1].read_bytes() == second[1].read_bytes()
    assert "a $name" in first[0].read_text(encoding="utf-8")


def test_invalid_tables_and_panels_raise():
    with pytest.raises(ValueError, match="lacks 'n_seen'"):
        AnalysisDisplay(_frame().drop(columns="n_seen"), "seen-classes")
    with pytest.raises(ValueError, match="no rows"):
        AnalysisDisplay(_frame().iloc[:0], "seen-classes")
    with pytest.raises(ValueError, match="Unknown panel 'x'"):
        AnalysisDisplay(_frame(), "seen-classes").plot(ax=object(), panel="x")


# The command line.


@pytest.fixture
def tiny(monkeypatch, data):
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: data)


def test_the_command_prints_a_summary_and_writes_files(tiny, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    words = ["analyze", "seen-classes", "glyphs", "--methods", "eszsl", "--out", str(out)]
    assert main([*words, "--seeds", "0", "1", "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    assert "seen-classes of make_zero_shot" in printed.out
    assert "±" in printed.out
    assert "\x1b" not in printed.out
    names = {path.name for path in out.iterdir()}
    assert {"seen-classes.csv", "seen-classes.svg", "seen-classes.png"} <= names
    assert not [name for name in names if name.startswith(".parts")]
    saved = pd.read_csv(out / "seen-classes.csv")
    assert set(saved["seed"]) == {0, 1}
    assert main([*words, "--seeds", "0", "1", "--jobs", "1"]) == 0
    assert "seed 0 …" not in capsys.readouterr().err
    assert main([*words, "--shares", "0.4", "1", "--jobs", "1"]) == 0
    assert set(pd.read_csv(out / "seen-classes.csv")["n_seen"]) == {8, 20}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["components", "glyphs", "--runs", "x"], "not for components"),
        (["components", "glyphs", "--shares", "0.5"], "--shares is for seen-classes, phantoms"),
        (["seen-classes", "glyphs", "--shares", "1.5"], "must lie in (0, 1]"),
        (["components", "glyphs", "--retune"], "--retune is for"),
        (["components", "glyphs", "--shots", "1"], "--shots is for shots"),
        (["shots", "glyphs", "--shots", "30"], "too few test images to draw 30"),
        (["shots", "glyphs", "--methods", "ESZSL"], "Unknown methods: ESZSL"),
        (["components", "glyphs", "--forms", "penalize=v"], "--forms is for penalties"),
        (["components", "glyphs", "--methods", "ESZSL"], "This analysis needs SynC methods"),
    ],
)
def test_the_command_rejects_unsuitable_options(tiny, words, line, tmp_path, capsys):
    assert main(["analyze", *words, "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_a_summary_has_a_row_per_method_and_setting():
    table = summarize_analysis(_frame())
    assert table.loc["ESZSL", "per_class_accuracy"].tolist() == ["0.150 ± 0.071", "0.250 ± 0.071"]
    assert table["n_seen"].tolist() == ["10", "20"] * 3
    numbers = summarize_analysis(_frame(), as_text=False).set_index(["method", "n_seen"])
    np.testing.assert_allclose(numbers.loc[("ESZSL", 20), ["mean", "n_runs"]].tolist(), [0.25, 2])


class OwnExem(EXEM):
    """A user's method."""


class OwnMethod(ESZSL):
    """A user's method that predicts no exemplars."""


@pytest.mark.parametrize(
    ("analysis", "row", "options"),
    [
        ("exemplars", "Predicted exemplars, OwnExem", {}),
        ("exemplar-map", None, {"n_classes": 3}),
        ("shots", "OwnMethod", {"shots": [0, 1]}),
    ],
)
def test_own_classes_are_analysed(data, tmp_path, analysis, row, options):
    own = OwnMethod if analysis == "shots" else OwnExem
    options |= {"methods": [f"{__name__}:{own.__name__}"], "seeds": 0, "n_splits": 2}
    frame = analyze(analysis, data, tmp_path, **options)
    assert row is None or row in set(frame["method"])
    with pytest.raises(ValueError, match=r"your own subclass of EXEM; got .*:OwnMethod"):
        analyze("exemplars", data, tmp_path, methods=f"{__name__}:OwnMethod")
