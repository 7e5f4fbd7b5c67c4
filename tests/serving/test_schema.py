"""Requests generated from the OpenAPI document must never cause an internal error."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from zslearn.datasets import make_zero_shot
from zslearn.persistence import save
from zslearn.serving import Limits, create_app
from zslearn.synthesis import GaussianEXEM

schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")

pytestmark = pytest.mark.slow
#: Requests per operation.
EXAMPLES = int(os.environ.get("ZSLEARN_SCHEMA_EXAMPLES", "25"))


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The OpenAPI document of a small service."""
    problem = make_zero_shot(
        n_seen=4, n_unseen=2, n_features=3, n_attributes=2, samples_per_class=5, random_state=0
    )
    path = tmp_path_factory.mktemp("model") / "model.zsl"
    # With this weight, any unlabelled images are accepted.
    model = GaussianEXEM(unlabelled_weight=0.1)
    save(model.fit(problem.X_train, problem.y_train, signatures=problem.signatures), path)
    limits = Limits(added_classes=20, examples=20, unlabelled=20, seconds=60)
    app = create_app(path, limits=limits)
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "localhost"})


#: Statuses that some valid requests must get, so that not all are refused.
WENT_WELL = {"POST /predict": 200, "POST /classes": 201, "POST /adapt": 200}
OPERATIONS = [
    "GET /about",
    "GET /adapt",
    "POST /adapt",
    "POST /adapt/images",
    "DELETE /adapt",
    "GET /examples",
    "POST /examples",
    "POST /examples/images",
    "DELETE /examples/{id}",
    "GET /pictures/{name}",
    "GET /classes",
    "POST /classes",
    "GET /classes/{name}",
    "DELETE /classes/{name}",
    "GET /health",
    "GET /metrics",
    "POST /predict",
    "POST /predict/images",
    "POST /predict/table",
    "POST /suggest",
]


def test_all_operations_are_listed(document):
    found = {result.ok().label for result in document.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_generated_requests(document, label, mode):
    operation = next(
        result.ok() for result in document.get_all_operations() if result.ok().label == label
    )
    has_input = operation.body or operation.query or operation.path_parameters
    if mode == "NEGATIVE" and not (operation.body or operation.query):
        return  # no input can be invalid
    # Most generated names hold invisible characters and are refused.
    n_examples = EXAMPLES * (8 if label == "POST /classes" else 1)
    checks = schemathesis.specs.openapi.checks
    answers: Counter[int] = Counter()

    @hypothesis.given(
        operation.as_strategy(generation_mode=getattr(schemathesis.GenerationMode, mode))
    )
    @hypothesis.settings(
        max_examples=n_examples if has_input else 1,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def ask(case):
        if mode == "POSITIVE":
            # Generated keys repeat, and most requests with a repeated key are refused.
            case.headers.pop("Idempotency-Key", None)
        response = case.call(headers={"host": "localhost"})
        answers[response.status_code] += 1
        # Responses, including refusals, follow the document.
        case.validate_response(
            response,
            checks=[
                schemathesis.checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    ask()
    if mode == "POSITIVE" and label in WENT_WELL:
        assert answers[WENT_WELL[label]]
