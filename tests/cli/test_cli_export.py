"""`zslearn export`."""

from __future__ import annotations

import pytest

from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.datasets import make_zero_shot

pytest.importorskip("onnxruntime")
pytest.importorskip("ndonnx")
persistence = pytest.importorskip("zslearn.persistence")


@pytest.fixture
def saved(tmp_path):
    data = make_zero_shot(n_seen=8, n_unseen=4, random_state=0)
    model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    path = tmp_path / "model.zsl"
    persistence.save(model, path)
    return path


def test_export_a_saved_model(saved, tmp_path, capsys):
    file = tmp_path / "out" / "model.onnx"
    assert main(["export", str(saved), str(file)]) == 0
    assert "12 classes, 64 features" in capsys.readouterr().out
    assert file.stat().st_size > 1000
    assert main(["export", str(saved), str(file), "--no-check"]) == 0


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("model.zsl", "model.tflite"), "must end in .onnx"),
        (("other.zsl", "model.onnx"), "other.zsl"),
    ],
)
def test_errors_are_one_line(saved, tmp_path, capsys, names, reason):
    assert main(["export", *(str(tmp_path / name) for name in names)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("zslearn: error: ")
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / names[1]).exists()
