"""Model files to damage, and ways to damage them: with a checksum that is then wrong, or right."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from zslearn import persistence
from zslearn.baselines import DAP, ESZSL, HAT, SSE, CMTStar, LatEm
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ClassKFold, ZeroShotPipeline, ZeroShotSearchCV
from zslearn.networks import GeneratedFeatures
from zslearn.persistence._container import DTYPES
from zslearn.signatures import MultiSignatures, cluster_hierarchy
from zslearn.synthesis import EXEM, GaussianEXEM, SynC


def problem():
    return make_zero_shot(
        n_seen=6, n_unseen=3, n_features=7, n_attributes=5, samples_per_class=8, random_state=2
    )


def models() -> Iterator[tuple[str, Any]]:
    """Fitted models that hold every kind of thing a file can."""
    data = problem()
    pairs = cluster_hierarchy(data.signatures, n_levels=2)
    tree = dict(zip(pairs["child"], pairs["parent"], strict=True))
    both = {"a": data.signatures.iloc[:, :2], "b": data.signatures.iloc[:, 2:]}
    steps = [("scale", StandardScaler()), ("pca", PCA(5)), ("method", ESZSL())]
    ridge = make_pipeline(Normalizer(), KernelRidge(kernel="rbf"))
    search = ZeroShotSearchCV(
        CalibratedStacking(ESZSL(), bias=0.1, temperature=1.0),
        {"estimator__alpha_features": [1.0, 10.0]},
        cv=ClassKFold(2, random_state=np.random.RandomState(0)),
    )
    for name, model, signatures in [
        ("EXEM", EXEM(n_components=4), data.signatures),
        ("EXEM views", EXEM(n_components=4, regressor="krr"), MultiSignatures(both)),
        ("EXEM gp", EXEM(n_components=2, regressor="gp"), data.signatures),
        ("EXEM ridge", EXEM(n_components=2, regressor=ridge), data.signatures),
        ("EXEM SynC", EXEM(n_components=4, estimator=SynC()), data.signatures),
        ("GaussianEXEM", GaussianEXEM(n_components=4), data.signatures),
        ("SynC", SynC(), data.signatures),
        ("HAT", HAT(hierarchy=tree), data.signatures),
        ("HAT frame", HAT(hierarchy=cluster_hierarchy(data.signatures)), data.signatures),
        ("LatEm", LatEm(max_iter=5), data.signatures),
        ("SSE", SSE(max_iter=1), data.signatures),
        ("CMTStar", CMTStar(max_iter=5), data.signatures),
        ("DAP", DAP(), data.signatures),
        (
            "generated features",
            GeneratedFeatures(n_generated=5, classifier="mean"),
            data.signatures,
        ),
        ("pipeline", ZeroShotPipeline(steps), data.signatures),
        ("search", search, data.signatures),
    ]:
        yield name, model.fit(data.X_train, data.y_train, signatures=signatures)


class Parts(NamedTuple):
    """A model file in parts that can be changed."""

    content: Any
    table: dict[str, Any]
    data: bytes

    def array(self, name: str) -> Any:
        """A copy of an array."""
        said = self.table[name]
        begin, end = said["data_offsets"]
        array = np.frombuffer(self.data[begin:end], DTYPES[said["dtype"]])
        return array.reshape(said["shape"]).copy()

    def with_array(self, name: str, array: Any) -> Parts:
        """The same file with another array in the place of one, laid out as it must be."""
        arrays = {n: self.data[slice(*said["data_offsets"])] for n, said in self.table.items()}
        arrays[name] = np.ascontiguousarray(array).tobytes()
        table, at = copy.deepcopy(self.table), 0
        kind = next(kind for kind, dtype in DTYPES.items() if dtype == array.dtype)
        table[name].update(dtype=kind, shape=list(array.shape))
        for n in table:
            table[n]["data_offsets"] = [at, at + len(arrays[n])]
            at += len(arrays[n])
        return Parts(self.content, table, b"".join(arrays[n] for n in table))


def take_apart(file: bytes) -> Parts:
    length = int.from_bytes(file[:8], "little")
    table = json.loads(file[8 : 8 + length])
    content = json.loads(table.pop("__metadata__")["zslearn"])
    del content["sha256"]
    return Parts(content, table, file[8 + length :])


def put_together(parts: Parts, *, text: str | None = None, table: str | None = None) -> bytes:
    """A file with a right checksum, whatever it says; texts replace what JSON would be."""
    text = json.dumps(parts.content) if text is None else text
    try:
        content = json.dumps(json.loads(text), separators=(",", ":"))
    except (ValueError, RecursionError):
        content = text
    digest = _digest(content, parts)
    text = f'{{"sha256":"{digest}"' + ("," if text[1:2] != "}" else "") + text[1:]
    rest = json.dumps(parts.table, separators=(",", ":"))[1:-1] if table is None else table
    head = json.dumps({"zslearn": text}, separators=(",", ":"))
    header = f'{{"__metadata__":{head}{"," if rest else ""}{rest}}}'.encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + parts.data


def _digest(text: str, parts: Parts) -> str:
    """The digest that a file should have; of a table that cannot be, whatever it is."""
    digest = hashlib.sha256(text.encode())
    for name, said in sorted(parts.table.items()):
        try:
            dtype, shape, (begin, end) = DTYPES[said["dtype"]], said["shape"], said["data_offsets"]
            digest.update(f"\n{name!r} {dtype.str} {tuple(shape)}\n".encode())
            digest.update(parts.data[begin:end])
        except (KeyError, TypeError, ValueError):
            continue
    return digest.hexdigest()


STRANGE: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, 10**40, 1e308, -0.0, 5e-324, "", "l2", "\ud800", "\x00",
    "../../etc/passwd", "__class__", "x" * 5000, [], {}, [[]], [None] * 3, {"": {}}, {"tuple": []},
    {"dict": [[1, 2], [1, 3]]}, {"dict": [[[], 2]]}, {"float": "nan"}, {"float": "inf"},
    {"float": "x"}, {"same": 0}, {"same": 10**6}, {"same": -1}, {"array": "no such"},
    {"object": "os.system"}, {"object": "builtins.eval", "state": {}}, {"object": None},
    {"object": "zslearn.baselines.ESZSL"}, {"object": "zslearn.baselines._eszsl.ESZSL"},
    {"object": "sklearn.pipeline.Pipeline", "parameters": {"steps": [], "memory": "/tmp"}},
    {"object": "sklearn.linear_model.LogisticRegression", "state": {"__class__": 1}},
    {"object": "sklearn.svm.SVR"}, {"object": "sklearn.preprocessing.Normalizer"},
    {"object": "sklearn.linear_model.Ridge", "state": {"coef_": [[1.0]], "intercept_": [[1.0]]}},
    {"function": "os.system"}, {"function": "zslearn.synthesis.exemplar_distance_score"},
    {"function": "zslearn.metrics.ausuc"}, {"range": [0, 10**18]},
    {"slice": [0, None, 0]}, {"set": [[], 1]}, {"frozenset": [1, 1]}, {"dtype": "V100000000"},
    {"dtype": "O"}, {"numpy": "float64"}, {"numpy": "getattr"}, {"scalar": ["float32", 1e300]},
    {"scalar": ["uint8", 300]}, {"objects": [[10**9], [1]]}, {"objects": [[0, 10**18], []]},
    {"objects": [[-1, -1], [None]]},
    {"generator": {"dict": [["bit_generator", "PCG64"]]}}, {"random_state": {"dict": []}},
    {"masked": [{"objects": [[0], []]}, 3]}, {"frame": [[], 1, 2]},
    {"index": [{"objects": [[1], [1]]}, {"array": "x"}]},
]  # fmt: skip


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to everything within a value of JSON."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        yield (*where, key)
        yield from places(item, (*where, key))


def _at(value: Any, where: tuple[Any, ...]) -> Any:
    for key in where:
        value = value[key]
    return value


def hostile(rng: np.random.Generator, parts: Parts) -> bytes:
    """A file made to do harm, with a right checksum; `model_mutations` changes single arrays."""
    try:
        return _hostile(rng, parts)
    # Nested too deep even to be written.
    except RecursionError:
        return put_together(parts, text="[" * 2000 + "]" * 2000)


def _hostile(rng: np.random.Generator, parts: Parts) -> bytes:
    parts = Parts(copy.deepcopy(parts.content), copy.deepcopy(parts.table), parts.data)
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        kind = rng.integers(8)
        if kind < 5:
            _change_content(rng, parts.content)
        elif kind < 7:
            _change_table(rng, parts.table)
        else:
            return _change_text(rng, parts)
    return put_together(parts)


def _change_content(rng: np.random.Generator, content: Any) -> None:
    ways = list(places(content))
    where = ways[rng.integers(len(ways))]
    parent, key = _at(content, where[:-1]), where[-1]
    kind = rng.integers(4)
    if kind == 0:
        parent[key] = copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])
    elif kind == 1:
        parent[key] = copy.deepcopy(_at(content, ways[rng.integers(len(ways))]))
    elif kind == 2 and isinstance(parent, dict):
        parent[str(rng.choice(["x", "coef_", "predict", "_described", "__dict__"]))] = parent[key]
    else:
        deep: Any = parent[key]
        for _ in range(int(rng.choice([5, 60, 150]))):
            deep = {"tuple": [deep]} if rng.random() < 0.5 else [deep]
        parent[key] = deep


def _change_table(rng: np.random.Generator, table: dict[str, Any]) -> None:
    if not table:
        return
    names = list(table)
    name = names[rng.integers(len(names))]
    said, kind = table[name], rng.integers(8)
    # Earlier changes are kept.
    if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
        return
    if not isinstance(said["shape"], list):
        return
    if kind == 0:
        said["shape"] = [said["shape"][::-1], [10**18], [2**63, 0], [-1], [0], [1.0], ["7"], None][
            rng.integers(8)
        ]
    elif kind == 1:
        said["dtype"] = ["F32", "I64", "U64", "U8", "BF16", "O", None, {}][rng.integers(8)]
    elif kind == 2:
        said["data_offsets"] = [[0, 8], [8, 0], [0, 10**15], [-8, 0], [0], "0:8", None][
            rng.integers(7)
        ]
    elif kind == 3:
        other = table[names[rng.integers(len(names))]]
        said["data_offsets"] = other.get("data_offsets") if isinstance(other, dict) else None
    elif kind == 4:
        table[str(rng.choice(["../x", "", "x\x00", "__metadata__ "]))] = table.pop(name)
    elif kind == 5:
        other = names[rng.integers(len(names))]
        table[name], table[other] = table[other], table[name]
    elif kind == 6:
        del table[name]
    else:
        said[str(rng.choice(["strides", "dtype", "shape"]))] = said["shape"]


def _change_text(rng: np.random.Generator, parts: Parts) -> bytes:
    """JSON that no dictionary of Python would give."""
    text = json.dumps(parts.content)
    table = json.dumps(parts.table)[1:-1]
    kind = rng.integers(8)
    if kind == 0:
        return put_together(parts, text=text[:-1] + ',"about":{}}')
    if kind == 1:
        return put_together(parts, table=table + "," + table.partition("},")[0] + "}")
    if kind == 2:
        return put_together(parts, text=text.replace("1.0", "NaN", 1))
    if kind == 3:
        return put_together(parts, text=text.replace("1.0", "1e999", 1))
    if kind == 4:
        depth = int(rng.choice([900, 100_000]))
        return put_together(parts, text="[" * depth + "]" * depth)
    if kind == 5:
        return put_together(parts, table='"x":' + '{"a":' * 50_000 + "1" + "}" * 50_000)
    if kind == 6:
        return put_together(parts, text=text.replace("1.0", "9" * 5000, 1))
    place = int(rng.integers(len(text)))
    return put_together(parts, text=text[:place] + text[place + int(rng.integers(1, 20)) :])


def written(folder: Any) -> dict[str, bytes]:
    """The bytes of a file of each model."""
    files = {}
    for name, model in models():
        path = folder / "model.zsl"
        extras = {"rows": problem().X_train[:3], "names": np.array(["a", "../b"])}
        persistence.save(model, path, about={"backbone": "none", "n": 1.0}, extras=extras)
        files[name] = path.read_bytes()
    return files
