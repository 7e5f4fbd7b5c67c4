"""Features and predictions at URLs: in memory, and on a server of S3 on this machine."""

from __future__ import annotations

import io
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zslearn import BatchPredictor, load, save
from zslearn._utils._reading import limit_reading
from zslearn.baselines import ESZSL
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.experiments import write_top_k
from zslearn.images import predict_shards

fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

DATA = make_zero_shot(random_state=0)
X = DATA.X_test_unseen.astype(np.float32)
SMALL = {"block_bytes": 20 * X.shape[1] * 4}
SHARDS = np.array_split(np.arange(len(X)), 3)


@pytest.fixture(scope="module")
def model():
    return ESZSL().fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)


@pytest.fixture(scope="module")
def s3():
    """The URL of an empty bucket."""
    server = pytest.importorskip("moto.server", reason="needs moto[server]")
    pytest.importorskip("s3fs")
    patch = pytest.MonkeyPatch()
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    patch.setenv("AWS_ACCESS_KEY_ID", "testing")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # Other proxies than none would be asked for the loopback address.
    patch.setenv("NO_PROXY", "127.0.0.1")
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir("bucket")
    yield "s3://bucket"
    started.stop()
    patch.undo()


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.slow)])
def folder(request):
    """The URL of a folder that nothing else uses."""
    name = request.node.name.translate({ord(letter): "-" for letter in "[]/.:"})
    root = "memory://tests" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{root}/{name}"


def put(url, content):
    with fsspec.open(url, "wb") as file:
        file.write(content)


def npy(rows):
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


def parquet(rows, labels=None):
    table = pa.table({"features": pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])})
    if labels is not None:
        table = table.append_column("label", pa.array(labels))
    file = io.BytesIO()
    pa.parquet.write_table(table, file, row_group_size=13)
    return file.getvalue()


def arrow(rows):
    table = pa.Table.from_pandas(pd.DataFrame(rows).rename(columns=str))
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=31)
    return file.getvalue()


def put_shards(folder):
    for number, rows in enumerate(SHARDS):
        put(f"{folder}/{number}.npy", npy(X[rows]))


def names(folder):
    fs, path = fsspec.core.url_to_fs(folder)
    fs.invalidate_cache()
    return sorted(name.rpartition("/")[2] for name in fs.ls(path, detail=False))


def check(folder, model, rows=slice(None)):
    """What was written are the predictions of these rows."""
    parts = [pd.read_parquet(f"{folder}/{name}") for name in names(folder)]
    found = pd.concat(parts)
    labels, scores = model.predict_top_k(X[rows], 2)
    assert found["label_1"].tolist() == labels[:, 0].tolist()
    np.testing.assert_allclose(found["score_2"], scores[:, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("ending", "content"), [("npy", npy), ("parquet", parquet), ("arrow", arrow)]
)
def test_features_at_a_url_are_those_of_the_file(folder, ending, content):
    for number, rows in enumerate(SHARDS):
        put(f"{folder}/{number}.{ending}", content(X[rows]))
    blocks = FeatureBlocks.open(folder, **SMALL)
    assert blocks.shape == X.shape
    assert blocks.shard_ends == [50, 100, 150]
    assert np.array_equal(np.concatenate([rows for rows, _ in blocks]), X)
    assert np.array_equal(np.concatenate([b.rows for b in blocks.blocks(61)]), X[61:])
    one = FeatureBlocks.open([f"{folder}/1.{ending}"], labels=DATA.y_test_unseen[SHARDS[1]])
    assert np.array_equal(np.concatenate([rows for rows, _ in one]), X[SHARDS[1]])
    # The next version of a shard is another one, even of the same size.
    before = blocks.fingerprint()
    put(f"{folder}/1.{ending}", content(X[SHARDS[0]]))
    assert FeatureBlocks.open(folder, **SMALL).fingerprint() != before


def test_labels_at_a_url(folder):
    put(f"{folder}/x/a.parquet", parquet(X, DATA.y_test_unseen))
    put(f"{folder}/y.npy", npy(DATA.y_test_unseen))
    for blocks in (
        FeatureBlocks.open(f"{folder}/x"),
        FeatureBlocks.open(f"{folder}/x", labels=f"{folder}/y.npy"),
    ):
        labels = np.concatenate([labels for _, labels in blocks])
        assert labels.tolist() == DATA.y_test_unseen.tolist()


def test_predictions_are_written_to_a_url_and_resumed(folder, model):
    put_shards(f"{folder}/in")

    class Stopping(FeatureBlocks):
        def blocks(self, start=0):
            for number, block in enumerate(super().blocks(start)):
                if number == 4:
                    raise KeyboardInterrupt
                yield block

    out = f"{folder}/out"
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, Stopping.open(f"{folder}/in", **SMALL), out, k=2)
    assert names(out) == [f"part-{start:012}.parquet" for start in (0, 20, 40, 50)]
    blocks = FeatureBlocks.open(f"{folder}/in", **SMALL)
    assert write_top_k(model, blocks, out, k=2) == out
    check(out, model)
    # A half-written file of another program is recognised, and nothing else is computed again.
    put(f"{out}/part-{50:012}.parquet", b"PAR1 half")
    state = {name: fsspec.open(f"{out}/{name}").fs.info(f"{out}/{name}") for name in names(out)}
    write_top_k(model, blocks, out, k=2)
    check(out, model)
    for name, before in state.items():
        now = fsspec.open(f"{out}/{name}").fs.info(f"{out}/{name}")
        assert (now == before) == (name != f"part-{50:012}.parquet"), name


