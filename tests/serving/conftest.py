from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from service_tools import client_of, save_feature_model
from zslearn.serving import create_app


@pytest.fixture
def model_path(problem, tmp_path):
    """A model of 20 features and 8 attributes."""
    return save_feature_model(problem, tmp_path / "model.zsl")


@pytest.fixture
def client(model_path):
    """A client of a service with that model."""
    with client_of(create_app(model_path)) as client:
        yield client


@pytest.fixture
def rows(problem):
    """Features of five images."""
    return problem.X_test_unseen[:5].tolist()
