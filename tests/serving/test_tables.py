"""A service of a model that was fitted on a table."""

from __future__ import annotations

import csv
import io
import warnings

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from zslearn.base import InputWarning
from zslearn.images import fit_samples, load_features, read_class_table, save_fitted
from zslearn.persistence import read_model
from zslearn.serving import Limits, create_app

METALS = {
    "iron": (7.9, "grey"),
    "gold": (19.3, "yellow"),
    "copper": (9.0, "red"),
    "lead": (11.3, "grey"),
}
#: Classes without samples, last.
CLASSES = {**METALS, "tin": (7.3, "white"), "brass": (8.5, "yellow")}


@pytest.fixture(scope="module")
def table_model(tmp_path_factory):
    """A model of metals with numbers, categories and missing values."""
    folder, rng = tmp_path_factory.mktemp("metals"), np.random.default_rng(0)
    rows = []
    for name in [metal for metal in METALS for _ in range(15)]:
        density, colour = METALS[name]
        mass = rng.uniform(1, 9)
        rows.append((mass, mass / density * 10, density + rng.normal(0, 0.2), colour, name))
    table = pd.DataFrame(rows, columns=["mass", "volume", "density", "colour", "class"])
    table.loc[::9, "mass"] = np.nan
    table.to_csv(folder / "metals.csv", index=False)
    described = [
        (name, density, colour == "grey", colour == "yellow")
        for name, (density, colour) in CLASSES.items()
    ]
    columns = ["class", "density", "grey", "yellow"]
    pd.DataFrame(described, columns=columns).to_csv(folder / "classes.csv", index=False)
    samples = load_features(folder / "metals.csv", label="class")
    classes = read_class_table(folder / "classes.csv")
    with warnings.catch_warnings():
        # Units need no warning where the scaling was chosen.
        warnings.simplefilter("error", InputWarning)
        model = fit_samples(samples, classes.signatures, "Gaussian EXEM", tune=None)
    save_fitted(model, folder / "metals.zsl", samples, classes, method="Gaussian EXEM")
    return folder / "metals.zsl"


@pytest.fixture
def path(table_model, tmp_path):
    copied = tmp_path / "metals.zsl"
    copied.write_bytes(table_model.read_bytes())
    return copied


@pytest.fixture
def client(path):
    with TestClient(create_app(path), base_url="http://127.0.0.1") as client:
        yield client


GOLD = {"mass": None, "volume": 3.0, "density": 19.2, "colour": "Yellow", "shelf": "B7"}
IRON = {"mass": 4.0, "volume": 5.1, "density": 7.8, "colour": "grey"}


def best(response):
    assert response.status_code == 200, response.text
    return [found["ranked"][0]["class"] for found in response.json()["predictions"]]


def test_columns_are_listed_in_order(client):
    columns = client.get("/about").json()["columns"]
    assert [column["name"] for column in columns] == ["mass", "volume", "density", "colour"]
    assert [column["kind"] for column in columns] == ["number", "number", "number", "category"]
    assert columns[-1]["levels"] == ["grey", "red", "yellow"]
    assert 7 < columns[2]["typical"] < 12


def test_rows_by_name(client, path):
    found = client.post("/predict?features=true", json={"rows": [GOLD, IRON]})
    assert best(found) == ["gold", "iron"]
    row = found.json()["predictions"][0]["row"]
    # Columns that the model does not use are left out.
    assert row == {name: value for name, value in GOLD.items() if name != "shelf"}
    model = read_model(path).model
    table = pd.DataFrame([IRON, GOLD])
    assert model.predict(table).tolist() == ["iron", "gold"]


def test_a_table_file(client):
    text = "density;colour;volume;mass\n19,2;yellow;3,0;\n7,8;grey;5,1;4,0\n"
    found = client.post("/predict/table", files={"table": ("new.csv", text.encode())})
    assert best(found) == ["gold", "iron"]
    assert [one["image"] for one in found.json()["predictions"]] == ["1", "2"]


@pytest.mark.parametrize(
    ("address", "options", "status", "reason"),
    [
        (
            "/predict",
            {"json": {"rows": [{"mass": 1.0, "colour": "red"}]}},
            422,
            "'volume', 'density'",
        ),
        ("/predict", {"json": {"features": [[1.0, 2.0, 3.0, 4.0]]}}, 422, "no field 'features'"),
        ("/predict", {"json": {"rows": []}}, 422, "rows"),
        ("/predict", {"json": {"rows": [{"mass": [1]}]}}, 422, "rows"),
        (
            "/predict/table",
            {"files": {"table": ("new.csv", b"mass,colour\n1,red\n")}},
            422,
            "new.csv",
        ),
        (
            "/predict/table",
            {"files": {"table": ("new.parquet", b"PAR1 or not")}},
            422,
            "new.parquet",
        ),
        ("/predict/images", {"files": {"images": ("a.png", b"x")}}, 415, "rows of a table"),
    ],
)
def test_wrong_rows_are_refused(client, address, options, status, reason):
    found = client.post(address, **options)
    assert found.status_code == status, found.text
    assert reason in found.json()["reason"]


