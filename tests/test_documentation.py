"""Tables and sentences of the documentation say what was measured."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path

import pandas as pd
import pytest

from zslearn.cli import main

DOCS = Path(__file__).parents[1] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="there is no documentation here")


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("numbers_in_prose")


def test_every_number_in_a_sentence_is_measured(numbers):
    names = numbers.used()
    assert len(names) > 100
    for name in names:
        text = numbers.resolve(name)
        assert text.strip(" –"), name
        assert "nan" not in text, name


def test_numbers_follow_the_tables(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(numbers, "DOCS", tmp_path)
    monkeypatch.setattr(numbers, "RECORDS", tmp_path)
    numbers.table.cache_clear()
    (tmp_path / "results").mkdir()
    rows = "method; protocol; H; hit@1 / hit@5\nA; default; **0.5 ± 0.1**; 0.1 ± 0.0 / 0.2 ± 0.0\n"
    rows += "; other; −0.003; –\nC\\*; default; 0.7; –\n"
    (tmp_path / "results" / "made.inc").write_text(f".. csv-table::\n   :delim: ;\n\n{rows}")
    record = '{"rows": [{"part": "x", "seconds": 1.26}, {"part": "y", "of": {"share": 0.5}}]}'
    (tmp_path / "made.json").write_text(record)
    for name, text in {
        "made > A > H": "0.5 ± 0.1",
        "made > A > H > mean": "0.5",
        "made > A > hit@1 / hit@5 > hit@5": "0.2",
        "made > A, other > H": "−0.003",
        "made > C*, default > H": "0.7",
        "made > 1st in H > method": "C\\*",
        "made > 2nd in H > H > mean": "0.5",
        "made.json > x > seconds > .1f": "1.3",
        "made.json > y > of > share > .0%": "50 %",
    }.items():
        assert numbers.resolve(name) == text, name
    with pytest.raises(LookupError, match="no row 'B'"):
        numbers.resolve("made > B > H")
    numbers.table.cache_clear()


def test_numbers_of_the_readme_are_those_of_the_tables(numbers):
    """It is read where nothing is substituted, and the first page repeats some of them."""
    pages = [DOCS.parent / "README.md", DOCS / "index.rst"]
    readme, index = (" ".join(page.read_text(encoding="utf-8").split()) for page in pages)
    for name in (
        "beyond_attributes > Gaussian EXEM > H",
        "beyond_attributes > Gaussian EXEM > accuracy",
        "few_lines > Ridge to attributes > H",
        "few_lines > Ridge to attributes > accuracy",
    ):
        assert numbers.resolve(name) in readme, name
    for data in ("CUB", "glyphs", "icons"):
        worth = numbers.resolve(f"few_images_worth > {data} > a description is worth")
        assert worth in readme, data
        assert worth in index, data


def test_typed_numbers_say_that_there_is_no_record():
    """Numbers with a deviation were measured, and belong in a table."""
    for page in ("research_notes/beyond.rst", "reproducing_results.inc"):
        for paragraph in (DOCS / page).read_text(encoding="utf-8").split("\n\n"):
            if re.search(r"\d ± \d", paragraph):
                assert "no records" in " ".join(paragraph.split()), paragraph


def test_protocols_are_compared_with_one_grid(monkeypatch):
    """The default columns of a row with the paper's grid had been of the fast one."""
    monkeypatch.syspath_prepend(DOCS)
    tables = importlib.import_module("results_tables")
    rows = [
        ("authors", "fast", 0.58),
        ("default", "fast", 0.60),
        ("authors", "paper", 0.63),
    ]
    columns = {"method": "ESZSL", "setting": "zsl", "metric": "per_class_accuracy"}
    frame = pd.DataFrame(rows, columns=["protocol", "grid", "value"]).assign(**columns)
    head, *lines = tables.authors(tables.Results(frame))
    assert head.startswith("method; grid; accuracy, default; accuracy, authors; ")
    assert [line.split("; ")[:4] for line in lines] == [
        ["ESZSL", "fast", "60.0", "58.0"],
        ["ESZSL", "paper", "–", "63.0"],
    ]
    both = pd.concat([frame, frame.iloc[2:].assign(protocol="default", value=0.64)])
    *_, last = tables.authors(tables.Results(both))
    assert last.split("; ")[2:4] == ["64.0", "63.0"]


def test_the_table_of_test_selection_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    tables = importlib.import_module("test_selection_table")
    rows = [("ESZSL", 50.0, 51.0, 53.0), ("ESZSL", 50.0, 52.0, 54.5), ("CMT*", 40.0, 50.0, 52.0)]
    found = pd.DataFrame(rows, columns=["method", *tables.CHOICES])
    found = found.assign(data="CUB", metric="harmonic", inflation=found["test"] - found["held_out"])
    head, first, second = tables.by_method(found)
    assert head.count(";") == first.count(";")
    assert first == "CUB; ESZSL; H; 50.0; 51.5; 53.8; **2.2 ± 0.4**; 2"
    assert second == r"CUB; CMT\*; H; 40.0; 50.0; 52.0; 2.0; 1"
    _, means = tables.of_data(found)
    assert means == "CUB; H; –; 2.1; 1.00; 2"


def test_the_index_for_language_models_names_every_page():
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    pages = {
        page.relative_to(DOCS).with_suffix(".html").as_posix()
        for page in [*DOCS.glob("*.rst"), *DOCS.glob("[a-z]*/*.rst")]
        if page.parts[-2] not in ("auto_examples", "generated")
    }
    assert set(re.findall(r"\]\(([^)]+)\)", text)) == pages


def _help(capsys, words: list[str]) -> str:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def test_the_command_reference_names_commands_and_options_that_exist(capsys):
    page = (DOCS / "reference" / "commands.rst").read_text(encoding="utf-8")
    entries = re.findall(r"(?m)^`zslearn ([^`]+)`\n((?:(?: {4}.*)?\n)+)", page)
    commands = set(re.findall(r"(?m)^    ([a-z-]+)(?:  |$)", _help(capsys, [])))
    assert {usage.split()[0] for usage, _ in entries} == commands
    for usage, text in entries:
        # Arguments are in capitals, and alternatives have bars between them.
        words = [word.split("|") for word in usage.split() if word.islower()]
        helps = [_help(capsys, list(command)) for command in itertools.product(*words)]
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
        assert options <= set(re.findall(r"--[a-z][a-z-]*", "".join(helps))), usage
