"""One predictor in every engine: the same labels and scores as `predict_top_k`."""

import copy
import io
import os
import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from dying import DyingPredictor
from zslearn import EXEM, BatchPredictor, load, save
from zslearn.base import InputWarning
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import TableClassifier


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=8, n_unseen=4, n_features=6, n_attributes=5, random_state=0)


@pytest.fixture(scope="module")
def X(data):
    return data.X_test_unseen.astype(np.float32)


@pytest.fixture(scope="module")
def model(data):
    return EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "model.zsl"
    save(model, path)
    return path


@pytest.fixture
def frame(X):
    return pd.DataFrame({"id": np.arange(len(X)), "features": list(X)})


def check(found, model, X, k=2, value="score"):
    """Compare the columns of an engine with `predict_top_k`, whose batches are others."""
    found = pd.DataFrame(dict(found)).sort_values("id")
    labels, scores = model.predict_top_k(X, k, proba=value == "probability")
    assert found["id"].tolist() == list(range(len(X)))
    for rank in range(k):
        assert found[f"label_{rank + 1}"].tolist() == labels[:, rank].tolist()
        np.testing.assert_allclose(found[f"{value}_{rank + 1}"], scores[:, rank], rtol=1e-5)


@pytest.mark.parametrize("kind", ["arrays", "lists", "objects", "frame"])
def test_batches_of_columns(path, model, X, frame, kind):
    columns = {
        "arrays": {"id": np.arange(len(X)), "features": X, "other": np.zeros(len(X))},
        "lists": {"id": list(range(len(X))), "features": X.tolist()},
        "objects": {"id": np.arange(len(X)), "features": frame["features"].to_numpy()},
        "frame": frame.set_index(np.arange(len(X)) + 100),
    }[kind]
    predictor = pickle.loads(pickle.dumps(BatchPredictor(path, k=2, keep=["id"])))
    found = predictor(columns)
    assert list(found) == predictor.columns
    check(found, model, X)
    if kind == "frame":
        assert found.index.tolist() == columns.index.tolist()


def test_the_task_does_not_hold_the_model(path):
    assert len(pickle.dumps(BatchPredictor(path))) < 1000


def test_an_empty_batch_has_the_columns_of_others(path, X):
    predictor = BatchPredictor(path, k=2)
    assert {name: len(values) for name, values in predictor({"features": []}).items()} == {
        "label_1": 0,
        "score_1": 0,
        "label_2": 0,
        "score_2": 0,
    }


def test_candidates_and_probabilities(tmp_path, data, X):
    from zslearn.synthesis import GaussianEXEM

    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    unseen = data.unseen_classes
    predictor = BatchPredictor(tmp_path / "model.zsl", k=3, classes=unseen, proba=True)
    found = predictor({"features": X})
    labels, values = model.predict_top_k(X, 3, classes=unseen, proba=True)
    assert found["label_3"].tolist() == labels[:, 2].tolist()
    np.testing.assert_allclose(found["probability_1"], values[:, 0], rtol=1e-4)