def test_too_many_rows_are_refused(path):
    with TestClient(create_app(path, limits=Limits(rows=1)), base_url="http://127.0.0.1") as client:
        assert client.post("/predict", json={"rows": [GOLD, GOLD]}).status_code == 422
        text = b"mass,volume,density,colour\n1,2,3,red\n1,2,3,red\n"
        found = client.post("/predict/table", files={"table": ("new.csv", text)})
        assert (found.status_code, found.json()["reason"]) == (
            413,
            "The table has 2 rows; at most 1 are accepted.",
        )


def test_models_of_feature_vectors_take_no_tables(problem, tmp_path):
    from service_tools import save_feature_model

    app = create_app(save_feature_model(problem, tmp_path / "model.zsl"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/about").json()["columns"] is None
        found = client.post("/predict/table", files={"table": ("new.csv", b"a\n1\n")})
        assert found.status_code == 415


def ranked(client, row):
    """The probability of every class."""
    (found,) = client.post("/predict?top=6", json={"rows": [row]}).json()["predictions"]
    return {entry["class"]: entry["probability"] for entry in found["ranked"]}


def test_corrections_of_rows_are_saved_and_undone(path):
    brass = {"mass": 5.0, "volume": 5.9, "density": 8.5, "colour": "yellow"}
    with TestClient(create_app(path), base_url="http://127.0.0.1") as client:
        before = ranked(client, brass)
        found = client.post("/examples?class=brass", json={"rows": [brass], "images": ["tap"]})
        assert found.status_code == 201, found.text
        learned = ranked(client, brass)
        assert learned["brass"] > before["brass"]
    # Another process reads them from the file.
    with TestClient(create_app(path), base_url="http://127.0.0.1") as client:
        (kept,) = client.get("/examples").json()["examples"]
        assert (kept["class"], kept["image"]) == ("brass", "tap")
        assert ranked(client, brass) == pytest.approx(learned)
        assert client.delete(f"/examples/{kept['id']}").status_code == 200
        assert ranked(client, brass) == pytest.approx(before, abs=1e-6)


def test_a_class_is_described_and_tried(client):
    bronze = {"mass": 2.0, "volume": 2.3, "density": 8.8, "colour": "red"}
    trial = {"attributes": {"density": 8.8}, "like": "copper"}
    found = client.post("/predict", json={"rows": [bronze], "trial": trial}).json()
    assert found["trial"] in [entry["class"] for entry in found["predictions"][0]["ranked"]]
    assert client.post("/classes", json={"name": "bronze", **trial}).status_code == 201


@pytest.mark.parametrize("rows", [["no row"], 5, None])
def test_damaged_rows_in_a_file_are_refused(path, rows):
    from zslearn.persistence import save

    file = read_model(path)
    changes = {
        "added": [],
        "examples": [["1", "gold", "x"]],
        "n_unlabelled": 0,
        "rows": rows,
    }
    save(file.model, path, about={**file.about, "changes": changes}, extras=file.extras)
    with pytest.raises(ValueError, match="list of added classes and corrections is damaged"):
        create_app(path)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_table(open_page, path, tmp_path, width):
    tab = open_page(path, width=width, errors=("422",))
    assert tab.locator("#pictures-title").inner_text() == "Rows"
    # From a file
    file = tmp_path / "new.csv"
    pd.DataFrame([GOLD, IRON]).to_csv(file, index=False)
    tab.locator("#table-file").set_input_files(str(file))
    tab.get_by_text("2 rows", exact=True).wait_for()
    assert tab.locator(".card .best").all_inner_texts() == ["gold", "iron"]
    # Pasted from a spreadsheet
    tab.get_by_text("Paste rows").click()
    tab.locator("#paste").fill("colour\tdensity\tmass\tvolume\nred\t9.0\t3\t3.3\n")
    tab.locator("#predict-paste").click()
    tab.get_by_text("3 rows", exact=True).wait_for()
    assert tab.locator(".card .best").last.inner_text() == "copper"
    assert tab.locator(".card .file-name").all_inner_texts() == ["row 1", "row 2", "row 1"]
    # Filled in, with a field left empty
    tab.get_by_text("Fill in a row").click()
    tab.get_by_role("spinbutton", name="volume").fill("5.1")
    tab.get_by_role("spinbutton", name="density").fill("7.8")
    tab.get_by_role("combobox", name="colour").select_option("grey")
    tab.locator("#row-form button").click()
    tab.get_by_text("4 rows", exact=True).wait_for()
    assert tab.locator(".card .best").last.inner_text() == "iron"
    assert "volume 5.1, density 7.8, colour grey" in tab.locator(".card").last.inner_text()
    # Without the columns
    tab.locator("#paste").fill("a,b\n1,2\n")
    tab.locator("#predict-paste").click()
    tab.locator("#table-message.bad").wait_for()
    with tab.expect_download() as saved:
        tab.get_by_role("button", name="Download predictions").click()
    lines = [*csv.reader(io.StringIO(saved.value.path().read_text()))]
    assert [line[1] for line in lines] == ["class", "gold", "iron", "copper", "iron"]
    # Corrections
    tab.get_by_label("Correct class of row 4").fill("tin")
    tab.get_by_label("Correct class of row 4").press("Enter")
    tab.get_by_text("Learned that it is “tin”.").wait_for()
    assert tab.locator("#corrections li").count() == 1
    tab.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
