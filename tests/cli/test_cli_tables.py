"""A person's first hour with two tables: `fit`, `predict`, `evaluate`, `tune`, and each mistake."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import zslearn
from zslearn.cli import main
from zslearn.persistence import read_model

FIT = ["--method", "eszsl", "--tune", "none", "--jobs", "1"]
WORDS = ["--label", "animal", "--signatures", "classes.csv"]
UNSEEN = ["c10", "c11"]


def make_tables(seed=0, n_classes=12, per_class=8):
    """Animals that are measured, and what is known of them: yes or no, and kilograms."""
    rng = np.random.default_rng(seed)
    labels = [f"c{i:02d}" for i in range(n_classes)]
    answers = rng.permuted(np.tile([0.0, 1.0], (8, n_classes // 2)), axis=1).T
    weights = np.exp(rng.normal(3, 2.5, n_classes)).round(2)
    classes = pd.DataFrame(answers, labels, [f"is {i}" for i in range(8)])
    classes["weight_kg"] = weights
    animals = np.repeat(labels, per_class)
    sensors = rng.normal(size=(8, 10))
    values = classes.iloc[:, :8].loc[animals].to_numpy() @ sensors
    samples = pd.DataFrame(values + rng.normal(scale=0.3, size=values.shape))
    samples = samples.add_prefix("sensor ").assign(animal=animals)
    return samples, classes.rename_axis("animal")


@pytest.fixture
def files(tmp_path, monkeypatch):
    samples, classes = make_tables()
    is_new = samples["animal"].isin(UNSEEN) | (np.arange(len(samples)) % 4 == 0)
    samples[~is_new].to_csv(tmp_path / "animals.csv", index=False)
    samples[is_new].to_csv(tmp_path / "new.csv", index=False)
    words = classes.iloc[:, :8].replace({0.0: "no", 1.0: "yes"})
    words.assign(weight_kg=classes["weight_kg"]).to_csv(tmp_path / "classes.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(files, capsys):
    assert main(["fit", "animals.csv", *WORDS, *FIT, "--out", "m.zsl"]) == 0
    return files / "m.zsl"


def test_fit_reports_its_samples_and_conversions(files, capsys):
    assert main(["fit", "animals.csv", *WORDS, *FIT]) == 0
    printed = capsys.readouterr()
    assert "60 samples, 10 classes, 10 columns (a table)" in printed.out
    assert "\ncolumns: 10 numbers; standardised, rows " in printed.out
    assert re.search(r"AUSUC on held-out classes 0\.\d{3} \(0\.\d{3} without", printed.out)
    assert "10 classes with samples, 2 described only\ndescribed only: 'c10', 'c11'" in printed.out
    assert "warning" not in printed.err
    table = pd.read_csv("animals.csv")
    table.assign(**{"sensor 0": 1e4 * table["sensor 0"]}).to_csv("grams.csv", index=False)
    leave = ["--signature-scaling", "none", "--feature-scaling", "none"]
    bench = ["--unseen", "c08", "c09", "--methods", "eszsl", "--setting", "zsl", "--jobs", "1"]
    for words in (["fit", "grams.csv", *WORDS, *FIT], ["bench", "grams.csv", *WORDS, *bench]):
        assert main([*words, *leave]) == 0
        error = capsys.readouterr().err
        assert "Scale the columns with --signature-scaling standard.\n" in error
        assert "Standardise the features with --feature-scaling standard.\n" in error
        assert "attribute_signatures" not in error
        assert "StandardScaler" not in error


def test_predict_and_evaluate(model, capsys):
    assert main(["predict", "m.zsl", "new.csv", "--out", "p.csv"]) == 0
    table, truth = pd.read_csv("p.csv"), pd.read_csv("new.csv")
    assert list(table)[:3] == ["row", "class", "known_by"]
    assert table["row"].tolist() == list(range(1, len(truth) + 1))
    assert (table["class"] == truth["animal"]).mean() > 0.8
    capsys.readouterr()
    assert main(["evaluate", "m.zsl", "new.csv"]) == 0
    printed = capsys.readouterr()
    rows = {line.split("  ")[0]: line.split() for line in printed.out.splitlines()}
    assert float(rows["unseen classes, among these"][-2]) > 0.8
    assert int(rows["seen classes, among all"][-1]) == (~truth["animal"].isin(UNSEEN)).sum()
    assert "images" not in printed.out
    assert printed.err == ""
    # Columns in another order, additional columns, and no labels.
    truth.drop(columns="animal").iloc[:, ::-1].assign(note="x").to_csv("turned.csv", index=False)
    assert main(["predict", "m.zsl", "turned.csv", "--out", "q.csv"]) == 0
    assert pd.read_csv("q.csv").equals(table)
    capsys.readouterr()
    assert main(["evaluate", "m.zsl", "turned.csv"]) == 1
    assert "have no labels. Name the label column with --label.\n" in capsys.readouterr().err
    truth.rename(columns={"animal": "species"}).to_csv("other.csv", index=False)
    assert main(["evaluate", "m.zsl", "other.csv", "--label", "species"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == printed.out.splitlines()[1:]
    assert main(["evaluate", "m.zsl", "animals.csv"]) == 0
    assert "60 of 60 samples were trained on" in capsys.readouterr().err


def test_models_accept_tables_in_their_original_units(files):
    """This holds in Python and for classes that are added later."""
    samples, classes = make_tables()
    large = samples.assign(**{"sensor 0": 1e4 * samples["sensor 0"] + 5e4})
    large[~large["animal"].isin(UNSEEN)].to_csv("grams.csv", index=False)
    known = pd.read_csv("classes.csv", index_col=0)
    known.drop(index="c11").to_csv("fewer.csv")
    known.loc[["c11"]].to_csv("one.csv")
    words = ["--label", "animal", "--signatures", "fewer.csv", *FIT, "--out", "g.zsl"]
    assert main(["fit", "grams.csv", *words]) == 0
    assert main(["add-class", "g.zsl", "one.csv"]) == 0
    unseen = large[large["animal"].isin(UNSEEN)]
    X, y = unseen.drop(columns="animal").to_numpy(), unseen["animal"].to_numpy(dtype=str)
    found = zslearn.load("g.zsl")
    assert found.score(X, y, classes=UNSEEN) > 0.9
    unseen.to_csv("unseen.csv", index=False)
    words = ["predict", "g.zsl", "unseen.csv", "--classes", *UNSEEN]
    assert main([*words, "--out", "p.csv"]) == 0
    assert (pd.read_csv("p.csv")["class"] == found.predict(X, classes=UNSEEN)).all()
    np.testing.assert_allclose(found.signature_table_.arrays[0], classes.to_numpy())


@pytest.mark.slow
def test_tune_and_none(files, capsys):
    words = ["animals.csv", *WORDS, "--method", "eszsl", "--jobs", "1"]
    assert main(["tune", *words]) == 0
    assert "Best of" in capsys.readouterr().out
    table = pd.read_csv("animals.csv")
    table.assign(**{"sensor 0": 1e4 * table["sensor 0"]}).to_csv("grams.csv", index=False)
    assert main(["tune", "grams.csv", *words[1:]]) == 0
    printed = capsys.readouterr()
    assert "Best of" in printed.out
    words_of_auto = ["fit", "grams.csv", *WORDS, "--tune", "none", "--out", "a.zsl"]
    assert main(words_of_auto) == 0
    assert read_model("a.zsl").about["method"] == "Gaussian EXEM"
    ranks = [f"c{i:02d},kind {i % 3}\n" for i in range(12)]
    (files / "ranks.csv").write_text("".join(["class,kind\n", *ranks]))
    assert main(["fit", *words, "--taxonomy", "ranks.csv", "--none", "0.2"]) == 1
    assert "--none and --taxonomy cannot be combined" in capsys.readouterr().err
    assert main(["fit", *words, "--taxonomy", "ranks.csv", "--out", "r.zsl"]) == 0
    assert "belong to the confidently predicted taxon" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", "r.zsl", "new.csv", "--out", "p.csv"]) == 0
    nodes = {word for line in ranks for word in line.strip().split(",")}
    assert set(pd.read_csv("p.csv")["surely"]) <= nodes | {"(all classes)"}
    assert main(["fit", *words, "--none", "0.2", "--out", "n.zsl"]) == 0
    assert re.search(r"0\.\d+ of others are rejected", capsys.readouterr().out)
    assert main(["predict", "n.zsl", "new.csv", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv")["none_of_these"].dtype == bool


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("clean", ""),
        ("trailing space", ""),
        ("case", "labels of the samples: labels in another spelling were joined: 'C03' and 'c03'."),
        ("semicolons", "classes.csv: fields are separated by semicolons, numbers have decimal com"),
        ("saved index", "dropped: 'Unnamed: 0' (row numbers)"),
        ("code", "dropped: 'animal_id' (it encodes the class, which new samples do not have)"),
    ],
)
def test_what_is_odd_about_a_table_is_reported(files, how, message, capsys):
    samples, classes = make_tables()
    samples = samples[~samples["animal"].isin(UNSEEN)]
    if how in ("trailing space", "case"):
        samples = samples.replace("c03", "c03 " if how == "trailing space" else "C03")
    elif how == "saved index":
        samples = samples.reset_index(drop=True).reset_index(names="Unnamed: 0")
    elif how == "code":
        samples["animal_id"] = pd.factorize(samples["animal"])[0] * 7
    samples.to_csv("animals.csv", index=False)
    form = {"sep": ";", "decimal": ","} if how == "semicolons" else {}
    classes.to_csv("classes.csv", **form)
    assert main(["fit", "animals.csv", *WORDS, *FIT]) == 0
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
    assert "10 numbers" in printed.out
    assert main(["predict", "model.zsl", "new.csv", "--out", "p.csv"]) == 0
    truth = pd.read_csv("new.csv")["animal"]
    assert (pd.read_csv("p.csv")["class"] == truth).mean() > 0.8


def test_errors_in_tables_are_one_line(files, capsys):
    samples, classes = make_tables()
    samples = samples[~samples["animal"].isin(UNSEEN)].replace("c02", "C02")
    samples.to_csv("animals.csv", index=False)
    classes.drop(index="c03").to_csv("classes.csv")
    sentences = [f"It is number {i}." for i in range(12)]
    pd.DataFrame({"text": sentences}, classes.index).to_csv("words.csv")
    more = ["--drop", "is 3", "sensor 4", "sensor 44"]
    for words, message in (
        ([], "samples are missing from the description: 'c03'. Describe"),
        (
            ["--signatures", "words.csv"],
            "free text). Encode sentences with zslearn fit --describe.",
        ),
        (more, "--drop: neither table has the columns 'sensor 44'."),
        (["--sep", ";"], "there are 1 columns; the first holds the labels"),
        (["--encoding", "utf-99"], "--encoding utf-99 is unknown"),
        (["--id", "number"], "there is no column 'number'"),
    ):
        if words:
            classes.to_csv("classes.csv")
        assert main(["fit", "animals.csv", *WORDS, *FIT, *words]) == 1
        lines = capsys.readouterr().err.splitlines()
        (error,) = [line for line in lines if line.startswith("zslearn: error: ")]
        assert message in error


def test_names_of_rows_and_columns_to_drop(files, capsys):
    for name in ("animals.csv", "new.csv"):
        table = pd.read_csv(name)
        table.insert(0, "tag", [f"tag-{i}" for i in range(len(table))])
        table.assign(noise=1.5).to_csv(name, index=False)
    words = [*WORDS, *FIT, "--id", "tag", "--drop", "noise", "is 3", "--out", "m.zsl"]
    assert main(["fit", "animals.csv", *words]) == 0
    assert "columns: 10 numbers;" in capsys.readouterr().out
    assert main(["predict", "m.zsl", "new.csv", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv")["tag"].tolist()[:2] == ["tag-0", "tag-1"]
    assert "m.zsl" not in capsys.readouterr().err
    # Rows without names are numbered.
    pd.read_csv("new.csv").drop(columns="tag").to_csv("bare.tsv", sep="\t", index=False)
    assert main(["predict", "m.zsl", "bare.tsv", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv")["row"].tolist()[:2] == [1, 2]
    said = capsys.readouterr().err
    assert "there is no column 'tag': rows are numbered" in said
    assert "separated" not in said
    model = read_model("m.zsl").model
    assert "is 3" not in model.attributes_.feature_names_in_


def test_small_tables_start_no_processes(files):
    words = [word for word in FIT if word not in ("--jobs", "1")]
    assert main(["fit", "animals.csv", *WORDS, *words, "--jobs", "2", "--out", "m.zsl"]) == 0
    assert read_model("m.zsl").model.estimator_.n_jobs == 1


def test_options_that_do_not_fit_the_source(model, capsys):
    (model.parent / "pictures").mkdir()
    for words, message in (
        (["fit", "animals.csv", *WORDS, *FIT, "--backbone", "x"], "--backbone is for images"),
        (["fit", "pictures", *WORDS, *FIT], "--label is for tables of features"),
        (["fit", "none.csv", *WORDS, *FIT], "There is no file or folder none.csv"),
        (["predict", "m.zsl", "none.csv"], "There is no file or folder none.csv"),
        (["fit", "animals.csv", "--label", "species", *WORDS[2:], *FIT], "no column 'species'"),
        (["predict", "m.zsl", "pictures"], "was fitted on a table with the columns 'sensor 0'"),
        (["predict", "m.zsl", "classes.csv"], "there are no columns 'sensor 0'"),
    ):
        assert main(words) == 1
        assert message in capsys.readouterr().err


GAUSSIAN = ["--method", "Gaussian EXEM", "--tune", "none", "--jobs", "1"]


def unseen_accuracy(model, table):
    X, y = table.drop(columns="animal").to_numpy(), table["animal"].to_numpy(dtype=str)
    return model.score(X, y, classes=UNSEEN)


def test_add_examples(files, capsys):
    assert main(["fit", "animals.csv", *WORDS, *GAUSSIAN, "--out", "m.zsl"]) == 0
    new = pd.read_csv("new.csv")
    unseen = new[new["animal"].isin(UNSEEN)]
    few, rest = unseen.iloc[::4], unseen.drop(index=unseen.index[::4])
    few.to_csv("few.csv", index=False)
    capsys.readouterr()
    assert main(["add-examples", "m.zsl", "few.csv", "--out", "more.zsl"]) == 0
    assert capsys.readouterr().out == "added 4 samples of 'c10', 'c11'\nwrote more.zsl\n"
    before, after = (read_model(name) for name in ("m.zsl", "more.zsl"))
    assert unseen_accuracy(after.model, rest) >= unseen_accuracy(before.model, rest)
    by_hand = before.model.add_examples(few.drop(columns="animal"), few["animal"].to_numpy())
    X = rest.drop(columns="animal").to_numpy()
    np.testing.assert_allclose(by_hand.decision_function(X), after.model.decision_function(X))
    assert main(["evaluate", "more.zsl", "few.csv"]) == 0
    assert "4 of 4 samples were trained on" in capsys.readouterr().err
    # A class without a signature, and names that resemble those of other classes.
    few.assign(animal="yeti").to_csv("yeti.csv", index=False)
    assert main(["add-examples", "m.zsl", "yeti.csv"]) == 0
    assert "without a signature: 'yeti'" in capsys.readouterr().out
    assert "yeti" in read_model("m.zsl").model.classes_
    few.assign(animal="C10").to_csv("case.csv", index=False)
    few.drop(columns="animal").to_csv("bare.csv", index=False)
    assert main(["add-examples", "more.zsl", "bare.csv"]) == 1
    assert "have no labels" in capsys.readouterr().err
    assert main(["add-examples", "more.zsl", "case.csv"]) == 0
    printed = capsys.readouterr()
    assert "joined: 'C10' and 'c10'" in printed.err
    assert "without a signature" not in printed.out


def test_every_command_reads_tables_with_columns_that_fit_dropped(files, capsys):
    rng = np.random.default_rng(1)
    for name in ("animals.csv", "new.csv"):
        table = pd.read_csv(name).assign(laboratory="Basel")
        table["file"] = [f"scan-{number}.png" for number in rng.permutation(len(table))]
        table["animal"] = table["animal"].str.upper() + " "
        table.to_csv(name, index=False, sep=";", decimal=",")
    assert main(["fit", "animals.csv", *WORDS, *GAUSSIAN, "--out", "m.zsl"]) == 0
    said = capsys.readouterr()
    dropped = "dropped: 'laboratory' (constant), 'file' (identifier or free text); "
    assert f"columns: 10 numbers; {dropped}" in said.out
    assert "otherwise give --sep, --decimal or --encoding" in said.err
    assert main(["evaluate", "m.zsl", "new.csv", "--per-class"]) == 0
    rows = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert float(rows["unseen classes, among these"][-2]) > 0.8
    assert main(["predict", "m.zsl", "new.csv", "--explain", "--out", "p.csv"]) == 0
    capsys.readouterr()
    assert main(["add-examples", "m.zsl", "new.csv"]) == 0
    said = capsys.readouterr()
    assert "'c00', 'c01'" in said.out
    assert "C00" not in said.out
    assert main(["adapt", "m.zsl", "new.csv", "--always"]) == 0
    assert main(["add-class", "m.zsl", "classes.csv"]) == 1
    error = capsys.readouterr().err
    assert "add-class accepts only new ones" in error
    assert "with remove-class first" in error
    assert "valid feature names" not in said.err + error


@pytest.mark.parametrize(
    "command", ["fit", "predict", "add-class", "add-examples", "adapt", "suggest"]
)
def test_outputs_must_not_be_folders(files, model, command, capsys):
    first = ["m.zsl", "classes.csv"] if command == "add-class" else ["m.zsl", "new.csv"]
    words = ["animals.csv", *WORDS, *FIT] if command == "fit" else first
    assert main([command, *words, "--out", "."]) == 1
    assert ".: Is a directory: use a file name" in capsys.readouterr().err


def test_only_gaussian_exem_learns_from_examples(model, capsys):
    for verb in ("add-examples", "adapt", "suggest"):
        assert main([verb, "m.zsl", "new.csv"]) == 1
        assert f"ESZSL has no {verb}" in capsys.readouterr().err


def test_suggest(files, capsys):
    assert main(["fit", "animals.csv", *WORDS, *GAUSSIAN, "--out", "m.zsl"]) == 0
    new = pd.read_csv("new.csv").drop(columns="animal")
    new.to_csv("unlabelled.csv", index=False)
    words = ["suggest", "m.zsl", "unlabelled.csv", "--n", "3"]
    capsys.readouterr()
    assert main([*words, "--out", "next.csv"]) == 0
    printed = capsys.readouterr().out
    assert f"Label these next, of {len(new)} samples" in printed
    assert "Classes that gain most, of 12" in printed
    assert "wrote next.csv: 3 samples" in printed
    table, model = pd.read_csv("next.csv"), read_model("m.zsl").model
    expected = model.suggest(new, 3)
    assert list(table) == ["row", "class", "probability", "gain"]
    assert table["class"].tolist() == expected.labels.tolist()
    np.testing.assert_allclose(table["gain"], expected.gains, rtol=1e-4)
    assert main([*words, "--classes", "described", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {entry["class"] for entry in found["suggestions"]} <= set(UNSEEN)
    assert [entry["class"] for entry in found["classes"]] == list(
        model.suggest(new, classes=UNSEEN).classes.index
    )
    assert (found["n_samples"], found["indistinct"]) == (len(new), [])
    assert main([*words[:-1], "0"]) == 1
    assert "--n 0: give a positive number" in capsys.readouterr().err


def test_other_methods_that_adapt(files, capsys):
    fit = ["fit", "animals.csv", *WORDS, "--method", "gfzsl", "--tune", "none", "--jobs", "1"]
    assert main([*fit, "--out", "m.zsl"]) == 0
    capsys.readouterr()
    assert main(["adapt", "m.zsl", "new.csv", "--always"]) == 1
    assert "GFZSL cannot check an adaptation on held-out classes" in capsys.readouterr().err


def test_adapt(files, capsys):
    assert main(["fit", "animals.csv", *WORDS, *GAUSSIAN, "--out", "m.zsl"]) == 0
    new = pd.read_csv("new.csv")
    new[new["animal"].isin(UNSEEN)].drop(columns="animal").to_csv("unlabelled.csv", index=False)
    kept = (files / "m.zsl").read_bytes()
    words = ["adapt", "m.zsl", "unlabelled.csv", "--classes", *UNSEEN]
    capsys.readouterr()
    assert main([*words, "--always", "--out", "a.zsl"]) == 0
    printed = capsys.readouterr().out
    assert "held-out classes: " in printed
    assert "of 16 samples fit no class\nwrote a.zsl" in printed
    assert (files / "m.zsl").read_bytes() == kept
    before, after = (read_model(name).model for name in ("m.zsl", "a.zsl"))
    X = pd.read_csv("unlabelled.csv").to_numpy()
    biases = [(m.estimator_.bias_, m.estimator_.temperature_) for m in (before, after)]
    assert biases[0] == biases[1]
    assert biases[0][0] != 0
    expected = before.adapt(X, classes=UNSEEN, accept=True)
    np.testing.assert_allclose(after.decision_function(X), expected.decision_function(X))
    assert main([*words, "--out", "b.zsl"]) == 0
    out = capsys.readouterr().out
    assert ("m.zsl is unchanged" in out) != (files / "b.zsl").exists()


@pytest.mark.parametrize(
    ("cells", "options", "same_as"),
    [
        # A thousand, as in the table given to fit.
        (["1.234", "2.500"], [], [1234, 2500]),
        # Numbers that cannot have decimal commas, or that are said to have none.
        (["1.234", "0.5"], [], [1.234, 0.5]),
        (["1.234", None], [], [1234, np.nan]),
        (["1.234", "2.500"], ["--decimal", "."], [1.234, 2.5]),
        (["1.234", "2.500"], ["--decimal", ","], [1234, 2500]),
    ],
)
def test_decimal_commas_are_remembered(files, cells, options, same_as):
    samples, _ = make_tables()
    known = samples[~samples["animal"].isin(UNSEEN)]
    whole = (100 * known.drop(columns="animal")).round().astype(int)
    grams = (3 * whole["sensor 0"] + 2000.5).map("{:_.1f}".format)
    written = grams.str.replace(".", ",").str.replace("_", ".")
    table = whole.assign(**{"sensor 0": written, "animal": known["animal"]})
    table.to_csv("commas.csv", index=False, sep=";")
    assert main(["fit", "commas.csv", *WORDS, *FIT, "--out", "m.zsl"]) == 0
    new = whole[:2].assign(**{"sensor 0": cells})
    new.to_csv("new.csv", index=False)
    assert main(["predict", "m.zsl", "new.csv", *options, "--out", "p.csv"]) == 0
    numbers = new.assign(**{"sensor 0": np.array(same_as, float)})
    expected = zslearn.load("m.zsl").predict_proba(numbers).max(axis=1)
    np.testing.assert_allclose(pd.read_csv("p.csv")["probability"], expected, rtol=1e-4)
