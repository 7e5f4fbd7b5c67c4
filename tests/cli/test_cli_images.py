"""The commands on images, with a small network that recognises colours."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from small_images import COLORS, open_clip, timm, write_colors, write_image  # noqa: F401
from zslearn.cli import main
from zslearn.images import _model_files, load_features, text_features
from zslearn.persistence import read_model

pytest.importorskip("torch")
pytest.importorskip("PIL")
pytestmark = pytest.mark.usefixtures("timm")
SEEN = ["red", "green", "blue", "yellow", "magenta"]
NETWORK = ["--backbone", "timm:tiny", "--device", "cpu"]
FIT = ["--method", "eszsl", "--tune", "none", "--jobs", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Images of five colours for training and of all six for tests, and a table of colours."""
    write_colors(tmp_path / "train", SEEN)
    write_colors(tmp_path / "new", n_images=2, first=50)
    table = pd.DataFrame(COLORS, index=["r", "g", "b"]).T / 255
    table.to_csv(tmp_path / "classes.csv", index_label="class")
    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder, capsys):
    assert main(["features", "extract", "train", *NETWORK, "--out", "train.npz"]) == 0
    assert main(["fit", "train.npz", "--signatures", "classes.csv", *FIT, "--out", "m.zsl"]) == 0
    printed = capsys.readouterr()
    assert "20 images, 5 classes, 12 features (timm:tiny)" in printed.out
    assert "5 classes with images, 1 described only\ndescribed only: 'cyan'\n" in printed.out
    assert re.search(r"zslearn: [\d.e+]+ images per second", printed.err)
    return folder / "m.zsl"


def test_predict_images_and_features(model, capsys):
    words = ["predict", "m.zsl", "new", "--top", "3", "--out", "p.csv", "--device", "cpu"]
    assert main(words) == 0
    table = pd.read_csv("p.csv")
    assert list(table) == [
        *("image", "class", "known_by", "probability"),
        *("runner_up", "runner_up_known_by", "runner_up_probability"),
        *("class_3", "known_by_3", "probability_3"),
    ]
    truth = table["image"].str.partition("/")[0]
    assert (table["class"] == truth).mean() > 0.5
    assert (table["known_by"][table["class"] != "cyan"] == "seen").all()
    assert (table["known_by"][table["class"] == "cyan"] == "described only").all()
    assert (table["class"] != table["runner_up"]).all()
    assert (table["probability"] >= table["runner_up_probability"]).all()
    assert main(["features", "extract", "new", *NETWORK, "--out", "new.npz"]) == 0
    assert main(["predict", "m.zsl", "new.npz", "--top", "3", "--out", "q.csv"]) == 0
    again = pd.read_csv("q.csv")
    pd.testing.assert_frame_equal(table, again, rtol=1e-4)
    capsys.readouterr()
    # Without --out, the table is printed.
    assert main(["predict", "m.zsl", "new.npz"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("image,class,known_by,probability,runner_up,")
    assert len(out.splitlines()) == 13


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["described"], {"cyan"}),
        (["seen"], set(SEEN)),
        (["red", "cyan"], {"red", "cyan"}),
        (["some.txt"], {"blue", "cyan"}),
    ],
)
def test_candidates(model, words, expected):
    (model.parent / "some.txt").write_text("cyan\n\nblue\n")
    assert main(["predict", "m.zsl", "new", "--classes", *words, "--out", "p.csv"]) == 0
    assert set(pd.read_csv("p.csv")["class"]) <= expected


