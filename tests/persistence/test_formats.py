"""Files that earlier versions wrote are read, and predict what they predicted then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from estimators import all_estimators
from zslearn import persistence
from zslearn.persistence._model_files import FORMAT_VERSION

FILES = sorted(Path(__file__).parent.glob("format_*/*.zsl"))


@pytest.mark.filterwarnings("ignore::zslearn._utils._messages.InputWarning")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_of_then(path):
    file = persistence.read_model(path)
    assert type(file.model).__name__ == path.stem
    assert f"format_{file.header['format_version']}" == path.parent.name
    scores = file.model.decision_function(file.extras["rows"])
    # Another processor may round otherwise.
    np.testing.assert_allclose(scores, file.extras["scores"], rtol=1e-6, atol=1e-9)
    columns = file.header["signatures"][0]["columns"]
    file.model.add_classes(pd.DataFrame(file.extras["new"], columns=columns, index=["zz-new"]))
    assert "zz-new" in file.model.classes_


def test_every_estimator_has_a_file_of_the_present_format():
    folder = f"format_{FORMAT_VERSION}"
    names = {path.stem for path in FILES if path.parent.name == folder}
    missing = {*all_estimators(), "ZeroShotPipeline"} - names
    assert not missing, f"{missing}: run python tests/persistence/examples.py"