def test_tables_are_read_by_their_columns(tmp_path, data):
    names = [f"x{i}" for i in range(data.X_train.shape[1])]
    table = pd.DataFrame(data.X_train, columns=names)
    model = TableClassifier(EXEM()).fit(table, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    new = pd.DataFrame(data.X_test_unseen, columns=names)
    found = BatchPredictor(tmp_path / "model.zsl", k=1)(new[names[::-1]].assign(other="a"))
    assert found["label_1"].tolist() == model.predict(new).tolist()


def test_images_in_columns(tmp_path, data):
    pytest.importorskip("torch")
    Image = pytest.importorskip("PIL.Image")
    from zslearn.images import load_backbone

    network = load_backbone("efficientnet-lite0")
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 255, (40, 40, 3), np.uint8)) for _ in range(3)]
    X = rng.standard_normal((40, network.n_features)).astype(np.float32)
    y = np.arange(40) % 8
    model = EXEM().fit(X, data.seen_classes[y], signatures=data.signatures)
    save(model, tmp_path / "model.zsl", about={"features": network.about})
    predictor = BatchPredictor(tmp_path / "model.zsl", "image", k=1)
    contents = []
    for image in images:
        file = io.BytesIO()
        image.save(file, "PNG")
        contents.append(file.getvalue())
    (tmp_path / "a.png").write_bytes(contents[0])
    expected = model.predict(network.features(images)).tolist()
    assert predictor({"image": contents})["label_1"].tolist() == expected
    assert predictor({"image": images})["label_1"].tolist() == expected
    mixed = [{"bytes": None, "path": str(tmp_path / "a.png")}, b"no image", contents[2]]
    found = predictor({"image": mixed})
    assert found["label_1"].tolist() == [expected[0], None, expected[2]]
    assert np.isnan(found["score_1"]).tolist() == [False, True, False]
    # Paths and bytes of other types, and rows without an image, of which the first may be one.
    for missing in (None, np.nan, pd.NA):
        rows = [missing, bytearray(contents[1]), tmp_path / "a.png"]
        assert predictor({"image": rows})["label_1"].tolist() == [None, expected[1], expected[0]]
        found = predictor(pd.DataFrame({"image": [missing] * 2}))
        assert found["label_1"].tolist() == [None, None]
        assert np.isnan(found["score_1"]).all()
    # More images than the network takes at a time.
    many = [*contents, b"no image"] * 20
    labels = predictor({"image": many})["label_1"].tolist()
    assert labels == [*expected, None] * 20


def test_vectors_need_no_network(tmp_path, model, X):
    """A worker without the weights can still predict features."""
    save(model, tmp_path / "model.zsl", about={"features": {"backbone": "resnet101"}})
    predictor = BatchPredictor(tmp_path / "model.zsl", k=1)
    assert predictor({"features": X})["label_1"].tolist() == model.predict(X).tolist()
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="resnet101 needs a weights file"):
        predictor({"features": [b"image"]})


def test_a_model_at_a_url(path, tmp_path, model, X):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://models/model.zsl", "wb") as file:
        file.write(path.read_bytes())
    found = BatchPredictor("memory://models/model.zsl", k=2)({"features": X})
    assert found["label_1"].tolist() == model.predict(X).tolist()
    with pytest.raises(FileNotFoundError, match="No such file.*memory://models/none.zsl"):
        BatchPredictor("memory://models/none.zsl")
    # The next model at the URL is another one.
    other = load(path)
    save(other.remove_classes(other.unseen_classes_), tmp_path / "model.zsl")
    with fsspec.open("memory://models/model.zsl", "wb") as file:
        file.write((tmp_path / "model.zsl").read_bytes())
    with pytest.raises(ValueError, match=f"the number of classes, {len(other.classes_)}; got 12"):
        BatchPredictor("memory://models/model.zsl", k=12)


def test_kept_bytes_are_whole(path, X):
    contents = [b"a\0", b"\0\0", *[b"long"] * (len(X) - 2)]
    found = BatchPredictor(path, k=1, keep=["id"])({"id": contents, "features": X})
    assert found["id"].tolist() == contents


def test_bad_use(path, X, tmp_path, model):
    predictor = BatchPredictor(path)
    with pytest.raises(KeyError, match="no column 'features'; its columns are 'x'"):
        predictor({"x": X})
    with pytest.raises(ValueError, match="'features' must hold vectors of one length"):
        predictor({"features": [[1.0, 2.0], [1.0]]})
    with pytest.raises(ValueError, match="does not record how its features were made"):
        predictor({"features": [b"image"]})
    with pytest.raises(ValueError, match="between 1 and the number of classes, 12; got 50"):
        BatchPredictor(path, k=50)
    with pytest.raises(ValueError, match="describes no class 'nobody'"):
        BatchPredictor(path, classes=["nobody"])
    with pytest.raises(ValueError, match="dtype='int8'"):
        BatchPredictor(path, dtype="int8")
    with pytest.raises(TypeError, match="must be a list of columns"):
        BatchPredictor(path, keep="id")
    with pytest.raises(ValueError, match=r"Spark needs the types of kept columns: keep=\{'id'"):
        _ = BatchPredictor(path, keep=["id"]).spark_schema


def test_a_model_that_changes_after_the_predictor_was_made(tmp_path, model, data, X):
    path = tmp_path / "model.zsl"
    save(model, path)
    predictor = BatchPredictor(path)
    save(copy.deepcopy(model).remove_classes(data.unseen_classes[:1]), path)
    with pytest.raises(ValueError, match="has changed since the BatchPredictor was made"):
        predictor({"features": X})


