from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest

from service_tools import save_feature_model
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.cli import main
from zslearn.persistence import read_model, save

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")


@pytest.fixture
def model_path(problem, tmp_path):
    return save_feature_model(problem, tmp_path / "model.zsl")


def one_line(capsys):
    """The last line on standard error."""
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("zslearn: error: ")
    return lines[-1]


def test_what_is_served_and_how(model_path, monkeypatch, capsys):
    served = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: served.append(server.config))
    monkeypatch.setenv("ZSLEARN_TOKEN", "t" * 20)
    words = ["serve", str(model_path), "--host", "0.0.0.0", "--port", "8123", "--max-batch", "3"]
    assert main(words) == 0
    (config,) = served
    assert (config.host, config.port, config.access_log) == ("0.0.0.0", 8123, False)
    said = capsys.readouterr().err
    assert "16 classes, accepts features; serving at http://0.0.0.0:8123/" in said
    assert "t" * 20 not in said


def test_classes_and_odds_from_files(problem, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: None)
    monkeypatch.setattr(
        "zslearn.images._describing.text_signatures",
        lambda said, *_, **__: pd.DataFrame([[float(len(texts))] * 8 for texts in said.values()]),
    )
    names = problem.signatures.index.tolist()
    model = CalibratedStacking(ESZSL(), temperature="cv")
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    path = tmp_path / "words.zsl"
    save(model, path, about={"signatures": {"kind": "text", "encoder": "use", "texts": {}}})
    (tmp_path / "d.json").write_text(json.dumps({names[0]: "known", "yeti": ["white", "tall"]}))
    (tmp_path / "p.json").write_text(json.dumps({names[0]: 3}))
    words = ["serve", str(path), "--describe", str(tmp_path / "d.json")]
    assert main([*words, "--prior", str(tmp_path / "p.json")]) == 0
    assert "17 classes" in capsys.readouterr().err
    assert read_model(path).about["signatures"]["texts"]["yeti"] == ["white", "tall"]
    (tmp_path / "p.json").write_text("[1]")
    assert main([*words, "--prior", str(tmp_path / "p.json")]) == 1
    assert "p.json must map classes to odds" in one_line(capsys)
    # Files may say more of a class than requests.
    (tmp_path / "d.json").write_text(json.dumps({"new yeti": ["a"] * 101, "yeti": "again"}))
    (tmp_path / "r.csv").write_text("class,kind\nyeti,ape\n")
    assert main([*words, "--taxonomy", str(tmp_path / "r.csv")]) == 0
    assert "18 classes" in capsys.readouterr().err
    (tmp_path / "d.json").write_text(json.dumps({"a": "x", "b": "y"}))
    assert main([*words, "--max-added", "3"]) == 1
    assert "2 of at most 3 classes have been added, so there is no room for 2 more" in one_line(
        capsys
    )


def test_refusals_are_one_line(model_path, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("ZSLEARN_TOKEN", raising=False)
    assert main(["serve", str(model_path), "--host", "0.0.0.0"]) == 1
    assert "give a token (--token)" in one_line(capsys)
    assert main(["serve", str(model_path), "--token", "short"]) == 1
    assert "16 characters or more" in one_line(capsys)
    assert main(["serve", str(model_path), "--max-batch", "0"]) == 1
    assert "The limit --max-batch 0 must be" in one_line(capsys)
    assert main(["serve", str(tmp_path / "none.zsl")]) == 1
    assert "none.zsl" in one_line(capsys)
    model_path.write_bytes(model_path.read_bytes()[:-5])
    assert main(["serve", str(model_path)]) == 1
    assert "model.zsl cannot be loaded" in one_line(capsys)


def test_without_the_extra(model_path):
    # A separate process, since the packages are already imported here.
    code = (
        "import sys; [sys.modules.__setitem__(name, None) for name in {blocked}]; "
        "from zslearn.cli import main; sys.exit(main(['serve', sys.argv[1]]))"
    )
    blocked = ["fastapi", "starlette", "uvicorn", "h11", "prometheus_client", "python_multipart"]
    command = [sys.executable, "-c", code.format(blocked=blocked), str(model_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'zslearn[serve]'" in done.stderr.splitlines()[-1]
