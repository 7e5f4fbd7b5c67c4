"""Requests made from the OpenAPI document: none may be answered by a fault of the service."""

from __future__ import annotations

import os

import pytest

from service_tools import save_feature_model
from zslearn.datasets import make_zero_shot
from zslearn.serving import Limits, Recognizer, create_app

pytest.importorskip("fastapi")
schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")

pytestmark = pytest.mark.slow
#: Requests per operation; the variable makes a longer run.
EXAMPLES = int(os.environ.get("ZSLEARN_SCHEMA_EXAMPLES", "25"))


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The document of a small service."""
    problem = make_zero_shot(
        n_seen=4, n_unseen=2, n_features=3, n_attributes=2, samples_per_class=5, random_state=0
    )
    path = save_feature_model(problem, tmp_path_factory.mktemp("model") / "model.zsl")
    app = create_app(Recognizer(path, limits=Limits(added_classes=20, seconds=60)))
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "localhost"})


schema = schemathesis.pytest.from_fixture("document")


@schema.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_no_request_meets_a_fault(case):
    response = case.call(headers={"host": "localhost"})
    assert response.status_code < 500, response.text
    # As the document says, refusals included.
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.specs.openapi.checks.status_code_conformance,
            schemathesis.specs.openapi.checks.content_type_conformance,
            schemathesis.specs.openapi.checks.response_schema_conformance,
        ],
    )
