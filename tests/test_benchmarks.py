"""Records of the benchmarks, and their tables in the documentation."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="there are no benchmarks here")


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks, and forget it afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
            del sys.modules[name]


@pytest.fixture
def results(load, tmp_path, monkeypatch):
    """A folder that records are written to."""
    monkeypatch.setattr(load("_common"), "RESULTS", tmp_path)
    monkeypatch.setattr(load("gather"), "RESULTS", tmp_path)
    return tmp_path


def test_records_say_when_where_and_how():
    paths = sorted((FOLDER / "results").glob("*.json"))
    assert paths
    for path in paths:
        record = json.loads(path.read_text())
        assert re.fullmatch(r"\d{4}-\d\d-\d\d( to \d{4}-\d\d-\d\d)?", record["date"]), path.name
        assert record["machine"]["cores"] >= 1, path.name
        assert record["machine"]["python"], path.name
        assert record["rows"], path.name
        for command in record["command"].split("; "):
            _, script, *arguments = command.split()
            assert (ROOT / script).is_file(), path.name
            assert not any(word.startswith("/") for word in arguments), path.name


def _attributes(tree, names):
    """Chains of attributes of modules that a file uses, such as `_array.BLOCK_BYTES`."""
    for node in ast.walk(tree):
        chain = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id in names:
            yield names[node.id], chain


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_everything_that_a_benchmark_uses_of_the_library_exists(path):
    tree, modules = ast.parse(path.read_text(encoding="utf-8")), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "zslearn":
            home = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(home, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                if isinstance(found := getattr(home, alias.name), ModuleType):
                    modules[alias.asname or alias.name] = found
    for module, chain in _attributes(tree, modules):
        value = module
        for name in chain:
            assert hasattr(value, name), f"{module.__name__}.{'.'.join(chain)}"
            value = getattr(value, name)


def test_the_page_shows_the_records(load):
    draw = load("draw")
    lines = [line for record in draw.read(draw.RESULTS).values() for line in draw.table(record)]
    shown = (ROOT / "docs" / "benchmarks_results.inc").read_text(encoding="utf-8")
    assert shown == "\n".join(lines), "run benchmarks/draw.py"
    record = json.loads((draw.RESULTS / "adapt_sets.json").read_text())
    shown = (ROOT / "docs" / "results" / "adapt_sets.inc").read_text(encoding="utf-8")
    assert shown == "\n".join(draw.adaptations(record)), "run benchmarks/draw.py"
    record = json.loads((draw.RESULTS / "suggest.json").read_text())
    shown = (ROOT / "docs" / "suggest_results.inc").read_text(encoding="utf-8")
    assert shown == "\n".join(draw.suggestions(record)), "run benchmarks/draw.py"


@pytest.mark.parametrize(
    ("arguments", "part", "place"),
    [([], None, "x.json"), (["--quick"], None, "quick/x.json"), ([], "a", "parts/x-a.json")],
)
def test_only_a_whole_measurement_is_a_record(load, results, monkeypatch, arguments, part, place):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bench_x.py", *arguments, "--at", "/a/folder"])
    report = load("_common").Report("x", "Title", part)
    report.add(ratio=2.0)
    path = report.save()
    assert path == results / place
    assert [p for p in results.rglob("*") if p.is_file()] == [path]
    record = json.loads(path.read_text())
    assert record["rows"] == [{"ratio": 2.0}]
    assert record["seconds"] >= 0
    expected = ["python", "benchmarks/bench_x.py", *arguments, "--at", "FOLDER"]
    assert record["command"].split() == expected


def _part(folder, name, **changes):
    record = {
        "title": "T", "date": "2026-11-16", "command": f"python benchmarks/bench_{name}.py",
        "seconds": 10.0, "machine": {"cores": 2}, "rows": [{"what": name}],
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps({**record, **changes}))


def _gather(load, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gather.py", str(folder)])
    load("gather").main()


def test_parts_are_joined_in_the_order_of_the_whole(load, results, monkeypatch, tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for name in ("sync-ovo", "sync-cs", "sync-struct", "other"):
        _part(folder, name)
    _gather(load, folder, monkeypatch)
    whole = json.loads((results / "sync.json").read_text())
    assert [row["what"] for row in whole["rows"]] == ["sync-cs", "sync-struct", "sync-ovo"]
    assert whole["seconds"] == 30
    assert whole["command"].count("python") == 3
    assert json.loads((results / "other.json").read_text())["rows"] == [{"what": "other"}]


def test_a_record_stays_until_all_parts_are_there(load, results, monkeypatch, tmp_path, capsys):
    folder = tmp_path / "job"
    folder.mkdir()
    _part(folder, "sync-cs")
    _gather(load, folder, monkeypatch)
    assert not (results / "sync.json").exists()
    assert "struct, ovo" in capsys.readouterr().out


def test_a_quick_run_reports_what_became_slower(load, tmp_path):
    rows = [{"what": "fit", "cost": 2.0}, {"what": "predict", "cost": 1.0}, {"what": "other"}]
    (tmp_path / "quick").mkdir()
    (tmp_path / "defaults.json").write_text(json.dumps({"rows": rows}))
    slow = [
        {"what": "fit", "cost": 2.7},
        {"what": "predict", "cost": 1.2},
        {"what": "new", "cost": 9},
    ]
    (tmp_path / "quick" / "defaults.json").write_text(json.dumps({"rows": slow}))
    (tmp_path / "quick" / "other.json").write_text(json.dumps({"rows": [{"what": "other"}]}))
    (tmp_path / "quick" / "unknown.json").write_text(json.dumps({"rows": slow}))
    assert load("run").slower(tmp_path) == [
        "slower: fit: 2.7 times its peer, 2 when recorded",
        "unknown: there is no committed record to compare with",
    ]
    costs = load("run")._costs(FOLDER / "results" / "defaults.json")
    assert len(costs) > 10
