from __future__ import annotations

import csv
import hashlib
import os
import re
from decimal import Decimal
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zslearn.datasets import make_zero_shot
from zslearn.experiments._published import (
    KEYS,
    TABLES,
    dataset_table,
    load_published,
)
from zslearn.experiments._ranks import ranges_within, rank_methods

# Table → how many numbers it prints (± counts), their sum, and that weighted by place (1, 2, …),
# taken from the paper's source.
PRINTED = {
    "datasets": (44, "14435916", "586300145"),
    "main": (170, "4923.342", "417255.123"),
    "zsl": (240, "13982.8", "1776532.6"),
    "imagenet": (153, "744.27", "65256.17"),
    "gzsl": (176, "67.609", "6331.677"),
    "harmonic": (448, "15899.152", "3365098.332"),
    "semantic": (270, "2399.37", "355379.80"),
    "imagenet_best": (25, "300.47", "3806.97"),
    "ideal": (108, "2347.04", "158710.93"),
    "imagenet_fk": (216, "3485.3", "283471.1"),
    "hie": (25, "161.0", "2299.7"),
    "per_sample": (270, "2579.03", "380397.21"),
    "regularization": (6, "381.5", "1317.9"),
    "learned_phantoms": (6, "374.5", "1282.7"),
    "correlation": (10, "5.205", "23.638"),
    "knn_overlap": (6, "431.2", "1583.5"),
    "regressor": (18, "799.3", "6226.3"),
    "pca": (21, "1375.9", "14594.2"),
}


