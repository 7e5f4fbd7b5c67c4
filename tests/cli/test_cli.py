from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import zslearn
from zslearn._utils._messages import warn_user
from zslearn.cli import main
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import METHODS


@pytest.mark.slow
def test_version():
    done = subprocess.run([sys.executable, "-m", "zslearn", "--version"], capture_output=True)
    assert done.stdout.decode() == f"zslearn {zslearn.__version__}\n"


def test_info(capsys, monkeypatch, tmp_path):
    home = tmp_path / "somebody"
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("ZSLEARN_DATA", str(home / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    lines = dict(line.split(":", 1) for line in shown.splitlines())
    assert list(lines) == ["zslearn", "Python", "packages", "missing", "threads", "device", "data"]
    assert lines["zslearn"].strip() == zslearn.__version__
    assert f"pandas {pd.__version__}" in lines["packages"]
    assert "OMP_NUM_THREADS=3" in lines["threads"]
    assert "torch is not installed" in lines["device"]
    assert "no data set in ZSLEARN_DATA=~/data" in lines["data"]
    assert "somebody" not in shown


def test_info_of_a_broken_installation(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert main(["info"]) == 0
    assert "threads:  ModuleNotFoundError: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "program", "reason"),
    [
        ([], "zslearn", "required: COMMAND"),
        (["demos"], "zslearn", "no command 'demos'. Did you mean 'demo'? Choose from demo, data, "),
        (["data", "burn"], "zslearn data", "no command 'burn'. Choose from list, show, table,"),
        (["demo", "--outt=here"], "zslearn demo", "arguments: --outt=here. Did you mean '--out'?"),
        (["demo", "now"], "zslearn demo", "arguments: now."),
        (["--ouch", "demo"], "zslearn", "arguments: --ouch."),
        (["bench", "glyphs", "--grid", "Fast"], "zslearn bench", "Did you mean 'fast'?"),
    ],
)
def test_invalid_arguments_give_one_line_and_exit_status_2(words, program, reason, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"{program}: error: ")
    assert reason in printed.err
    assert printed.err.endswith(f"(see {program} --help)\n")
    assert printed.err.count("\n") == 1


def test_errors_give_one_line_and_exit_status_1(capsys, monkeypatch):
    monkeypatch.setattr("zslearn.datasets.load_glyphs", lambda progress: make_zero_shot())
    assert main(["data", "show", "glyphs", "--split", "nonsense"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("zslearn: error: ")
    assert err.count("\n") == 1
    assert "'ns'" in err  # the available splits
    for words in (["--debug", "data", "show"], ["data", "show", "--debug"]):
        assert main([*words, "glyphs", "--split", "non\x1b[31msense"]) == 1
        err = capsys.readouterr().err
        assert "Traceback (most recent call last)" in err
        assert "ValueError" in err
        assert "\x1b" not in err  # control characters are escaped


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["demo", "imagenet", "--splits", "0"], "--splits 0 must be positive."),
        (["signatures", "hierarchy", "pairs.csv", "--components", "0"], "--components 0 must be "),
        (["analyze", "regressors", "glyphs", "--folds", "1"], "--folds 1 must be at least 2."),
    ],
)
def test_errors_name_options_instead_of_parameters(words, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: make_zero_shot())
    Path("pairs.csv").write_text("child,parent\na,r\nb,r\n")
    assert main([*words, "--out", "table.csv"]) == 1
    assert line in capsys.readouterr().err


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo"]) == 1
    assert "pip install 'zslearn[plot]'" in capsys.readouterr().err


@pytest.mark.slow
def test_demo_writes_a_table_and_pictures(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zslearn.experiments._demo.LEADING_METHODS", ("ESZSL",))
    assert main(["demo", "--out", "shown"]) == 0
    printed = capsys.readouterr()
    assert "AUSUC" in printed.out
    assert "\x1b" not in printed.out
    assert "about half a minute" in printed.err.splitlines()[0]
    assert "fitting ESZSL" in printed.err
    files = sorted(path.name for path in (tmp_path / "shown").iterdir())
    assert files == ["report.html", "results.csv", "runs", "unseen-letters.png"]
    assert (tmp_path / "shown" / "unseen-letters.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "shown" / "report.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    words = " ".join(printed.out.split())
    report = Path("shown", "report.html")
    assert f"wrote {report}" in printed.out.splitlines()
    assert f"Next: open {report}." in words
    row = pd.read_csv(tmp_path / "shown" / "results.csv", index_col=0).loc["ESZSL"]
    assert 0.4 < row["per_class_accuracy"] < 0.7
    assert row["calibrated_harmonic"] > row["harmonic"]
    assert f"{row['per_class_accuracy']:.3f}" in printed.out
    assert f"recognises {row['per_class_accuracy']:.0%} of" in words
    # The letter that is added is recognised at least once.
    found = re.search(r"letter e, mark acute, lower case, .* (\d+) of 48 are recognised", words)
    assert int(found[1]) > 0
    # The report starts with the letters, with the same share of correct answers as the test set.
    answers = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["answers"]
    assert len({answer["truth"] for answer in answers["images"]}) == 50
    right = sum(answer["truth"] == answer["answer"] for answer in answers["images"])
    assert right == pytest.approx(50 * row["per_class_accuracy"], abs=0.5)
    assert f"{right} of these 50 answers are correct" in answers["caption"]


def test_the_demo_refuses_a_file_as_its_folder(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 1
    assert "file" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error():
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
def bench(tiny, tmp_path, monkeypatch):
    """Run `zslearn bench` on a small data set, with two methods."""
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: tiny)
    options = ["--out", str(tmp_path / "runs"), "--jobs", "1", "--methods", "ConSE", "ESZSL"]
    return lambda *words: main(["bench", "glyphs", *options, *words])


@pytest.mark.parametrize(
    "command", [["bench", "glyphs", "--setting", "gzsl"], ["analyze", "curves"]]
)
def test_methods_of_a_module_in_the_working_folder(bench, command, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    module = f"own_methods_of_{command[0]}"
    source = "from zslearn.baselines import ESZSL\n\n\nclass Own(ESZSL):\n    pass\n"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    # The command adds the folder; monkeypatch restores the path.
    monkeypatch.setattr("sys.path", [path for path in sys.path if path not in ("", str(tmp_path))])
    methods = ["--methods", f"{module}:Own", "--jobs", "1", "--out", str(tmp_path / "records")]
    assert main([*command, *methods]) == 0
    assert "Own" in capsys.readouterr().out


def _break(monkeypatch, error):
    def tune(*given):
        raise error

    monkeypatch.setitem(METHODS, "ESZSL", replace(METHODS["ESZSL"], tune=tune))


@pytest.mark.slow
def test_bench_continues_after_a_failure_and_retries(bench, tmp_path, capsys, monkeypatch, recwarn):
    with monkeypatch.context() as broken:
        _break(broken, ValueError("the matrix\nis singular"))
        assert bench() == 1
    printed = capsys.readouterr()
    runs = tmp_path / "runs"
    assert printed.err.splitlines()[-4:] == [
        f"zslearn: 2 records in {runs}; see also: zslearn table {runs}",
        "zslearn: failed: ESZSL, zsl: ValueError: the matrix is singular",
        "zslearn: failed: ESZSL, gzsl: ValueError: the matrix is singular",
        "zslearn: 2 of 4 runs failed; run the same command to retry",
    ]
    assert "Traceback" not in printed.err
    assert "ConSE" in printed.out
    assert "ESZSL" not in printed.out
    assert not [w for w in recwarn if "failed" in str(w.message)]  # reported once

    assert main(["table", str(tmp_path / "runs"), "--like", "zsl"]) == 0
    table = capsys.readouterr().out
    assert "ConSE" in table
    assert "ESZSL" not in table

    assert bench() == 0
    again = capsys.readouterr()
    title, columns, _, *rows = again.out.splitlines()
    assert title.startswith("Results on make_zero_shot, version make_zero_shot-1")
    assert columns.split() == ["accuracy", "H", "S", "cal.", "U", "cal.", "H", "cal.", "AUSUC"]
    assert [row.split()[0] for row in rows[:2]] == ["ConSE", "ESZSL"]
    assert all(
        0 <= float(cell) <= 1 for row in rows[:2] for cell in row.replace("≈", "").split()[1:]
    )
    # Warnings about choices at the edge of a grid are tested elsewhere.
    kept = ("tuning …", "finished …", f"zslearn table {runs}")
    assert [line for line in again.err.splitlines() if line.endswith(kept)] == [
        "ConSE, zsl: already finished …",
        "ConSE, gzsl: already finished …",
        "ESZSL, zsl: tuning …",
        "ESZSL, gzsl: tuning …",
        f"zslearn: 4 records in {runs}; see also: zslearn table {runs}",
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


def test_bench_shows_mean_and_deviation_over_seeds(bench, tmp_path, capsys):
    assert bench("--setting", "zsl", "--seeds", "0", "1") == 0
    printed = capsys.readouterr()
    title, _, _, *rows = printed.out.splitlines()
    assert title.endswith(", mean ± standard deviation over 2 seeds")
    assert [row.split()[0] for row in rows[:2]] == ["ConSE", "ESZSL"]
    assert all(" ± 0." in row for row in rows[:2])
    assert "ESZSL, zsl, seed 1: tuning …" in printed.err
    assert len(list((tmp_path / "runs").glob("*.json"))) == 4
    assert main(["table", str(tmp_path / "runs"), "--like", "zsl", "--format", "rst"]) == 0
    table = capsys.readouterr().out
    assert ".. csv-table::" in table
    assert "(2 seeds)" in table
    assert bench("--setting", "zsl", "--seed", "0") == 0
    alone = capsys.readouterr()
    assert "±" not in alone.out
    assert "ESZSL, zsl: already finished …" in alone.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--authors", "x"], "--authors is for --protocol authors"),
        (["--protocol", "authors"], "make_zero_shot"),
        (["--split", "ss"], "no class splits"),
        (["--seeds", "-1"], "seeds must be whole numbers"),
        (["--out", "file/runs"], ".json: Not a directory."),
    ],
)
def test_bench_checks_options_before_tuning(bench, tmp_path, capsys, monkeypatch, words, message):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    _break(monkeypatch, KeyboardInterrupt)
    assert bench(*words) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_command_shows_a_warning_once(bench, tmp_path, capsys, monkeypatch):
    def tune(*given):
        warn_user("something about the data is odd")
        return METHODS["ConSE"].tune(*given)

    monkeypatch.setitem(METHODS, "ESZSL", replace(METHODS["ESZSL"], tune=tune))
    assert bench("--methods", "ESZSL", "--seeds", "0", "3") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "odd" in line]
    assert lines == ["zslearn: warning: something about the data is odd"]
