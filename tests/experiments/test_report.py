"""The report: what it is made of. How it behaves in a browser: test_report_page.py."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from report_records import HOSTILE, example_record, write_runs
from zslearn.cli import main
from zslearn.datasets import make_zero_shot
from zslearn.experiments import (
    read_failures,
    read_records,
    run_benchmark,
    write_record,
    write_report,
)
from zslearn.experiments._examples import data_uri, read_examples, save_examples
from zslearn.experiments._names import _COLORS, method_style
from zslearn.experiments._records import whole_records
from zslearn.experiments._report._build import build_report, curve_of, landscape_of, shown_names
from zslearn.experiments.analyses import run_analysis

NOTHING = "no numbers for a report"


def data_of(page):
    """The data of a page, as its program reads it."""
    text = page.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(found)


@pytest.fixture(scope="module")
def small():
    """Eight seen and four unseen classes, with grey images that are mostly nothing."""
    data = make_zero_shot(
        n_seen=8, n_unseen=4, n_features=16, n_attributes=6, samples_per_class=12, random_state=1
    )
    images = np.zeros((len(data.y), 20, 30), dtype=np.uint8)
    images[:, 5:9, 5:9] = 200
    object.__setattr__(data, "images", images)
    return data


@pytest.fixture(scope="module")
def runs(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run_benchmark(small, ["ESZSL", "ConSE"], folder, seeds=[0, 1], command="zslearn bench it")
    return folder


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    return data_of(write_report(runs, tmp_path_factory.mktemp("page") / "report.html"))


def test_records_of_analyses_are_skipped(small, runs, report, tmp_path):
    pytest.importorskip("matplotlib")
    shutil.copytree(runs, tmp_path / "runs")
    options = {"methods": "ESZSL", "shares": [0.5, 1.0], "n_splits": 2}
    run_analysis("seen-classes", small, tmp_path / "runs", **options)
    both = data_of(write_report(tmp_path / "runs", tmp_path / "report.html"))
    assert both["table"] == report["table"]
    assert len(both["runs"]) == len(report["runs"])


def test_ranks_of_a_taxonomy_beside_the_accuracy(small, tmp_path):
    run_benchmark(small, ["ESZSL"], tmp_path, settings=["gzsl"])
    alone = data_of(write_report(tmp_path, tmp_path / "alone.html"))["table"]
    assert "harmonic" not in [metric["name"] for metric in alone["metrics"]]
    ranks = pd.DataFrame({"family": "one"}, index=small.signatures.index)
    run_benchmark(small, ["ESZSL"], tmp_path, settings=["zsl"], taxonomy=ranks)
    table = data_of(write_report(tmp_path, tmp_path / "both.html"))["table"]
    labels = [metric["label"] for metric in table["metrics"]]
    assert labels[:3] == ["accuracy", "family right", "H"]
    assert table["rows"][0]["cells"][1]["mean"] == 1


def test_the_numbers_are_those_of_the_records(runs, report):
    records = read_records(runs)
    names = [metric["name"] for metric in report["table"]["metrics"]]
    assert [row["method"] for row in report["table"]["rows"]] == [0, 1]
    for row in report["table"]["rows"]:
        method = report["methods"][row["method"]]["name"]
        for name, cell in zip(names, row["cells"], strict=True):
            setting = "zsl" if name in ("per_class_accuracy", "harmonic") else "gzsl"
            mine = (records["method"] == method) & (records["metric"] == name)
            of_cell = records[mine & (records["setting"] == setting)]
            assert cell["mean"] == pytest.approx(of_cell["value"].mean(), abs=1e-5)
            assert cell["deviation"] == pytest.approx(of_cell["value"].std(ddof=1), abs=1e-5)
            assert cell["published"] is None


def test_accuracies_and_confusions_of_classes(runs, report):
    files = sorted(runs.glob("*.json"))
    records = [json.loads(path.read_text()) for path in files]
    (group,) = report["groups"]
    assert group["n_unseen"] == 4
    for part in report["by_class"]:
        name = report["methods"][part["method"]]["name"]
        mine = [r for r in records if r["method"] == name and r["setting"] == part["setting"]]
        for label, accuracy in zip(group["classes"], part["accuracy"], strict=True):
            values = [r["per_class"][label] for r in mine if label in r["per_class"]]
            assert (accuracy is None) == (not values)
            if values:
                assert accuracy == round(1_000_000 * np.mean(values))
    record = next(r for r in records if r["setting"] == "gzsl")
    for label, pairs in record["confused_with"].items():
        assert 1 - record["per_class"][label] >= sum(share for _, share in pairs) - 1e-3
        assert all(other != label for other, _ in pairs)
        shares = [share for _, share in pairs]
        assert shares == sorted(shares, reverse=True)


def test_the_points_of_a_curve_have_their_factors(runs, small):
    path = next(path for path in runs.glob("*ESZSL_gzsl*.json"))
    record = json.loads(path.read_text())
    curve = curve_of(record)
    metrics = record["metrics"]
    at = curve["calibrated"]
    assert curve["seen"][at] == pytest.approx(metrics["calibrated_seen"], abs=1e-3)
    assert curve["unseen"][at] == pytest.approx(metrics["calibrated_unseen"], abs=1e-3)
    assert curve["seen"][curve["plain"]] == pytest.approx(metrics["seen"], abs=1e-3)
    assert curve["factor"][0] is None
    assert all(np.diff(curve["factor"][1:]) >= 0)
    # The whole curve of the record has the area.
    area = np.trapezoid(record["curve"]["acc_seen"], record["curve"]["acc_unseen"])
    assert area == pytest.approx(metrics["ausuc"], abs=1e-12)


def test_a_curve_of_many_points_is_thinned_out_without_losing_its_area():
    x = np.linspace(0, 1, 5000)
    bias = [None, *np.linspace(-3, 3, 4999).tolist()]
    record = {
        "curve": {"acc_unseen": x.tolist(), "acc_seen": (1 - x**2).tolist(), "bias": bias},
        "calibration_factor": 1.2345,
    }
    curve = curve_of(record)
    assert len(curve["unseen"]) < 200
    assert np.trapezoid(curve["seen"], curve["unseen"]) == pytest.approx(2 / 3, abs=1e-4)
    assert curve["factor"][curve["calibrated"]] == pytest.approx(1.2345, abs=2e-3)
    assert curve["factor"][curve["plain"]] == pytest.approx(0, abs=2e-3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("confused_with", {"a": [["b", 2.0]]}),
        ("confused_with", {"a": "b"}),
        ("confused_with", {"a": [["b"]]}),
        ("confused_with", []),
        ("command", "a\nb"),
        ("command", 3),
        ("curve", {"acc_unseen": [0, 1], "acc_seen": [1, 0], "bias": [0]}),
        ("curve", {"acc_unseen": [0, 1], "acc_seen": [1, 0], "bias": ["x", 0]}),
    ],
)
def test_what_no_report_could_show_is_no_record(tmp_path, field, value):
    record = example_record("ESZSL", "gzsl") | {field: value}
    with pytest.raises(ValueError, match=f"damaged record: .*{field}"):
        write_record(record, tmp_path / "x.json")


def test_published_numbers_stand_beside_ours(tmp_path):
    record = example_record("EXEM (1NNs)", "zsl") | {"split_version": "xlsa17/PS1/0123abcd"}
    write_record(record, tmp_path / "x.json")
    found = data_of(write_report(tmp_path, tmp_path / "page.html"))
    names = [metric["name"] for metric in found["table"]["metrics"]]
    cell = found["table"]["rows"][0]["cells"][names.index("per_class_accuracy")]
    assert cell["published"] == pytest.approx(0.58)
    ours = record["metrics"]["per_class_accuracy"]
    # Rounded when it is printed, and not before.
    assert cell["mean"] == ours
    assert cell["difference"] == pytest.approx(ours - 0.58, abs=1e-15)
    assert not any("PS1" in note for note in found["table"]["notes"])
    # Other features, or another split: their number is shown, a difference would mislead.
    for change, features in (
        ({"features": "vit"}, "ResNet-101"),
        ({"split_version": "xlsa17/PS2/0123abcd"}, ""),
    ):
        write_record(record | change, tmp_path / "x.json")
        found = data_of(write_report(tmp_path, tmp_path / "page.html"))
        cell = found["table"]["rows"][0]["cells"][names.index("per_class_accuracy")]
        assert (cell["published"], cell["difference"]) == (0.58, None)
        assert cell["features"] == features
        assert any("show no difference" in note for note in found["table"]["notes"])
    # A data set that is not in the paper has no other version of its splits.
    write_record(record, tmp_path / "x.json")
    other = {"dataset": "glyphs", "split_version": "glyphs-1/ns", "features": "gradients"}
    write_record(record | other, tmp_path / "y.json")
    notes = data_of(write_report(tmp_path, tmp_path / "page.html"))["table"]["notes"]
    assert not any("PS1" in note for note in notes)


def test_names_of_classes_as_a_person_writes_them():
    names = ["001.Black_footed_Albatross", "grizzly+bear", "12", "3-toed sloth", "_x_", "2.5_inch"]
    assert shown_names(names) == [
        "Black footed Albatross",
        "grizzly bear",
        "12",
        "3-toed sloth",
        "_x_",
        "2.5 inch",
    ]
    # Names that differ only in their numbers keep them.
    assert shown_names(["1.cat", "2.cat", "a_b", "a b"]) == ["1.cat", "2.cat", "a_b", "a b"]


def test_kinds_of_signatures_are_not_mixed(tmp_path):
    for semantic, value in (("", 0.5), ("sentences", 0.8)):
        for method in ("ESZSL", "ALE"):
            for setting in ("zsl", "gzsl"):
                record = example_record(method, setting)
                record["metrics"]["per_class_accuracy"] = value
                if semantic:
                    record["semantic"] = semantic
                write_record(record, tmp_path / f"{method}-{setting}-{semantic}.json")
    report = build_report(whole_records(tmp_path), read_records(tmp_path), {})
    table = report["table"]
    place = table["where"].index("signatures")
    metric = [column["name"] for column in table["metrics"]].index("per_class_accuracy")
    found = {(r["method"], r["where"][place]): r["cells"][metric] for r in table["rows"]}
    assert {key[1]: cell["mean"] for key, cell in found.items()} == {"own": 0.5, "sentences": 0.8}
    # The published numbers are of attributes.
    assert {key[1]: cell["published"] is None for key, cell in found.items()} == {
        "own": False,
        "sentences": True,
    }
    assert [group["label"] for group in report["groups"]] == [
        "CUB, own signatures",
        "CUB, sentences signatures",
    ]
    assert ["Signatures", "own and sentences"] in report["facts"]
    for method in (0, 1):
        assert len({run["group"] for run in report["runs"] if run["method"] == method}) == 2


def test_landscape_marks_the_choice_and_the_edge(tmp_path):
    record = example_record("ESZSL", "zsl")
    found = landscape_of(record)
    assert (found["x"], found["y"]) == ("alpha", "gamma")
    row, column = found["chosen"]
    assert found["x_values"][column] == "10"
    assert found["y_values"][row] == "0.1"
    assert found["mean"][row][column] == max(max(row) for row in found["mean"])
    write_record(record, tmp_path / "x.json")
    page = data_of(write_report(tmp_path, tmp_path / "page.html"))
    assert page["runs"][0]["edges"] == {"alpha": "largest"}


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"params": [{"alpha": 1}], "mean_test_accuracy": [0.5]},
        {"params": [{"alpha": 1}, {"alpha": 2}], "mean_test_accuracy": [None, None]},
        {"params": [{"alpha": 1}, {"alpha": 1}], "mean_test_accuracy": [0.1, 0.2]},
        {"params": [{"alpha": 1}, {"alpha": 2}]},
        {"params": [1, 2], "mean_test_accuracy": [0.1, 0.2]},
    ],
)
def test_searches_that_cannot_be_drawn(table):
    assert landscape_of({"cross_validation": table, "hyper_parameters": {}}) is None


def test_ranks_over_data_sets_and_over_seeds(tmp_path):
    methods = ("ESZSL", "ConSE", "SynC struct")
    for dataset in ("CUB", "SUN", "AWA1", "AWA2"):
        for place, method in enumerate(methods):
            record = example_record(method, "zsl") | {"dataset": dataset}
            record["metrics"] = {"per_class_accuracy": 0.6 - 0.1 * place}
            write_record(record, tmp_path / "a" / f"{dataset}{place}.json")
    (ranks,) = data_of(write_report(tmp_path / "a", tmp_path / "page.html"))["ranks"]
    assert ranks["title"] == "accuracy, over 4 data sets and splits"
    assert ranks["mean_ranks"] == [1, 2, 3]
    # Demšar 2006: q = 2.343 for three methods; 2.343 · sqrt(3 · 4 / (6 · 4)).
    assert ranks["critical_difference"] == pytest.approx(2.343 * np.sqrt(0.5), abs=1e-3)
    assert ranks["not_different"] == [[0, 1], [1, 2]]
    assert ranks["statistic"] == pytest.approx(8.0)
    for seed in (0, 1):
        for place, method in enumerate(methods):
            record = example_record(method, "zsl", seed=seed)
            write_record(record, tmp_path / "b" / f"{seed}{place}.json")
    ranks = data_of(write_report(tmp_path / "b", tmp_path / "page.html"))["ranks"]
    assert "do not generalise to other data" in ranks[0]["note"]


def test_failed_runs_are_named(tmp_path):
    write_record(example_record("ESZSL", "zsl"), tmp_path / "good.json")
    failed = {"type": "ValueError", "reason": "no <b>luck</b>", "traceback": "…"}
    bad = example_record("ConSE", "zsl") | {"metrics": {}, "failed": failed}
    write_record(bad, tmp_path / "bad.json")
    found = data_of(write_report(tmp_path, tmp_path / "page.html"))
    assert [run["failed"] for run in found["runs"]] == ["ValueError: no <b>luck</b>", ""]
    assert ["Runs", "2, 1 failed"] in found["facts"]
    (tmp_path / "good.json").unlink()
    assert len(read_failures(tmp_path)) == 1
    with pytest.raises(ValueError, match=f"{NOTHING}.*all 1 runs failed"):
        write_report(tmp_path, tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_without_records_nothing_is_written(tmp_path, capsys):
    with pytest.raises(ValueError, match=NOTHING):
        write_report(tmp_path, tmp_path / "page.html")
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert "There is no folder" in capsys.readouterr().err


def test_bench_keeps_its_command(tmp_path, monkeypatch, problem):
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: problem)
    words = ["bench", "glyphs", "--methods", "SAE (original)", "ESZSL", "--setting", "zsl"]
    assert main([*words, "--jobs", "1", "--out", str(tmp_path)]) == 0
    found = {json.loads(path.read_text())["command"] for path in tmp_path.glob("*.json")}
    methods = "--methods 'SAE (original)' ESZSL"
    assert found == {f"zslearn bench glyphs {methods} --setting zsl --jobs 1 --out {tmp_path}"}


def test_a_confusion_of_a_class_without_an_accuracy_is_omitted(tmp_path):
    for method in ("ESZSL", "SAE"):
        record = example_record(method, "zsl")
        if method == "SAE":
            del record["per_class"]["class 0"]
            record["confused_with"] = {"class 0": [["class 1", 0.5]]}
        write_record(record, tmp_path / f"{method}.json")
    found = data_of(write_report(tmp_path, tmp_path / "page.html"))
    parts = {found["methods"][part["method"]]["name"]: part for part in found["by_class"]}
    at = found["groups"][0]["classes"].index("class 0")
    assert [parts["SAE"][name][at] for name in ("accuracy", "taken_for", "share")] == [None] * 3
    assert parts["ESZSL"]["accuracy"][at] is not None


def test_nothing_of_a_record_is_markup(tmp_path):
    pytest.importorskip("PIL")
    write_runs(tmp_path, hostile=True)
    text = write_report(tmp_path, tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<img" not in text
    assert HOSTILE[0] in data_of(tmp_path / "page.html")["groups"][0]["classes"]


def test_the_page_asks_no_server():
    from zslearn.experiments._report._write import _asset, _program

    for text in (_asset("page.html"), _asset("page.css"), _program()):
        links = set(re.findall(r"\w+://[^\s\"'`]+", text))
        assert links <= {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in _program()


@pytest.mark.slow
def test_far_too_many_classes_are_cut_and_said(tmp_path):
    write_runs(tmp_path, n_methods=3, seeds=(0,), n_classes=21_000, n_points=50)
    page = write_report(tmp_path, tmp_path / "page.html")
    assert page.stat().st_size < 5e6
    (group,) = data_of(page)["groups"]
    assert group["left_out"] > 0
    assert group["left_out"] + len(group["classes"]) == 21_000


# Images


@pytest.mark.parametrize(
    ("image", "shape", "first"),
    [
        (np.full((64, 96), 100, dtype=np.uint8), (32, 48), 100),
        (np.full((3, 3), 0.5), (3, 3), 128),
        (np.zeros((50, 10, 4)), (48, 10, 3), [0, 0, 0]),
    ],
)
def test_images_are_made_small(image, shape, first):
    pillow = pytest.importorskip("PIL.Image")
    content = base64.b64decode(data_uri(image, 48).partition(",")[2])
    found = np.asarray(pillow.open(io.BytesIO(content)))
    assert found.shape == shape
    assert found[0, 0].tolist() == first


def test_examples_are_kept_and_damaged_ones_passed_over(small, runs, tmp_path):
    pytest.importorskip("PIL")
    found = read_examples(runs)
    assert set(found) == {small.name}
    assert set(found[small.name]) == set(map(str, small.signatures.index))
    (path,) = runs.glob("*.images")
    assert path == save_examples(small, runs)
    shown = data_of(write_report(runs, tmp_path / "page.html"))["images"][small.name]
    assert all(len(images) == 4 for images in shown.values())
    # A file changed after it was written, and an address that is not a picture.
    (tmp_path / "a.images").write_text(path.read_text().replace("iVBOR", "iVBOS", 1))
    from zslearn._utils._files import write_checked_json

    content = json.loads(path.read_text())
    content["images"] = {"x": ["javascript:alert(1)"]}
    write_checked_json(tmp_path / "b.images", content)
    assert read_examples(tmp_path) == {}
    without = replace_images(small, None)
    run_benchmark(without, "ESZSL", tmp_path / "runs", settings=["zsl"], grid="quick")
    assert read_examples(tmp_path / "runs") == {}


def replace_images(data, images):
    """The same data set with other images."""
    other = data.with_split(data.split)
    object.__setattr__(other, "images", images)
    return other


# Colours


def _linear(color):
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


# Machado, Oliveira, Fernandes 2009, at full severity: as deuteranopes and protanopes see colours.
_VISION = {
    "usual": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}
_LMS = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


@pytest.mark.parametrize("vision", _VISION)
def test_colours_of_the_papers_methods_are_told_apart_with_any_vision(vision):
    seen = [
        np.clip(np.array(_VISION[vision]) @ _linear(c), 0, 1) for c in list(_COLORS.values())[:7]
    ]
    lab = np.array([np.array(_LAB) @ np.cbrt(np.array(_LMS) @ color) for color in seen])
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=2)
    # Two hundredths of OKLab are a just noticeable difference.
    assert distances[np.triu_indices(7, 1)].min() > 0.07


@pytest.mark.parametrize(
    ("name", "like", "line"),
    [
        ("EXEM (ESZSL)", "ESZSL", "dashed"),
        ("exem (sync O-vs-O)", "SynC ovo", "dashed"),
        ("SAE (original)", "SAE", "dotted"),
        ("EXEM (1NN)", "1NN", "dashed"),
        ("Gaussian EXEM", "Gaussian EXEM", "dashed"),
        ("SynC struct", "SynC struct", "solid"),
        ("EXEM", "EXEM (1NN)", "dashed"),
        ("EXEM (SynC)", "SynC", "dashed"),
        ("my method", "My Method", "solid"),
    ],
)
def test_one_colour_per_method(name, like, line):
    assert method_style(name).color == method_style(like).color
    assert method_style(name).line == line
