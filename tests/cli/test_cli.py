from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest

import zslearn
from zslearn.cli import main
from zslearn.datasets import make_zero_shot
from zslearn.experiments import METHODS


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "zslearn", *words],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.mark.slow
def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zslearn {zslearn.__version__}\n"
    result = run("--version")
    assert result.stdout == f"zslearn {zslearn.__version__}\n"


@pytest.mark.parametrize("words", [["dmeo"], [], ["data", "burn"], ["demo", "--ouch"], ["data"]])
def test_wrong_words_show_help_and_exit_2(words, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "show this help message" in printed.err
    assert "error:" in printed.err


def test_data_list_is_plain_without_a_terminal(capsys):
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    assert "glyphs" in out
    assert "\x1b" not in out
    assert "│" not in out


@pytest.mark.slow
def test_data_show(capsys):
    pytest.importorskip("matplotlib")
    assert main(["data", "show", "glyphs", "--split", "ss-2"]) == 0
    out = capsys.readouterr().out
    assert "split ss-2" in out
    assert "225" in out
    assert "unseen classes" in out


def test_errors_are_one_line_and_exit_1(capsys):
    pytest.importorskip("matplotlib")
    assert main(["data", "show", "glyphs", "--split", "nonsense"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("zslearn: error: ")
    assert err.count("\n") == 1
    assert "ss-1" in err  # says what there is
    for words in (["--debug", "data", "show"], ["data", "show", "--debug"]):
        with pytest.raises(ValueError, match="nonsense"):
            main([*words, "glyphs", "--split", "nonsense"])


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo"]) == 1
    assert "pip install 'zslearn[plot]'" in capsys.readouterr().err


@pytest.mark.slow
def test_demo_writes_a_table_and_pictures(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    for name in set(METHODS) - {"ESZSL"}:
        monkeypatch.delitem(METHODS, name)
    assert main(["demo", "--out", "shown"]) == 0
    printed = capsys.readouterr()
    assert "AUSUC" in printed.out
    assert "\x1b" not in printed.out
    assert "fitting ESZSL" in printed.err
    files = sorted(path.name for path in (tmp_path / "shown").iterdir())
    assert files == ["results.csv", "seen-unseen-curve.png", "unseen-letters.png"]
    for name in files[1:]:
        assert (tmp_path / "shown" / name).read_bytes().startswith(b"\x89PNG")
    row = pd.read_csv(tmp_path / "shown" / "results.csv", index_col=0).loc["ESZSL"]
    assert 0.4 < row["per_class_accuracy"] < 0.7
    assert row["calibrated_harmonic"] > row["harmonic"]
    assert f"{row['per_class_accuracy']:.3f}" in printed.out


def test_demo_into_a_place_that_is_no_folder(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 1
    assert "file" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly():
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "zslearn", "data", "list"],
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err


@pytest.mark.slow
def test_ctrl_c_stops_with_one_line(tmp_path):
    pytest.importorskip("matplotlib")
    process = subprocess.Popen(
        [sys.executable, "-m", "zslearn", "demo", "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "loading" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "zslearn: stopped" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "out").glob("*"))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Run `zslearn bench` on a small data set, with two methods."""
    data = make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
    )
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: data)
    options = ["--out", str(tmp_path / "runs"), "--jobs", "1", "--methods", "ConSE", "ESZSL"]
    return lambda *words: main(["bench", "glyphs", *options, *words])


def _break(monkeypatch, error):
    def tune(*given):
        raise error

    monkeypatch.setitem(METHODS, "ESZSL", replace(METHODS["ESZSL"], tune=tune))


@pytest.mark.slow
def test_bench_goes_on_after_a_failure_and_tries_again(
    bench, tmp_path, capsys, monkeypatch, recwarn
):
    with monkeypatch.context() as broken:
        _break(broken, ValueError("the matrix\nis singular"))
        assert bench() == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-3:] == [
        "zslearn: failed: ESZSL, zsl: ValueError: the matrix is singular",
        "zslearn: failed: ESZSL, gzsl: ValueError: the matrix is singular",
        "zslearn: 2 of 4 runs failed; the same command tries them again",
    ]
    assert "Traceback" not in printed.err
    assert len(printed.out.splitlines()) == 4
    assert not [w for w in recwarn if "failed" in str(w.message)]  # said once

    assert main(["table", str(tmp_path / "runs"), "--like", "zsl"]) == 0
    table = capsys.readouterr().out
    assert "ConSE" in table
    assert "ESZSL" not in table

    assert bench() == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert again.err.splitlines() == [
        "ConSE, zsl: finished before …",
        "ESZSL, zsl: tuning …",
        "ConSE, gzsl: finished before …",
        "ESZSL, gzsl: tuning …",
    ]
    assert main(["table", str(tmp_path / "runs"), "--like", "zsl"]) == 0
    assert "ESZSL" in capsys.readouterr().out


def test_bench_shows_tracebacks_with_debug(bench, capsys, monkeypatch):
    _break(monkeypatch, ValueError("no"))
    assert bench("--debug", "--setting", "zsl") == 1
    err = capsys.readouterr().err
    assert err.count("Traceback (most recent call last)") == 1
    assert "in tune" in err
    assert "zslearn: failed: ESZSL, zsl: ValueError: no" in err


def test_bench_stops_at_ctrl_c(bench, tmp_path, capsys, monkeypatch):
    _break(monkeypatch, KeyboardInterrupt())
    assert bench("--setting", "zsl") == 130
    assert capsys.readouterr().err.endswith("zslearn: stopped\n")
    assert not list((tmp_path / "runs").glob("*ESZSL*.json"))
