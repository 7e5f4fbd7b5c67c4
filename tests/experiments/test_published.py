from __future__ import annotations

import csv
import hashlib
import importlib
import os
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zslearn.datasets import make_zero_shot
from zslearn.experiments import dataset_table, load_literature, load_published, rank_methods
from zslearn.experiments._published import KEYS, TABLES
from zslearn.experiments._ranks import ranges_within


def _rows() -> list[dict[str, str]]:
    text = resources.files("zslearn.experiments").joinpath("published.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _printed(table: str) -> list[str]:
    """The numbers of a table as text, in the order of the file."""
    rows = [row for row in _rows() if row["table"] == table]
    return [text for row in rows for text in (row["value"], row["spread"]) if text]


def test_every_table_is_there():
    assert list(dict.fromkeys(row["table"] for row in _rows())) == list(TABLES)


def test_nothing_changed_unawares():
    """The digest of the file whose numbers are compared with the source of the paper below."""
    text = "\n".join(",".join(row.values()) for row in _rows())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "9b51938b26ed3caf"


def test_numbers_have_one_name_and_known_words():
    data = load_published()
    assert not data.duplicated(["table", *KEYS]).any()
    assert set(data["dataset"]) == {"AWA1", "AWA2", "CUB", "SUN", "ImageNet"}
    assert set(data["split"]) == {"ns", "ss", "ss0"}
    assert set(data["setting"]) == {"zsl", "gzsl", ""}
    assert ((data["table"] == "datasets") == (data["setting"] == "")).all()
    assert set(data["unit"]) == {"%", "1"}
    assert set(data["mark"]) == {"", "best", "second", "third"}
    assert ((data["dataset"] == "ImageNet") == (data["subset"] != "")).all()
    results = data[data["table"] != "datasets"]
    assert results["value"].between(0, 100).all()
    assert results.loc[results["unit"] == "1", "value"].between(0, 1).all()
    assert data["deviation"].notna().sum() == 10


@pytest.mark.parametrize(
    ("table", "by"),
    [
        ("main", ["dataset", "setting"]),
        ("zsl", ["dataset", "split", "features"]),
        ("gzsl", ["dataset", "split", "features"]),
        ("imagenet", ["subset", "features"]),
        ("harmonic", ["dataset", "metric"]),
        ("semantic", ["subset", "semantic"]),
        ("imagenet_best", ["subset"]),
        ("ideal", ["subset", "semantic"]),
        ("imagenet_fk", ["metric", "subset"]),
        ("hie", ["metric"]),
        ("per_sample", ["subset", "semantic"]),
        ("correlation", ["dataset"]),
        ("regressor", ["dataset", "variant"]),
        ("pca", ["dataset"]),
    ],
)
def test_marks_are_where_the_numbers_say(table, by):
    data = load_published(table)
    places = data.groupby(by)["value"].rank(ascending=False, method="min")
    marks = {1: "best", 2: "second", 3: "third"}
    expected = places.map(lambda place: marks.get(place, ""))
    expected[~expected.isin(set(data["mark"]))] = ""
    odd = data[expected != data["mark"]]
    # One of three that are equal goes unmarked in the paper.
    unmarked = [("SynC o-vs-o", "flat_hit_at_2")] if table == "hie" else []
    assert list(zip(odd["method"], odd["metric"], strict=True)) == unmarked


# Labels of the tables in the paper's source, in the order of TABLES.
LABELS = (
    *("tDatasets", "tbMain", "tbZSLMainSmall", "tbZSLMainIMN", "tbGZSLMain", "tbGZSLHarmonic"),
    *("tbZSLSemanticPCIMN", "tbZSLSemanticPSIMN", "tbZSLSemanticIdealIMN", "tbZSLExpandedIMN"),
    *("tbZslMainImnMds", "tbZSLSemanticPSFullIMN", "tSynCRegularization", "tSynCLearnSpace"),
    *("tbExemCorrDis", "tbExemKNN", "tExemSVRvsMLP", "tbExemPCA"),
)


@pytest.mark.skipif("ZSLEARN_PAPER" not in os.environ, reason="ZSLEARN_PAPER names no .tex file")
@pytest.mark.parametrize(("table", "name"), list(zip(TABLES, LABELS, strict=True)))
def test_same_numbers_as_the_source_of_the_paper(table, name):
    source = Path(os.environ["ZSLEARN_PAPER"]).read_text(encoding="utf-8")
    label = f"\\label{{{name}}}"
    found = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, re.DOTALL)
    (body,) = [text for text in found if label in text]
    tabulars = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", body, re.DOTALL)
    text = re.sub(r"\\includegraphics\[.*?\]", "", "".join(tabulars))
    if table == "datasets":
        # Images stand once for all splits of a data set.
        printed = {int(number.replace(",", "")) for number in re.findall(r"\d+(?:,\d+)*", text)}
        assert printed >= set(map(int, _printed(table)))
        return
    # Every result has a decimal point, and nothing else inside has one.
    assert re.findall(r"\d+\.\d+", text) == _printed(table)


