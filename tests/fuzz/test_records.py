"""Records and checkpoints that are damaged, edited or made up.

What must hold in every case: nothing but a warning; a file that is not as it was written shows no
number; and a run that meets it computes the same as without it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from fuzz.reader_worker import mutate
from report_records import records_in
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.experiments import (
    read_failures,
    read_records,
    run_benchmark,
    summarize_runs,
    write_record,
)
from zslearn.model_selection import ZeroShotSearchCV

GRID = {"alpha_features": [0.1, 1.0, 10.0]}
DEEP = 100_000

# Values that a record or a checkpoint holds nowhere, as JSON.
STRANGE = [
    "null", "true", "-1", "2", "9.0", "0.5", "1e999", "-1e999", "NaN", "1e-320", "9" * 400,
    "9" * 5000, '""', '"0.5"', '"\\u0000"', '"\\ud800"', '"\\u001b[2J"', '"' + "x" * 10_000 + '"',
    "[]", "{}", "[[[[]]]]", '{"a": [1]}', '{"": {"": {}}}', "[" * 900 + "]" * 900,
]  # fmt: skip


def benchmark(tiny, folder):
    return run_benchmark(tiny, ["ESZSL"], folder, n_splits=2)


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """A folder of sound records: a conventional run, a generalized one, and one that failed."""
    folder = tmp_path_factory.mktemp("records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ESZSL.grids, "fast", GRID)
        paths = benchmark(tiny, folder)
    record = json.loads(paths[0].read_text()) | {"method": "SAE", "metrics": {}}
    failed = {"type": "ValueError", "reason": "no", "traceback": "line 1\nline 2"}
    write_record(record | {"failed": failed}, folder / "failed.json")
    return folder


def damaged(rng, data):
    """The bytes of a file after an accident, or an edit by hand."""
    kind = rng.random()
    if kind < 0.7:
        return mutate(data, rng, text=True)
    if kind < 0.85:
        opening = rng.choice(["[", '{"a":', '{"schema":', "[[{"])
        return data[: int(rng.integers(len(data))) * rng.integers(2)] + opening.encode() * DEEP
    return edited(rng, data)


def edited(rng, data):
    """JSON in which one value or two are others; perhaps in another encoding or order."""
    content = json.loads(data)
    for _ in range(rng.integers(1, 3)):
        parent, key = random_place(rng, content)
        if rng.random() < 0.3 and isinstance(parent, dict):
            value = parent.pop(key)
            if rng.random() < 0.5:
                parent[str(rng.choice(["", "\u001b[2J", key + " ", "schema", "9" * 50]))] = value
        else:
            parent[key] = "@@@"
    text = json.dumps(content, indent=[None, 3][rng.integers(2)])
    while '"@@@"' in text:
        text = text.replace('"@@@"', str(rng.choice(STRANGE)), 1)
    return text.encode(str(rng.choice(["utf-8", "utf-16", "utf-8-sig"], p=[0.8, 0.1, 0.1])))


def random_place(rng, content):
    """A container inside of some JSON, and a key or index in it."""
    parent = content
    key = str(rng.choice(sorted(parent)))
    while isinstance(parent[key], (dict, list)) and len(parent[key]) and rng.random() < 0.7:
        parent = parent[key]
        key = str(rng.choice(sorted(parent))) if isinstance(parent, dict) else 0
        if isinstance(parent, list):
            key = int(rng.integers(len(parent)))
    return parent, key


def signed(data):
    """The same JSON with the checksum that belongs to it, by the documented rule."""
    try:
        content = json.loads(data)
        plain = {name: value for name, value in content.items() if name != "checksum"}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return json.dumps(
            plain | {"checksum": hashlib.sha256(text.encode("ascii")).hexdigest()}
        ).encode()
    except (ValueError, AttributeError, RecursionError):
        return data


def rows_by_file(frame):
    return {
        name: rows.drop(columns="file").to_dict("records") for name, rows in frame.groupby("file")
    }


def read_all(folder):
    """The results of the readers, and the files they warn about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records, failed = read_records(folder), read_failures(folder)
    assert all(warning.category is InputWarning for warning in caught)
    return records, failed, [str(warning.message) for warning in caught]