def test_a_part_that_fails_leaves_nothing(folder, model, monkeypatch):
    def write_half(table, file):
        file.write(b"PAR1" + bytes(60 * 2**20))
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(pa.parquet, "write_table", write_half)
        with pytest.raises(OSError, match="cannot be accessed .*no space left"):
            write_top_k(model, X, folder, k=2)
    put(f"{folder}/other", b"")
    assert names(folder) == ["other"]


def test_file_systems_without_transactions(model, tmp_path, monkeypatch):
    """Those of Arrow, such as HDFS."""
    wrapper = pytest.importorskip("fsspec.implementations.arrow").ArrowFSWrapper
    local = pytest.importorskip("pyarrow.fs").LocalFileSystem

    class Wrapped(wrapper):
        protocol = "wrapped"

        def __init__(self, **options):
            super().__init__(local(), **options)

    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "wrapped", Wrapped)
    (tmp_path / "out").mkdir()
    out = f"wrapped://{tmp_path}/out"
    write_top_k(model, X, out, k=2)
    check(out, model)

    def write_half(table, file):
        file.write(b"PAR1")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(pa.parquet, "write_table", write_half)
        with pytest.raises(OSError, match="no space left"):
            write_top_k(model, X, out, k=1)
    assert names(out) == []
    write_top_k(model, X, out, k=2)
    check(out, model)


def test_a_shard_that_changes_does_not_stop_the_others(folder, model):
    put_shards(f"{folder}/in")
    blocks = FeatureBlocks.open(f"{folder}/in", **SMALL)
    put(f"{folder}/in/1.npy", npy(X[:50]))
    out = f"{folder}/out"
    with pytest.raises(ValueError, match=r"One shard could not be read.*1\.npy: ") as error:
        write_top_k(model, blocks, out, k=2)
    assert "0.npy" not in str(error.value)
    check(out, model, [*SHARDS[0], *SHARDS[2]])
    put(f"{folder}/in/1.npy", npy(X[SHARDS[1]]))
    # The version of the shard is another one, so that all is computed again.
    write_top_k(model, FeatureBlocks.open(f"{folder}/in", **SMALL), out, k=2)
    check(out, model)