def test_the_table_of_data_sets_is_data():
    """Table 1: as the paper prints it, and of any data set beside it."""
    assert dataset_table().loc["SUN ns"].tolist() == [14_340, 1, 645, 72]
    data = make_zero_shot(n_seen=12, n_unseen=4, random_state=0)
    assert dataset_table(data).loc["make_zero_shot ns, here"].tolist() == [len(data.y), 1, 12, 4]
    with pytest.raises(ValueError, match="no table 'gsl'. choose from datasets, main, zsl"):
        load_published("gsl")


def test_loaded_numbers_are_the_callers_own():
    data = load_published()
    data["value"] = 0
    assert load_published()["value"].max() > 0


def test_results_since_2020_name_their_source_and_agree_with_themselves():
    data = load_literature()
    keys = ["method", "year", "dataset", "features", "semantic", "needs"]
    assert not data.duplicated(keys).any()
    assert data["year"].between(2020, 2030).all()
    kinds = {"fixed features", "fine-tuned", "patches", "CLIP", "transductive with known prior"}
    assert set(data["needs"]) == kinds
    assert (
        data["source"]
        .str.fullmatch(r"[\w-]+/[\w-]+: [\w./, ]+(; U and S [\w-]+/\w+: [\w.]+)?")
        .all()
    )
    assert data[["accuracy", "harmonic"]].notna().any(axis=1).all()
    both = data.dropna(subset=["unseen", "seen", "harmonic"])
    means = 2 * both["unseen"] * both["seen"] / (both["unseen"] + both["seen"])
    # Up to the rounding of all three numbers.
    np.testing.assert_allclose(means, both["harmonic"], atol=0.15)


def test_the_table_since_2020_is_that_of_the_data(monkeypatch):
    docs = Path(__file__).parents[2] / "docs"
    if not docs.is_dir():
        pytest.skip("there is no documentation here")
    monkeypatch.syspath_prepend(docs)
    table = importlib.import_module("literature_table")
    assert table.OUT.read_text(encoding="utf-8") == table.text()


# --- ranks ---


def _small(setting: str) -> pd.DataFrame:
    data = load_published("main").query("dataset != 'ImageNet' and setting == @setting")
    return data.pivot(index="method", columns="dataset", values="value")


def test_ranks_of_the_main_table():
    """The paper's text about its figure: the number of ranked methods, and the first three."""
    best = {"EXEM (1NN)", "EXEM (1NNs)", "EXEM (SynC struct)"}
    conventional, generalized = rank_methods(_small("zsl")), rank_methods(_small("gzsl"))
    assert (len(conventional.mean_ranks), len(generalized.mean_ranks)) == (23, 16)
    assert set(conventional.mean_ranks.index[:3]) == best
    assert set(generalized.mean_ranks.index[:3]) == best
    # "Notable strong baselines are GFZSL, ALE, and SJE."
    baselines = [m for m in conventional.mean_ranks.index if not m.startswith(("EXEM", "SynC"))]
    assert baselines[:3] == ["GFZSL", "ALE", "SJE"]
    # Counted by hand.
    assert conventional.mean_ranks["EXEM (1NN)"] == (1 + 1 + 7.5 + 1) / 4
    assert conventional.mean_ranks["IAP"] == 23


def test_friedman_test_with_ties():
    values = pd.DataFrame(np.random.RandomState(0).randint(0, 5, (6, 8)).astype(float))
    expected = stats.friedmanchisquare(*values.to_numpy())
    found = rank_methods(values)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.pvalue == pytest.approx(expected.pvalue)
    equal = rank_methods(values * 0)
    assert (equal.statistic, equal.pvalue) == (0, 1)
    few = rank_methods(values.iloc[:2])
    assert np.isnan([few.statistic, few.pvalue, few.critical_difference]).all()


# Demšar 2006, table 5a.
@pytest.mark.parametrize(("n_methods", "quantile"), [(3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference(n_methods, quantile):
    values = pd.DataFrame(np.random.default_rng(0).random((n_methods, 7)))
    factor = np.sqrt(n_methods * (n_methods + 1) / (6 * 7))
    found = rank_methods(values).critical_difference
    assert found == pytest.approx(quantile * factor, abs=1e-3 * factor)


def test_methods_that_do_not_differ():
    assert ranges_within(np.array([1.0, 2.0, 2.5, 5.0, 6.0]), 1.5) == [(0, 2), (3, 4)]
    assert ranges_within(np.array([1.0, 2.0, 3.0]), 1.0) == [(0, 1), (1, 2)]
    assert ranges_within(np.array([1.0, 3.0]), 1.0) == []