def _rows() -> list[dict[str, str]]:
    text = resources.files("zslearn.experiments").joinpath("published.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _printed(table: str) -> list[str]:
    """The numbers of a table as text, in the order of the file."""
    rows = [row for row in _rows() if row["table"] == table]
    return [text for row in rows for text in (row["value"], row["spread"]) if text]


def test_every_table_is_there():
    assert list(PRINTED) == list(TABLES)
    assert list(dict.fromkeys(row["table"] for row in _rows())) == list(TABLES)


@pytest.mark.parametrize("table", PRINTED)
def test_count_and_sum(table):
    numbers = [Decimal(text) for text in _printed(table)]
    weighted = sum(place * number for place, number in enumerate(numbers, start=1))
    assert (len(numbers), str(sum(numbers)), str(weighted)) == PRINTED[table]


def test_nothing_changed_unawares():
    """Sums guard the numbers; this also guards what they are numbers of."""
    text = "\n".join(",".join(row.values()) for row in _rows())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "9b51938b26ed3caf"


# Sums of single columns and rows, taken from the paper's source.
@pytest.mark.parametrize(
    ("table", "where", "n", "total"),
    [
        ("main", "dataset == 'CUB' and setting == 'zsl'", 23, 1112.7),
        ("main", "dataset == 'ImageNet'", 14, 11.49),
        ("main", "dataset == 'SUN' and setting == 'gzsl'", 16, 3.098),
        ("zsl", "dataset == 'AWA1' and split == 'ss' and features == 'GoogLeNet'", 20, 1418.5),
        ("zsl", "dataset == 'AWA1' and split == 'ss' and features == 'ResNet-101'", 23, 1690.7),
        ("zsl", "dataset == 'SUN' and split == 'ns'", 23, 1173.6),
        ("zsl", "method == 'EXEM (1NNs)'", 11, 737.5),
        ("gzsl", "dataset == 'CUB' and split == 'ss0'", 16, 4.927),
        ("harmonic", "dataset == 'AWA2' and metric == 'calibrated_harmonic'", 16, 929.1),
        ("harmonic", "dataset == 'CUB' and metric == 'seen'", 16, 1077.3),
        ("imagenet", "subset == 'all' and features == 'ResNet-101'", 14, 11.49),
        ("imagenet", "subset == '3-hop' and features == 'GoogLeNet'", 7, 22.2),
    ],
)
def test_sums_of_columns_and_rows(table, where, n, total):
    values = load_published(table).query(where)["value"]
    assert len(values) == n
    assert values.sum() == pytest.approx(total, abs=1e-9)


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
    assert set(data["reported_by"]) == {
        "paper",
        "XianLSA17",
        "ChangpinyoCGS16",
        "ChangpinyoCS17",
        "ChaoCGS16",
        "AkataPHS13",
        "AlHalahS15",
        "LampertNH14",
        "WangC17",
        "FromeCSBDRM13",
        "NorouziMBSSFCD14",
        "Lu16",
        "WangYG18",
        "KampffmeyerCLWZX18",
    }
    results = data[data["table"] != "datasets"]
    assert results["value"].between(0, 100).all()
    assert results.loc[results["unit"] == "1", "value"].between(0, 1).all()
    assert data["deviation"].notna().sum() == 10


R = "features == 'ResNet-101'"
G = "features == 'GoogLeNet'"


@pytest.mark.parametrize(
    ("one", "where", "other", "elsewhere", "by", "n"),
    [
        ("main", "setting == 'zsl'", "zsl", R, ["dataset", "split"], 92),
        ("main", "setting == 'gzsl'", "gzsl", R, ["dataset", "split"], 64),
        ("main", "setting == 'zsl'", "imagenet", R, ["dataset", "subset"], 14),
        ("gzsl", R, "harmonic", "metric == 'ausuc'", ["dataset", "split"], 64),
        ("imagenet", R, "semantic", "semantic == 'wv-v1'", ["subset"], 54),
        ("imagenet", G, "imagenet_fk", f"metric == 'flat_hit_at_1' and {G}", ["subset"], 18),
        ("per_sample", R, "imagenet_best", R, ["subset", "semantic"], 18),
        ("zsl", G, "regularization", "variant == 'penalize=w'", ["dataset"], 3),
        ("zsl", G, "learned_phantoms", "variant == 'learn_phantoms=False'", ["dataset"], 3),
        ("zsl", G, "pca", "variant == 'n_components=500'", ["dataset"], 3),
    ],
)
def test_tables_agree_where_they_repeat_each_other(one, where, other, elsewhere, by, n):
    left, right = load_published(one).query(where), load_published(other).query(elsewhere)
    both = left.merge(right, on=["method", *by])
    assert len(both) == n
    assert (both["value_x"] == both["value_y"]).all()


def test_harmonic_means_follow_from_accuracies():
    table = load_published("harmonic").pivot(
        index=["method", "dataset"], columns="metric", values="value"
    )
    for prefix in ("", "calibrated_"):
        seen, unseen = table[f"{prefix}seen"], table[f"{prefix}unseen"]
        # Where rounding of the parts can move it: by at most this, and half a digit of its own.
        low, high = (
            2 * s * u / (s + u)
            for s, u in (
                (seen - 0.05, (unseen - 0.05).clip(lower=1e-9)),
                (seen + 0.05, unseen + 0.05),
            )
        )
        found = table[f"{prefix}harmonic"]
        odd = found[(found < low - 0.0501) | (found > high + 0.0501)]
        # These three are printed so.
        expected = [("EXEM (SynC cs)", "AWA2"), ("IAP", "CUB")] if prefix else [("IAP", "SUN")]
        assert sorted(odd.index) == expected


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


@pytest.mark.parametrize(
    ("table", "method", "where", "source"),
    [
        ("zsl", "ALE", "features == 'GoogLeNet'", "paper"),
        ("zsl", "ALE", "features == 'ResNet-101'", "XianLSA17"),
        ("zsl", "LatEm", "features == 'GoogLeNet'", "ChangpinyoCS17"),
        ("zsl", "COSTA", "features == 'GoogLeNet'", "ChangpinyoCGS16"),
        ("zsl", "HAT", "dataset == 'AWA1'", "AlHalahS15"),
        ("gzsl", "ESZSL", "features == 'GoogLeNet'", "ChaoCGS16"),
        ("gzsl", "SynC cs", "features == 'GoogLeNet'", "paper"),
        ("harmonic", "DAP", "metric == 'harmonic'", "XianLSA17"),
        ("harmonic", "DAP", "metric == 'calibrated_harmonic'", "paper"),
        ("main", "ESZSL", "setting == 'gzsl'", "paper"),
        ("imagenet_fk", "ConSE", "features == 'AlexNet'", "NorouziMBSSFCD14"),
        ("imagenet_fk", "ConSE", "features == 'GoogLeNet'", "ChangpinyoCGS16"),
        ("hie", "CCA", "metric == 'flat_hit_at_1'", "Lu16"),
        ("imagenet_best", "GCNZ", "subset == 'all'", "WangYG18"),
    ],
)
def test_who_reported_it(table, method, where, source):
    data = load_published(table).query(f"method == @method and {where}")
    assert set(data["reported_by"]) == {source}


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


# --- ranks ---


def _small(setting: str) -> pd.DataFrame:
    data = load_published("main").query("dataset != 'ImageNet' and setting == @setting")
    return data.pivot(index="method", columns="dataset", values="value")


def test_ranks_of_the_main_table():
    """What the paper's text says of its picture: how many are ranked, and the first three."""
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
