from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from service_tools import client_of, running, save_feature_model
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


@pytest.fixture
def open_page(browser):
    """Serve a model and open its page, which must log no errors and load nothing from elsewhere."""
    contexts, problems, servers = [], [], []

    def open_it(path, *, width=1280, scheme="light", errors=(), **options):
        server = running(create_app(path, **options))
        servers.append(server)
        address = server.__enter__()
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "console",
            lambda m: (
                problems.append(m.text)
                if m.type == "error" and not any(error in m.text for error in errors)
                else None
            ),
        )
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on(
            "request",
            lambda r: (
                None if r.url.startswith((address, "data:", "blob:")) else problems.append(r.url)
            ),
        )
        tab.goto(address)
        if "token" not in options:
            tab.locator("#main").wait_for()
        return tab

    yield open_it
    for context in contexts:
        context.close()
    for server in servers:
        server.__exit__(None, None, None)
    assert problems == []