def test_a_shard_that_is_gone(folder, model):
    put_shards(f"{folder}/in")
    blocks = FeatureBlocks.open(f"{folder}/in", **SMALL)
    fs, path = fsspec.core.url_to_fs(f"{folder}/in/2.npy")
    content = fs.cat_file(path)
    fs.rm_file(path)
    out = f"{folder}/out"
    with pytest.raises(ValueError, match=r"One shard could not be read.*2\.npy"):
        write_top_k(model, blocks, out, k=2)
    check(out, model, slice(0, 100))
    assert len(names(out)) == 6
    put(f"{folder}/in/2.npy", content)
    with pytest.raises(FileNotFoundError, match=r"No such file.*3\.npy"):
        FeatureBlocks.open([f"{folder}/in/{number}.npy" for number in range(4)])


def test_a_table_that_changes_while_it_is_read(folder):
    put(f"{folder}/a.parquet", parquet(X))
    rows = iter(FeatureBlocks.open(f"{folder}/a.parquet", **SMALL, read_ahead=0))
    next(rows)
    put(f"{folder}/a.parquet", parquet(X[::-1].copy()))
    with pytest.raises(ValueError, match=r"a\.parquet: the rows cannot be read \(.*(changed|Etag)"):
        list(rows)


def test_unknown_columns(folder):
    put(f"{folder}/a.parquet", parquet(X, DATA.y_test_unseen))
    for options in ({"features": "vectors"}, {"label": "name"}):
        (name,) = options.values()
        match = rf"a\.parquet: there is no column '{name}'; its columns are 'features', 'label'"
        with pytest.raises(ValueError, match=match):
            FeatureBlocks.open(folder, **options)


def test_shards_and_a_model_at_urls(folder, model):
    for number, rows in enumerate(SHARDS):
        put(f"{folder}/in/{number}.parquet", parquet(X[rows]))
    with tempfile.TemporaryDirectory() as local:
        save(model, f"{local}/model.zsl")
        put(f"{folder}/model.zsl", Path(local, "model.zsl").read_bytes())
    predictor = BatchPredictor(f"{folder}/model.zsl", k=2)
    shards = [f"{folder}/in/{number}.parquet" for number in range(3)]
    gone = f"{folder}/in/3.parquet"
    with pytest.raises(ValueError, match=r"One shard could not be read.*No such file.*3\.parquet"):
        predict_shards(predictor, [gone, *shards], f"{folder}/out")
    check(f"{folder}/out", model)
    assert names(f"{folder}/out") == ["0.parquet", "1.parquet", "2.parquet"]
    assert predict_shards(predictor, shards, f"{folder}/out") == f"{folder}/out"


@pytest.mark.parametrize("reader", [FeatureBlocks.open, BatchPredictor])
def test_passwords_are_not_shown(reader):
    with pytest.raises(OSError, match="nothing://x/a.npy") as error:
        reader("nothing://user:secret@x/a.npy")
    assert "secret" not in str(error.value)


def test_a_signed_request(monkeypatch):
    class Server(type(fsspec.filesystem("memory"))):
        protocol = "https"

        @classmethod
        def _strip_protocol(cls, path):
            return path

        def info(self, path, **kwargs):
            if "none" in path:
                raise PermissionError(f"403, url={path!r}")
            return {"name": path, "size": len(content), "type": "file"}

        def _open(self, path, mode="rb", **kwargs):
            return io.BytesIO(content)

        def isdir(self, path):
            return False

    content = npy(X)
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "https", Server)
    blocks = FeatureBlocks.open("https://host/x.npy?name=a/b&sig=secret")
    assert np.array_equal(np.concatenate([rows for rows, _ in blocks]), X)
    with pytest.raises(OSError, match="https://host/none.npy") as error:
        FeatureBlocks.open("https://host/none.npy?name=a/b&sig=secret")
    assert "secret" not in str(error.value)