def test_taxa(model, capsys):
    ranks = "class,kind\nred,warm\nyellow,warm\nmagenta,warm\ncyan,cold\nblue,cold\ngreen,cold\n"
    (model.parent / "ranks.csv").write_text(ranks)
    words = ["predict", "m.zsl", "new", "--taxonomy", "ranks.csv", "--out", "p.csv", "--classes"]
    assert main([*words, "warm", "cyan"]) == 0
    assert set(pd.read_csv("p.csv")["class"]) == {"red", "yellow", "magenta", "cyan"}
    assert main([*words, "wram"]) == 1
    assert "no 'wram'. Did you mean 'warm'?" in capsys.readouterr().err
    assert main([*words, "described"]) == 0
    assert set(pd.read_csv("p.csv")["class"]) == {"cyan"}
    assert main([*words, "seen"]) == 0
    assert set(pd.read_csv("p.csv")["class"]) <= set(SEEN)
    # A class and its taxon may share a name.
    (model.parent / "ranks.csv").write_text(ranks.replace("warm", "red"))
    assert main([*words, "red"]) == 0
    assert set(pd.read_csv("p.csv")["class"]) == {"red", "yellow", "magenta"}
    (model.parent / "ranks.csv").write_text(ranks)
    assert main(["evaluate", "m.zsl", "new", "--taxonomy", "ranks.csv", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = {line.split("  ")[0]: line.split() for line in printed}
    assert any(line.split()[-1:] == ["kind"] for line in printed)
    assert rows["unseen classes, among these"][-1] == "1.000"
    (model.parent / "torn.csv").write_text("class,a,b\nred,x,y\nblue,z,y\n")
    assert main(["evaluate", "m.zsl", "new", "--taxonomy", "torn.csv"]) == 1
    assert "'y' is in more than one a" in capsys.readouterr().err
    (model.parent / "odds.json").write_text('{"red": 1e9}')
    words = ["predict", "m.zsl", "new", "--prior", "odds.json", "--out", "p.csv"]
    assert main(words) == 0
    assert set(pd.read_csv("p.csv")["class"]) == {"red"}
    (model.parent / "odds.json").write_text('{"rde": 2}')
    assert main(words) == 1
    assert "'rde'" in capsys.readouterr().err


def test_explain(model, capsys):
    words = ["predict", "m.zsl", "new", "--classes", "cyan", "yellow", "--explain"]
    assert main([*words, "--out", "p.csv"]) == 0
    table = pd.read_csv("p.csv").set_index("image")
    why = table.loc["cyan/0.png", "explanation"]
    assert re.search(
        r"runner-up: yellow .*built from: .*%.*distinguished from yellow by: [rgb]: 0\.", why
    )
    nearest = re.search(r"nearest training samples: (\w+)/\d.png \((\w+), ", why)
    assert nearest[1] == nearest[2]


@pytest.mark.slow
def test_none_of_these(folder, capsys):
    words = ["fit", "new", "--signatures", "classes.csv", *NETWORK, "--method", "eszsl"]
    assert main([*words, "--jobs", "1", "--none", "0.2", "--out", "n.zsl"]) == 0
    assert "none of these: 0." in capsys.readouterr().out
    assert type(read_model("n.zsl").model).__name__ == "NoneOfThese"
    write_image(folder / "odd" / "1.png", (128, 128, 128), seed=3)
    assert main(["predict", "n.zsl", "odd", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv")["none_of_these"].dtype == bool
    # Rejected images are wrong.
    capsys.readouterr()
    assert main(["evaluate", "n.zsl", "train", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert main(["features", "extract", "train", *NETWORK, "--out", "train.npz"]) == 0
    features = load_features("train.npz")
    loaded = read_model("n.zsl").model
    score = loaded.score(features.X, features.y)
    assert score < loaded.estimator_.score(features.X, features.y)
    assert re.search(rf"seen classes, among all +{score:.3f}", printed)


SCALED = ["--feature-scaling", "standard"]


@pytest.mark.parametrize("source", ["csv", "npz", ""])
@pytest.mark.parametrize("method", ["eszsl", "auto"])
@pytest.mark.parametrize("options", [SCALED, ["--row-norm", "none"], [*SCALED, "--none", "0.2"]])
def test_every_kind_of_input_can_be_scaled(folder, source, method, options, capsys):
    for name in ("train", "new"):
        assert main(["features", "extract", name, *NETWORK, "--out", f"{name}.npz"]) == 0
        features = load_features(f"{name}.npz")
        table = pd.DataFrame(features.X).add_prefix("mean ").assign(label=features.y)
        table.to_csv(f"{name}.csv", index=False)
    train, new = ("train", "new") if not source else (f"train.{source}", f"new.{source}")
    network = [] if source else NETWORK
    words = ["--signatures", "classes.csv", "--method", method, "--jobs", "1", *network, *options]
    assert main(["fit", train, *words, "--tune", "none", "--out", "m.zsl"]) == 0
    printed = capsys.readouterr().out
    assert "columns: 12 numbers" in printed
    if "--row-norm" in options:
        assert "rows not normalised" in printed
    assert main(["predict", "m.zsl", new, "--explain", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert len(found) == 12
    assert main(["evaluate", "m.zsl", new]) == 0
    rows = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert int(rows["seen classes, among all"][-1]) == 10
    assert float(rows["seen classes, among all"][-3]) > 0.5 or "--none" in options
    assert main(["info", "m.zsl"]) == 0
    scaling = "standard" if options[:2] == SCALED or source == "csv" else "as they are"
    assert f"features {scaling}; rows" in capsys.readouterr().out
    file = read_model("m.zsl")
    assert isinstance(file.about["features"].get("columns"), list) == (source == "csv")
    X = table if source == "csv" else features.X
    assert (file.model.predict(X).astype(str) == found["class"]).all() or "--none" in options
    if "--none" not in options:
        assert main(["tune", train, *words, "--tune", "quick", "--method", "eszsl"]) == 0
        assert "Best of" in capsys.readouterr().out


def test_columns_to_drop_beside_images(folder, monkeypatch, capsys):
    """They may be columns of the class table; others are refused before features are computed."""
    words = ["fit", "train", "--signatures", "classes.csv", *FIT, *NETWORK, "--out", "m.zsl"]
    assert main([*words, "--drop", "b"]) == 0
    assert [list(view) for view in read_model("m.zsl").model.signature_table_.columns] == [
        ["r", "g"]
    ]
    assert main(["features", "extract", "train", *NETWORK, "--out", "train.npz"]) == 0
    monkeypatch.setattr(
        "zslearn.images._features._compute", lambda *_, **__: pytest.fail("computed")
    )
    for source in ("new", "train.npz"):
        assert main(["fit", source, *words[2:], "--drop", "b", "size"]) == 1
        error = capsys.readouterr().err
        assert f"--drop 'size' is for tables of features; {source} is not one." in error


def test_evaluate(model, capsys):
    assert main(["evaluate", "m.zsl", "new", "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    assert "were trained on" not in printed.err
    rows = {line.split("  ")[0]: line.split() for line in printed.out.splitlines()}
    assert float(rows["unseen classes, among these"][-2]) == 1.0
    assert int(rows["seen classes, among all"][-1]) == 10
    assert main(["evaluate", "m.zsl", "train"]) == 0
    assert "20 of 20 images were trained on" in capsys.readouterr().err
    write_image(model.parent / "more" / "Red" / "1.png", COLORS["red"], seed=7)
    assert main(["evaluate", "m.zsl", "more"]) == 0
    assert "another spelling were joined: 'Red' and 'red'" in capsys.readouterr().err


def test_features_of_the_same_images_are_computed_once(model, monkeypatch):
    options = ["new", "--device", "cpu"]
    assert main(["predict", "m.zsl", *options, "--out", "p.csv"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr("zslearn.images._features._compute", lambda *_, **__: pytest.fail("again"))
        assert main(["predict", "m.zsl", *options, "--out", "q.csv"]) == 0
        assert main(["evaluate", "m.zsl", *options]) == 0
        with pytest.raises(pytest.fail.Exception):
            main(["evaluate", "m.zsl", *options, "--no-cache"])
        write_image(model.parent / "new" / "red" / "0.png", COLORS["blue"], seed=9)
        with pytest.raises(pytest.fail.Exception):
            main(["evaluate", "m.zsl", *options])
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), pd.read_csv("q.csv"))
    (file,) = (model.parent / "cache" / "features").glob("*.npz")
    monkeypatch.setattr(_model_files, "MAX_CACHED_BYTES", 0)
    assert main(["evaluate", "m.zsl", *options]) == 0
    assert not file.exists()


def test_examples_with_and_without_labels(folder, capsys):
    words = ["--method", "Gaussian EXEM", "--tune", "none", "--jobs", "1", *NETWORK]
    assert main(["fit", "train", "--signatures", "classes.csv", *words, "--out", "g.zsl"]) == 0
    write_image(folder / "few" / "cyan" / "1.png", COLORS["cyan"], seed=70)
    write_image(folder / "few" / "grey" / "1.png", (128, 128, 128), seed=71)
    capsys.readouterr()
    assert main(["add-examples", "g.zsl", "few", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed == "added 2 images of 'cyan', 'grey'\nwithout a signature: 'grey'\nwrote g.zsl\n"
    assert "grey" in read_model("g.zsl").model.classes_
    assert main(["adapt", "g.zsl", "new", "--always", "--out", "a.zsl", "--device", "cpu"]) == 0
    assert "of 12 images fit no class\nwrote a.zsl" in capsys.readouterr().out
    assert main(["predict", "a.zsl", "new", "--out", "p.csv", "--device", "cpu"]) == 0
    table = pd.read_csv("p.csv")
    assert (table["class"] == table["image"].str.partition("/")[0]).mean() > 0.5
    assert main(["suggest", "g.zsl", "new", "--n", "2", "--out", "n.csv", "--device", "cpu"]) == 0
    assert set(pd.read_csv("n.csv")["image"]) <= set(table["image"])
    assert "Label these next, of 12 images" in capsys.readouterr().out


def test_a_wrong_folder_is_refused_before_features_are_computed(model, monkeypatch, capsys):
    write_image(model.parent / "wrong" / "holidays" / "1.png", (9, 9, 9), seed=1)
    monkeypatch.setattr(
        "zslearn.images._features._compute", lambda *_, **__: pytest.fail("computed")
    )
    for words in (
        ["fit", "wrong", "--signatures", "classes.csv", *FIT, *NETWORK],
        ["evaluate", "m.zsl", "wrong", "--device", "cpu"],
    ):
        assert main(words) == 1
        error = capsys.readouterr().err
        assert re.search("images are missing from .* 'holidays'", error)
        assert "is this the right folder or table?" in error


def test_add_a_class_by_attributes(model, capsys):
    write_image(model.parent / "grey" / "1.png", (128, 128, 128), seed=3)
    (model.parent / "new.csv").write_text("class,b,g,r\ngrey,0.5,0.5,0.5\n")
    assert main(["add-class", "m.zsl", "new.csv", "--out", "more.zsl"]) == 0
    assert capsys.readouterr().out == "added 'grey'\nwrote more.zsl\n"
    assert "grey" not in read_model(model).model.classes_
    file = read_model("more.zsl")
    assert "grey" in file.model.unseen_classes_
    assert file.about == read_model(model).about
    assert set(file.extras) == {"training_features", "training_digests"}
    before = model.read_bytes()
    for words, message in (
        (["more.zsl", "new.csv"], "grey"),
        (["m.zsl"], "either a table of classes, or --name and --text"),
        (["m.zsl", "--name", "x"], "either a table of classes, or --name and --text"),
        (["m.zsl", "new.csv", "--name", "x", "--text", "y"], "either a table of classes"),
        (["m.zsl", "--name", "grey", "--text", "a dull colour"], "described by numbers, not by te"),
    ):
        assert main(["add-class", *words]) == 1
        assert message in capsys.readouterr().err
    (model.parent / "unseen.csv").write_text("class,b,g,r\n\u3164,0.5,0.5,0.5\n", "utf-8")
    assert main(["add-class", "m.zsl", "unseen.csv"]) == 1
    assert "invisible characters" in capsys.readouterr().err
    (model.parent / "bad.csv").write_text("class,b,g\ngrey,0.5,0.5\n")
    assert main(["add-class", "m.zsl", "bad.csv"]) == 1
    assert "2 attributes; those given to fit have 3" in capsys.readouterr().err
    assert model.read_bytes() == before


def test_concurrent_commands_do_not_lose_classes(model, capsys, monkeypatch):
    """A command that starts before another one has written the file is refused."""
    for name in ("grey", "brown"):
        (model.parent / f"{name}.csv").write_text(f"class,b,g,r\n{name},0.5,0.4,0.3\n")
    save = _model_files.save

    def meanwhile(*arguments, **options):
        monkeypatch.setattr(_model_files, "save", save)
        assert main(["add-class", "m.zsl", "brown.csv"]) == 1
        save(*arguments, **options)

    monkeypatch.setattr(_model_files, "save", meanwhile)
    assert main(["add-class", "m.zsl", "grey.csv"]) == 0
    assert "m.zsl is in use by another process:" in capsys.readouterr().err
    assert main(["add-class", "m.zsl", "brown.csv"]) == 0
    assert {"grey", "brown"} <= set(read_model(model).model.unseen_classes_.tolist())
    assert main(["add-class", "nowhere/m.zsl", "grey.csv"]) == 1
    assert not (model.parent / "nowhere").exists()


def test_describe_classes_with_the_text_side_of_the_network(folder, open_clip, capsys):  # noqa: F811
    (folder / "names.csv").write_text(
        "class,text\n" + "".join(f"{c},a {c} thing\n" for c in SEEN) + "cyan,\n001.cyan_sky,\n"
    )
    words = ["fit", "train", "--describe", "names.csv", "--backbone", "open_clip:ViT-T/colors"]
    assert main([*words, *FIT, "--out", "m.zsl", "--device", "cpu"]) == 0
    assert len(load_features("m.features.npz")) == 20
    about = read_model("m.zsl").about
    assert about["signatures"]["encoder"] == "backbone"
    assert about["signatures"]["texts"]["001.cyan_sky"] == ["cyan sky"]
    assert len(about["training"]["images"]) == len(about["training"]["labels"]) == 20
    assert main(["predict", "m.zsl", "new", "--out", "p.csv", "--classes", *COLORS]) == 0
    table = pd.read_csv("p.csv")
    assert (table["class"] == table["image"].str.partition("/")[0]).mean() > 0.8
    assert main(["add-class", "m.zsl", "--name", "teal", "--text", "a cyan thing"]) == 0
    file = read_model("m.zsl")
    assert file.about["signatures"]["texts"]["teal"] == ["a cyan thing"]
    (folder / "more.csv").write_text("class,text\nrust,a red thing\n")
    assert main(["add-class", "m.zsl", "more.csv"]) == 0
    assert {"teal", "rust"} <= set(read_model("m.zsl").model.unseen_classes_.tolist())


def test_tune_and_leave_out(folder, capsys):
    assert main(["features", "extract", "new", *NETWORK, "--out", "f.npz"]) == 0
    data = ["f.npz", "--signatures", "classes.csv", "--method", "eszsl", "--jobs", "1"]
    assert main(["tune", *data]) == 0
    out = capsys.readouterr().out
    assert "Best of " in out
    assert "alpha_features" in out
    assert main(["fit", *data, "--leave-out", "cyan", "red", "--out", "m.zsl"]) == 0
    file = read_model("m.zsl")
    assert file.model.unseen_classes_.tolist() == ["cyan", "red"]
    assert set(file.about["training"]["labels"]) == set(COLORS) - {"cyan", "red"}
    assert file.model.best_params_
    assert len(file.extras["training_digests"]) == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["features", "extract", "empty"], "there are no images"),
        (["fit", "flat", "--signatures", "classes.csv", *NETWORK], "The images have no labels"),
        (
            ["fit", "train", "--signatures", "few.csv", *NETWORK],
            "images are missing from the description: 'blue'",
        ),
        (
            ["fit", "train", "--describe", "few.csv"],
            "few.csv: a column holds numbers, or yes and no, so this is a table of attributes",
        ),
        (["fit", "train", "--describe", "said.csv", "--text-encoder", "usee"], "no encoder 'usee'"),
        (
            ["fit", "train.npz", "--signatures", "classes.csv", "--none", "2"],
            "rate between 0 and 1",
        ),
        (["fit", "train.npz", "--signatures", "classes.csv", "--jobs", "0"], "--jobs 0: give"),
        (["features", "extract", "train", "--out", "f.zsl", *NETWORK], "ends in .npz"),
        (["predict", "new", "m.zsl"], "new: Is a directory"),
        (["predict", "m.zsl", "nowhere", "--boxes", "b.csv"], "There is no file or folder nowhere"),
        (["add-class", "m.zsl", "nowhere.csv"], "There is no file nowhere.csv"),
        (
            ["fit", "train.npz", "--signatures", "classes.csv", "--backbone", "timm:tiny"],
            "--backbone is for images; train.npz holds features",
        ),
        (
            ["fit", "train.npz", "--signatures", "classes.csv", "--leave-out", "yelow"],
            "no images of 'yelow' to leave out. Did you mean 'yellow'",
        ),
        (["fit", "train.npz", "--signatures", "classes.csv", "--method", "exam"], "Unknown method"),
        (["predict", "m.zsl", "other.npz"], "is timm:tiny2, but m.zsl was fitted with timm:tiny"),
        (
            ["predict", "m.zsl", "new", "--classes", "pink"],
            "The model has no 'pink'",
        ),
        (["predict", "m.zsl", "new", "--top", "0"], "--top 0: give a positive number"),
        (["predict", "m.zsl", "train.npz", "--boxes", "b.csv"], "--boxes is for images"),
        (["evaluate", "m.zsl", "flat"], "The images have no labels"),
        (["predict", "own.zsl", "new"], "does not record how its features were made"),
    ],
)
def test_errors_are_one_line(model, words, message, capsys):
    folder = model.parent
    (folder / "empty").mkdir()
    write_image(folder / "flat" / "1.png", COLORS["red"])
    (folder / "few.csv").write_text("class,r\nred,1\ngreen,0\n")
    (folder / "said.csv").write_text("class,text\nred,as blood\ngreen,as grass\n")
    X = np.random.default_rng(0).normal(size=(20, 12))
    np.savez("own.npz", X=X, y=np.repeat(SEEN, 4))
    if "own.zsl" in words:
        assert (
            main(["fit", "own.npz", "--signatures", "classes.csv", *FIT, "--out", "own.zsl"]) == 0
        )
    if "other.npz" in words:
        extract = ["features", "extract", "new", "--backbone", "timm:tiny2"]
        assert main([*extract, "--out", "other.npz"]) == 0
    capsys.readouterr()
    assert main(words) == 1
    err = capsys.readouterr().err.splitlines()
    assert re.search(message, err[-1]), err
    assert err[-1].startswith("zslearn: error: ")
    assert not list(folder.glob("*.parts"))


@pytest.mark.slow
def test_prompts_only_in_a_benchmark(folder, open_clip, capsys):  # noqa: F811
    network = ["--backbone", "open_clip:ViT-T/colors", "--device", "cpu"]
    assert main(["features", "extract", "new", *network, "--out", "f.npz"]) == 0
    text = text_features(list(COLORS), backbone="open_clip:ViT-T/colors")
    text.to_csv("text.csv", index_label="class")
    words = ["bench", "f.npz", "--unseen", "cyan", "red", "--setting", "zsl", "--jobs", "1"]
    method = ["--methods", "zslearn.experiments:PromptsOnly"]
    assert main([*words, *method, "--signatures", "text.csv"]) == 0
    assert re.search(r"PromptsOnly +1\.000", capsys.readouterr().out)
    assert main([*words, *method, "--signatures", "classes.csv", "--out", "r2"]) == 0
    two = pd.read_csv("classes.csv").drop(columns="b")
    two.to_csv("two.csv", index=False)
    assert main([*words, *method, "--signatures", "two.csv", "--out", "r3"]) == 1
    assert "image and text features of the same model" in capsys.readouterr().err
