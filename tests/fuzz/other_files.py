"""Damaged and hostile files of the other readers: signatures, words, WordNet, shards, features.

For the process of ``reader_worker.py``. As there, a case is a path, what reads it, and what must
hold of the result if it is read at all.
"""

from __future__ import annotations

import gzip
import json
import pickle
import zlib

import numpy as np
import pandas as pd

from fuzz.reader_worker import CLASSES, mutate
from zslearn.datasets import (
    ClassShards,
    FeatureBlocks,
    read_child_parent_pairs,
    read_descriptions,
    read_signature_table,
)
from zslearn.images import load_features
from zslearn.signatures import WordNet
from zslearn.signatures._words import _read_word_vectors

MIB = 2**20
WORDS = dict(
    zip(("ant", "bée", "dog_house"), np.random.default_rng(1).normal(size=(3, 4)), strict=True)
)
ROWS = {
    name: np.random.default_rng(i).normal(size=(5 + i, 3)).astype(np.float32)
    for i, name in enumerate(("n00000001", "n00000002"))
}
#: Three nouns as WordNet writes them, one under the other.
NOUNS = (
    "  1 This is WordNet 3.0\n"
    "00001740 03 n 01 entity 0 000 | that which is\n"
    '00001930 03 n 02 thing 0 object_of_sense 0 001 @ 00001740 n 0000 | a thing; "one"\n'
    "00002137 03 n 01 dog 0 002 @ 00001930 n 0000 @i 00001740 n 0000 | barks\n"
)