@pytest.fixture
def newer(model, tmp_path, monkeypatch):
    """Predictors made by a newer version of zslearn, for workers with this one."""

    def make(**attributes):
        path = tmp_path / "newer.zsl"
        with monkeypatch.context() as patch:
            for name, value in attributes.items():
                patch.setattr(f"zslearn.persistence._model_files.{name}", value)
            save(model, path)
            return BatchPredictor(path, k=2, keep={"id": "long"})

    return make


def test_a_model_newer_than_the_worker(newer, X):
    batch = {"id": range(len(X)), "features": X}
    assert newer()(batch)
    match = r"newer\.zsl was saved by zslearn 9\.1\.0, which is newer than .* on this worker"
    with pytest.raises(ValueError, match=match), pytest.warns(InputWarning, match="newer than"):
        newer(__version__="9.1.0")(batch)
    with pytest.raises(ValueError, match=NEWER):
        newer(FORMAT_VERSION=99, __version__="9.1.0")(batch)


# Engines, each with its own workers where it has them.

NEWER = r"newer\.zsl cannot be loaded: it was saved by zslearn 9\.1\.0 .* Update zslearn"


def check_newer(newer, run):
    """A model that the workers cannot read is an error that says so."""
    with pytest.raises(Exception, match=NEWER):
        run(newer(FORMAT_VERSION=99, __version__="9.1.0"))


def test_dask(path, model, X, frame, tmp_path, newer):
    dataframe = pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 3)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")

    def run(predictor):
        lazy = dataframe.read_parquet(tmp_path / "*.parquet").map_partitions(predictor.pandas)
        return lazy.compute(scheduler="threads")

    check(run(BatchPredictor(path, k=2, keep=["id"])), model, X)
    check_newer(newer, run)


@pytest.mark.slow
def test_a_dask_worker_that_is_killed(path, model, X, frame, tmp_path):
    dataframe = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 5)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
    predictor = BatchPredictor(path, k=2, keep=["id"])
    dying = DyingPredictor(predictor, 25, tmp_path / "died")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        parts = dataframe.read_parquet(tmp_path / "*.parquet")
        found = parts.map_partitions(dying, meta=predictor(frame).iloc[:0]).compute()
    assert (tmp_path / "died").exists()
    check(found, model, X)


def test_hugging_face_datasets(path, model, X, frame, newer):
    # This folder's parent has a folder of that name.
    datasets = pytest.importorskip("datasets.arrow_dataset")

    def run(predictor):
        predictor.keep = {}
        data = datasets.Dataset.from_pandas(frame).map(
            predictor, batched=True, batch_size=7, remove_columns=["features"]
        )
        return data.to_pandas()

    check(run(BatchPredictor(path, k=2)), model, X)
    check_newer(newer, run)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    # Workers import helpers of the tests.
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=environment)
    yield pytest.importorskip("ray.data")
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_ray(ray, path, model, X, frame, newer, batch_format):
    def run(predictor):
        rows = ray.from_pandas(frame).repartition(3)
        return rows.map_batches(predictor, batch_format=batch_format).to_pandas()

    check(run(BatchPredictor(path, k=2, keep=["id"])), model, X)
    check_newer(newer, run)


@pytest.mark.slow
def test_a_ray_worker_that_is_killed(ray, path, model, X, frame, tmp_path):
    predictor = DyingPredictor(BatchPredictor(path, k=2, keep=["id"]), 25, tmp_path / "died")
    rows = ray.from_pandas(frame).repartition(5)
    found = rows.map_batches(predictor, batch_format="pandas").to_pandas()
    assert (tmp_path / "died").exists()
    check(found, model, X)


@pytest.mark.slow
def test_spark(path, model, X, frame, monkeypatch, newer):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )

    def run(predictor):
        rows = session.createDataFrame(frame.assign(features=X.tolist())).repartition(3)
        return rows.mapInPandas(predictor.pandas, schema=predictor.spark_schema).toPandas()

    try:
        check(run(BatchPredictor(path, k=2, keep={"id": "long"})), model, X)
        check_newer(newer, run)
    finally:
        session.stop()