def test_files_of_this_machine_have_urls(tmp_path, model):
    """They are written where they belong, also if the folder of temporary files is on a disk."""
    folder = tmp_path / "a b#c%20"
    found = write_top_k(model, X, f"file://{folder}/", k=2)
    assert found == folder
    labels, _ = model.predict_top_k(X, 2)
    assert pd.read_parquet(folder)["label_2"].tolist() == labels[:, 1].tolist()
    assert FeatureBlocks.open(put_local(tmp_path / "x y.npy")).shape == X.shape


def put_local(path):
    path.write_bytes(npy(X))
    return f"file://{path}"


def test_roots_and_paths_that_were_urls(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = names("memory://")
    write_top_k(model, X, "memory://", k=2)
    assert set(names("memory://")) - set(before) == {f"part-{0:012}.parquet"}
    fsspec.filesystem("memory").rm(f"/part-{0:012}.parquet")
    with pytest.raises(ValueError, match="pass a URL as text"):
        write_top_k(model, X, Path("s3://bucket/x"), k=2)
    assert not list(tmp_path.iterdir())


def test_models_are_not_saved_under_the_name_of_a_url(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (partial(save, model), load):
        with pytest.raises(ValueError, match="memory://x/m.zsl: .*BatchPredictor also reads"):
            call("memory://x/m.zsl")
    assert not list(tmp_path.iterdir())
    save(model, f"file://{tmp_path}/m.zsl")
    assert load(tmp_path / "m.zsl").predict(X).tolist() == model.predict(X).tolist()


def test_the_memory_limit_holds_at_urls(folder):
    put(f"{folder}/a.parquet", parquet(X))
    with limit_reading(100), pytest.raises(ValueError, match="more than the 100 bytes"):
        FeatureBlocks.open(folder)


def test_an_empty_object_may_stand_for_a_folder(folder, monkeypatch):
    put_shards(folder)
    fs, path = fsspec.core.url_to_fs(folder)
    listed = [f"{path}/", *fs.ls(path, detail=False)]
    monkeypatch.setattr(type(fs), "ls", lambda *args, **kwargs: listed)
    assert FeatureBlocks.open(folder).shape == X.shape


def test_parts_that_cannot_be_read_now_are_kept(model, monkeypatch):
    out = "memory://tests/kept"
    write_top_k(model, X, out, k=2)

    def refused(self, path, mode="rb", **kwargs):
        raise TimeoutError("slow")

    with monkeypatch.context() as patch:
        patch.setattr(type(fsspec.filesystem("memory")), "_open", refused)
        with pytest.raises(OSError, match="cannot be accessed .*slow"):
            write_top_k(model, X, out, k=2)
    check(out, model)


def test_no_table_of_others_is_removed(model, tmp_path):
    other = tmp_path / f"part-{0:012}.parquet"
    pd.DataFrame({"x": [1]}).to_parquet(other)
    with pytest.raises(FileExistsError, match="choose another folder"):
        write_top_k(model, X, tmp_path, k=2, resume=False)
    assert pd.read_parquet(other)["x"].tolist() == [1]


def test_a_url_that_cannot_be_reached(folder):
    with pytest.raises(FileNotFoundError, match=f"{folder}/none.npy"):
        FeatureBlocks.open(f"{folder}/none.npy")
    put(f"{folder}/x.txt", b"")
    with pytest.raises(ValueError, match=r"also holds 'x\.txt'"):
        FeatureBlocks.open(folder)
    with pytest.raises(ValueError, match="features must be in a"):
        FeatureBlocks.open(f"{folder}/x.txt")


def test_a_server_that_does_not_answer(monkeypatch):
    pytest.importorskip("aiohttp")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(OSError, match=f"http://127.0.0.1:{port}/x.npy") as error:
        FeatureBlocks.open(f"http://127.0.0.1:{port}/x.npy")
    assert "\n" not in str(error.value)


def test_unknown_protocols_and_missing_packages(monkeypatch, model):
    with pytest.raises(OSError, match="nothing://x/a.npy cannot be accessed .*nothing"):
        FeatureBlocks.open("nothing://x/a.npy")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"needs fsspec.*zslearn\[urls\]"):
        write_top_k(model, X, "memory://x")