@pytest.mark.slow
def test_damaged_records(cases, whole, tmp_path):
    """Numbers are those that were written, or there are none and a warning names the file."""
    folder = tmp_path / "records"
    shutil.copytree(whole, folder)
    sound = [rows_by_file(frame) for frame in read_all(whole)[:2]]
    files = sorted(folder.glob("*.json"))
    for seed in cases(250):
        rng = np.random.default_rng(seed)
        path = files[rng.integers(len(files))]
        original = path.read_bytes()
        path.write_bytes(damaged(rng, original))
        *frames, messages = read_all(folder)
        for frame, expected in zip(frames, sound, strict=True):
            found = rows_by_file(frame)
            if messages:
                assert path.name not in found
                assert found == {n: rows for n, rows in expected.items() if n != path.name}
            else:
                assert found == expected
        assert len(messages) in (0, 2)
        assert all(f"Skipped {path}: " in message for message in messages)
        assert all("\n" not in m and "\u001b" not in m and len(m) < 600 for m in messages)
        summarize_runs(frames[0])
        path.write_bytes(original)


@pytest.mark.slow
def test_made_up_records(cases, whole, tmp_path):
    """With a right checksum: what a table shows is text that is safe, and numbers in range."""
    folder = tmp_path / "records"
    shutil.copytree(whole, folder)
    files = sorted(folder.glob("*.json"))
    for seed in cases(250):
        rng = np.random.default_rng(seed)
        path = files[rng.integers(len(files))]
        original = path.read_bytes()
        path.write_bytes(signed(edited(rng, original)))
        records, failed, messages = read_all(folder)
        assert all(m.isprintable() and len(m) < 600 for m in messages)
        assert records["value"].map(lambda value: type(value) is float).all()
        assert np.isfinite(records["value"]).all()
        shares = records["metric"].str.contains("accuracy|ausuc|seen|harmonic")
        assert records["value"][shares].between(-1e-9, 1 + 1e-9).all()
        for frame in (records, failed):
            for name in ("dataset", "method", "setting", "protocol"):
                assert all(map(str.isprintable, frame[name]))
        assert all(map(str.isprintable, failed["reason"]))
        summarize_runs(records)
        path.write_bytes(original)


@pytest.mark.slow
def test_runs_over_damaged_records(cases, tiny, whole, tmp_path, monkeypatch):
    """A run computes again what it cannot trust, and ends with the same records."""
    monkeypatch.setitem(ESZSL.grids, "fast", GRID)
    expected = records_in(whole)
    folder = tmp_path / "records"
    shutil.copytree(whole, folder)
    (folder / "failed.json").unlink()
    del expected["failed.json"]
    files = sorted(folder.glob("*.json"))
    for seed in cases(60):
        rng = np.random.default_rng(seed)
        path = files[rng.integers(len(files))]
        data = damaged(rng, path.read_bytes())
        # A checksum is no signature: who makes up a record with the right one and the right key
        # is believed, unless it cannot be a record.
        path.write_bytes(data)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InputWarning)
            benchmark(tiny, folder)
        assert records_in(folder) == expected
        warned = [w for w in caught if "will be recomputed" in str(w.message)]
        assert len(warned) <= 1
        assert all(str(path) in str(w.message) for w in warned)


@pytest.mark.slow
def test_damaged_checkpoints(cases, tiny, tmp_path):
    """Scores are those of a search without checkpoints."""
    search = ZeroShotSearchCV(ESZSL(), GRID, cv=2, checkpoint=tmp_path)

    def fit():
        return clone(search).fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)

    expected = fit().cv_results_["mean_test_accuracy"]
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for seed in cases(120):
        rng = np.random.default_rng(seed)
        path = files[rng.integers(len(files))]
        original = path.read_bytes()
        data, is_made_up = damaged(rng, original), rng.random() < 0.3
        if is_made_up:
            data = signed(edited(rng, original))
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            actual = fit().cv_results_["mean_test_accuracy"]
        if is_made_up:
            # Believed where it could have been written; then in its range.
            assert ((actual >= 0) & (actual <= 1) | np.isnan(actual)).all()
        else:
            np.testing.assert_array_equal(actual, expected)
        path.write_bytes(original)