class Trap:
    """An object that leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def never(result):
    """A file that must not be read."""
    return False


def is_sound_table(table):
    return isinstance(table, pd.DataFrame) and table.index.is_unique


def signature_table(rng, path):
    path = path.with_suffix(".csv")
    path.write_bytes(mutate(CLASSES.to_csv(index_label="class").encode(), rng, text=True))
    return path, lambda: read_signature_table(path), is_sound_table


def descriptions(rng, path):
    path = path.with_suffix((".json", ".csv", ".txt")[rng.integers(3)])
    texts = {"ant": ["small", "six legs"], "bée": "flies"}
    if path.suffix == ".json":
        content = json.dumps(texts)
    elif path.suffix == ".csv":
        content = "class,text\nant,small\nbée,flies\n"
    else:
        content = "ant\nbée\n"
    path.write_bytes(mutate(content.encode(), rng, text=True))

    def holds(found):
        return all(isinstance(t, str) for texts in found.values() for t in texts)

    return path, lambda: read_descriptions(path), holds


def pairs(rng, path):
    path = path.with_suffix(".csv")
    path.write_bytes(mutate(b"child,parent\nant,insect\nbee,insect\ninsect,\n", rng, text=True))
    return path, lambda: read_child_parent_pairs(path), lambda table: table.shape[1] == 2


def are_sound_words(found):
    wide = found.vectors.ndim == 2 and len(found.vectors) == len(found.index_to_key)
    return wide and bool(np.isfinite(found.vectors).all())


def words_of(kind):
    def case(rng, path):
        path = path.with_suffix({"binary": ".bin", "gzip": ".gz"}.get(kind, ".txt"))
        data = b"" if kind == "glove" else b"3 4\n"
        for word, row in WORDS.items():
            numbers = " ".join(f"{value:.3f}" for value in row).encode()
            if kind == "binary":
                numbers = row.astype("<f4").tobytes()
            data += word.encode() + b" " + numbers + b"\n"
        if kind == "gzip":
            data = gzip.compress(data)
        path.write_bytes(mutate(data, rng, text=kind in ("text", "glove")))
        return path, lambda: _read_word_vectors(path), are_sound_words

    return case


def wordnet(rng, path):
    path = path.with_suffix("")
    path.mkdir()
    file = path / "data.noun"
    file.write_bytes(mutate(NOUNS.encode(), rng, text=True))

    def read():
        nouns = WordNet(path, version=None)
        for wnid in nouns.wnids:
            nouns.description(wnid)
            nouns.ancestors(wnid)
            nouns.children(wnid)
        return nouns

    def holds(nouns):
        return all(len(w) == 9 and w[1:].isdecimal() and nouns.names(w) for w in nouns.wnids)

    return path, read, holds


def read_shards(path):
    shards = ClassShards(path)
    return {name: shards.rows(name) for name in shards.classes}


def are_sound_rows(found):
    return all(rows.ndim == 2 and rows.shape[1] > 0 for rows in found.values())


def npy_shards(rng, path):
    path = path.with_suffix("")
    path.mkdir()
    for name, rows in ROWS.items():
        np.save(path / f"{name}.npy", rows)
    file = path / "n00000001.npy"
    file.write_bytes(mutate(file.read_bytes(), rng))
    return path, lambda: read_shards(path), are_sound_rows


def h5_shards(rng, path):
    import h5py

    path = path.with_suffix("")
    path.mkdir()
    for name, rows in ROWS.items():
        with h5py.File(path / f"{name}.h5", "w") as file:
            file.create_dataset("features", data=rows, compression="gzip", fletcher32=True)
    file = path / "n00000001.h5"
    file.write_bytes(mutate(file.read_bytes(), rng))
    return path, lambda: read_shards(path), are_sound_rows


def parquet_shards(rng, path):
    path = path.with_suffix(".parquet")
    table = pd.concat(
        [pd.DataFrame(rows, columns=list("abc")).assign(wnid=name) for name, rows in ROWS.items()]
    )
    table.to_parquet(path, index=False, row_group_size=4)
    path.write_bytes(mutate(path.read_bytes(), rng))
    return path, lambda: read_shards(path), are_sound_rows


def zarr_shards(rng, path):
    import zarr

    path = path.with_suffix(".zarr")
    version = int(rng.integers(2, 4))
    group = zarr.create_group(str(path), zarr_format=version)
    for name, rows in ROWS.items():
        array = group.create_array(name, shape=rows.shape, dtype="f4", chunks=(2, 3))
        array[:] = rows
    files = sorted(file for file in path.rglob("*") if file.is_file())
    named = [file for file in files if file.name.endswith(("zarr.json", ".zarray"))]
    file = (named if rng.random() < 0.6 else files)[rng.integers(len(named))]
    if rng.random() < 0.05:
        file.unlink()
    else:
        file.write_bytes(mutate(file.read_bytes(), rng, text=file in named))
    return path, lambda: read_shards(path), are_sound_rows


def feature_file(rng, path):
    path = path.with_suffix(".npz")
    np.savez(path, X=ROWS["n00000001"], y=["a"] * 5, images=list("abcde"))
    path.write_bytes(mutate(path.read_bytes(), rng))
    return path, lambda: load_features(path), lambda found: len(found.X) == len(found.names)


DAMAGED = {
    "signatures": signature_table,
    "descriptions": descriptions,
    "pairs": pairs,
    "words-text": words_of("text"),
    "words-glove": words_of("glove"),
    "words-binary": words_of("binary"),
    "words-gzip": words_of("gzip"),
    "wordnet": wordnet,
    "shards-npy": npy_shards,
    "shards-h5": h5_shards,
    "shards-parquet": parquet_shards,
    "shards-zarr": zarr_shards,
    "features": feature_file,
}


# ------------------------------------------------------------------------------ hostile files


def words_stream_damaged(path):
    path = path.with_suffix(".gz")
    packed = bytearray(gzip.compress(b"cat 1 2 3\n" * 20_000))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    path.write_bytes(packed)
    return path, lambda: _read_word_vectors(path), never


def words_of_digits(path):
    path = path.with_suffix(".txt")
    path.write_bytes(b"1 " + b"9" * 5000 + b"\ncat 1\n")
    return path, lambda: _read_word_vectors(path), never


def words_without_numbers(path):
    path = path.with_suffix(".txt")
    path.write_bytes(b"1\n2\n3\n")
    return path, lambda: _read_word_vectors(path), never


def words_pickled(path):
    trap = path.with_name("sprung")
    path = path.with_suffix(".kv")
    path.write_bytes(pickle.dumps(Trap(trap), 4))
    return path, lambda: _read_word_vectors(path), lambda found: False


def wordnet_of_minus_words(path):
    path.mkdir()
    (path / "data.noun").write_text("00001740 03 1 -1 entity 0 000 | that which is\n")
    return path, lambda: WordNet(path, version=None).names("n00001740"), never


def wordnet_twice(path):
    path.mkdir()
    (path / "data.noun").write_text(NOUNS + NOUNS.replace("dog", "cat"))
    return path, lambda: WordNet(path, version=None).names("n00002137"), never


def npy_of_nothing(path):
    """A header alone, of an array of terabytes."""
    path.mkdir()
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 400), }"
    data = b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(117).encode() + b"\n"
    (path / "n00000001.npy").write_bytes(data)
    return path, lambda: read_shards(path), never


def h5_huge_chunk(path):
    import h5py

    path.mkdir()
    with h5py.File(path / "n00000001.h5", "w") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((8192, 5120))
        plan.set_deflate(9)
        space = h5py.h5s.create_simple((4, 4), (h5py.h5s.UNLIMITED,) * 2)
        item = h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F32LE, space, plan)
        stream = zlib.compressobj(9)
        parts = [stream.compress(bytes(MIB)) for _ in range(160)]
        item.write_direct_chunk((0, 0), b"".join([*parts, stream.flush()]))
    return path, lambda: read_shards(path), never


def h5_fill_value(path):
    """No data at all, and a shape of many gigabytes."""
    import h5py

    path.mkdir()
    with h5py.File(path / "n00000001.h5", "w") as file:
        file.create_dataset("features", (200_000_000, 8), dtype="f4", chunks=(1000, 8))
    return path, lambda: read_shards(path), never


def h5_other_file(path):
    import h5py

    path.mkdir()
    secret = path.with_name("secret")
    secret.write_bytes(bytes(range(64)))
    with h5py.File(path / "n00000001.h5", "w") as file:
        file.create_dataset("features", (4, 4), dtype="f4", external=[(str(secret), 0, 64)])
    return path, lambda: read_shards(path), never


def parquet_of_equal_rows(path):
    """A run of equal values: a few bytes however long it is."""
    import pyarrow
    import pyarrow.parquet

    path = path.with_suffix(".parquet")
    n_rows = 20_000_000
    values = pyarrow.array(np.zeros(n_rows, dtype=np.float32))
    names = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(np.zeros(n_rows, dtype=np.int32)), pyarrow.array(["n00000001"])
    )
    table = pyarrow.table({"wnid": names, "a": values, "b": values})
    pyarrow.parquet.write_table(table, path, row_group_size=n_rows)
    return path, lambda: read_shards(path), never


def _zarr_v2(path, metadata, chunk=b""):
    array = path.with_suffix(".zarr") / "n00000001"
    array.mkdir(parents=True)
    (array.parent / ".zgroup").write_text('{"zarr_format": 2}')
    whole = {
        "zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "dtype": "<f4", "order": "C",
        "compressor": None, "filters": None, "fill_value": 0,
    }  # fmt: skip
    (array / ".zarray").write_text(json.dumps({**whole, **metadata}))
    if chunk:
        (array / "0.0").write_bytes(chunk)
    return array.parent


def _zarr_pickle(where):
    """A codec that unpickles what it is given, in each place where one may stand."""

    def case(path):
        trap = path.with_name("sprung")
        metadata = {"filters": [{"id": "pickle"}]} if where == "filter" else {}
        if where == "compressor":
            metadata = {"compressor": {"id": "pickle", "protocol": 4}}
        if where == "object":
            metadata = {"dtype": "|O", "filters": [{"id": "pickle"}]}
        store = _zarr_v2(path, metadata, pickle.dumps(Trap(trap), 4))
        return store, lambda: read_shards(store), lambda found: False

    return case


def zarr_two_faces(path):
    """Metadata of both versions: the one that is looked at is not the one that is used."""
    store = _zarr_v2(path, {}, bytes(16))
    (store / "n00000001" / "zarr.json").write_text(
        json.dumps(
            {
                "zarr_format": 3, "node_type": "array", "shape": [2, 2], "data_type": "float32",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
                "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "attributes": {},
                "codecs": [{"name": "numcodecs.pickle"}],
            }
        )
    )  # fmt: skip
    inner = store / "n00000001"
    return store, lambda: list(FeatureBlocks.open(inner)), never


def zarr_huge_chunk(path):
    store = _zarr_v2(
        path,
        {"chunks": [16_384, 16_384], "compressor": {"id": "zlib", "level": 9}},
        zlib.compress(bytes(16_384 * 16_384)),
    )
    return store, lambda: read_shards(store), never


def zarr_fill_value(path):
    store = _zarr_v2(path, {"shape": [10**9, 64], "chunks": [1000, 64]})
    return store, lambda: read_shards(store), never


def zarr_chunk_that_swells(path):
    """A chunk of a few numbers that unpacks to hundreds of megabytes."""
    store = _zarr_v2(path, {"compressor": {"id": "zlib", "level": 9}}, zlib.compress(bytes(2**28)))
    return store, lambda: read_shards(store), never


_FUNCTIONS = (
    words_stream_damaged, words_of_digits, words_without_numbers, words_pickled,
    wordnet_of_minus_words, wordnet_twice, npy_of_nothing, h5_huge_chunk, h5_fill_value,
    h5_other_file, parquet_of_equal_rows, zarr_two_faces, zarr_huge_chunk, zarr_fill_value,
    zarr_chunk_that_swells,
)  # fmt: skip
HOSTILE = {case.__name__: case for case in _FUNCTIONS} | {
    "zarr_pickle_filter": _zarr_pickle("filter"),
    "zarr_pickle_compressor": _zarr_pickle("compressor"),
    "zarr_pickle_object": _zarr_pickle("object"),
}


def case(kind, seed, folder):
    """The case of a kind; what it writes besides its file lies in the same folder."""
    if kind in DAMAGED:
        rng = np.random.default_rng([seed, list(DAMAGED).index(kind), 7])
        return DAMAGED[kind](rng, folder / "case")
    return HOSTILE[kind](folder / "case")


def has_sprung(folder):
    """Whether reading a file executed its code."""
    return (folder / "sprung").exists()
