"""Reads damaged and hostile files under a memory limit, many in one process.

Run as a script it takes lines ``kind seed`` from its input and answers each with one JSON line:
`outcome` is "read", "refused" or "fault". `kind` is one of FORMATS, or the name of a case in
``reader_corpus.py``. It only uses what users call, so that it also runs against other versions.
"""

from __future__ import annotations

import csv
import ctypes
import gc
import io
import json
import resource
import struct
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io

from zslearn.datasets import load_table
from zslearn.datasets._mat import read_mat

#: What reading a file may take: a multiple of its size, and an amount beside it.
MULTIPLE, BESIDE = 64, 64 * 2**20
#: Page tables, caches of the allocator and the like.
SLACK = 24 * 2**20

X = np.round(np.random.default_rng(0).normal(size=(12, 3)), 3)
Y = np.repeat(["ant", "bee", "cat"], 4)
CLASSES = pd.DataFrame({"legs": [6, 6, 4], "wings": [0.5, 4, 0]}, index=["ant", "bee", "cat"])
VARIABLES = {
    "features": X.T,
    "labels": np.arange(1.0, 13)[:, None],
    "names": np.array(["ant", "bée", "", "d" * 30], dtype=object)[:, None],
    "text": "größer",
}
FORMATS = ("v5", "v7", "v7.3", "npy", "npz", "csv", "labels", "classes", "unseen", "parquet")

# ------------------------------------------------------------------------------------ whole files


def v5_elements(rng=None):
    """The variables as uncompressed elements; with a generator, damaged inside."""
    file = io.BytesIO()
    scipy.io.savemat(file, VARIABLES)
    data = file.getvalue()
    at = 128
    while at < len(data):
        (length,) = struct.unpack("<I", data[at + 4 : at + 8])
        element = data[at : at + 8 + length]
        yield mutate(element, rng) if rng is not None and rng.random() < 0.5 else element
        at += 8 + length


def mat_file(elements, *, compressed):
    parts = [b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"]
    for element in elements:
        if compressed:
            packed = zlib.compress(element)
            parts.append(struct.pack("<II", 15, len(packed)) + packed)
        else:
            parts.append(element)
    return b"".join(parts)


def hdf5_file(path, rng):
    import h5py

    options = [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}]
    options += [{"fletcher32": True, "chunks": (2, 2)}, {"compression": "lzf"}]
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("features", data=X, **options[rng.integers(5)])
        file.create_dataset("labels", data=np.arange(1.0, 13)[None], **options[rng.integers(3)])
        refs = np.empty((1, 2), dtype=h5py.ref_dtype)
        for i, word in enumerate(("ant", "bée")):
            codes = np.array([ord(letter) for letter in word], dtype="u2")[:, None]
            item = file.create_dataset(f"#refs#/{i}", data=codes)
            item.attrs["MATLAB_class"] = np.bytes_(b"char")
            refs[0, i] = item.ref
        file.create_dataset("names", data=refs).attrs["MATLAB_class"] = np.bytes_(b"cell")


def npy_bytes():
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def npz_bytes(rng):
    import zipfile

    file = io.BytesIO()
    member = mutate(npy_bytes(), rng) if rng.random() < 0.4 else npy_bytes()
    how = zipfile.ZIP_DEFLATED if rng.random() < 0.7 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr("X.npy", member)
        if rng.random() < 0.3:
            archive.writestr("other.npy", npy_bytes())
    return file.getvalue(), member == npy_bytes()


TABLES = {
    "csv": pd.DataFrame(X, columns=["a", "b", "c"]).assign(species=Y),
    "labels": pd.DataFrame({"species": Y, "note": np.arange(12)}),
    "classes": CLASSES.reset_index(names="species"),
    "unseen": pd.DataFrame({"cat": ["bee"]}),
}


# -------------------------------------------------------------------------------------- damage

_WORDS = [0, 1, 2, 7, 127, 128, 255, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40]
_WORDS += [2**63 - 1, 2**63, 2**64 - 1]
_TEXTS = [
    ",", "\n", "\r", '"', '""', "\ufeff", "\0", "e\u0301", "\u00e9", "1e999", "--1", "-0", "7", "-",
    "e5", ".", "ant", "12345678901234567890", "nan", " ", "\t", "\n\n", ",\n", "'", "\\",
    "9" * 5000, "\u2028",
]  # fmt: skip


def mutate(data, rng, *, text=False):
    """The bytes with one damage or a few."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = _place(len(data), rng)
        length = int(rng.integers(1, max(2, min(len(data), 64))))
        damage = rng.integers(24 if text else 8)
        if damage == 0 and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif damage == 1 and data:
            data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
        elif damage == 2:  # a length or an offset that is not so
            word = struct.pack(rng.choice(["<Q", ">Q"]), _WORDS[rng.integers(len(_WORDS))])
            width = int(rng.choice([2, 4, 8]))
            at -= at % width
            word = word[:width] if rng.random() < 0.5 else word[-width:]
            data[at : at + width] = word
        elif damage == 3:
            del data[at:]
        elif damage == 4:
            del data[at : at + length]
        elif damage == 5:  # a piece from elsewhere
            other = _place(len(data), rng)
            data[at : at + length] = data[other : other + length]
        elif damage == 6:
            other = _place(len(data), rng)
            data[at:at] = data[other : other + length]
        elif damage == 7:
            data += bytes(rng.integers(0, 256, length, dtype=np.uint8))
        else:
            data[at:at] = _TEXTS[rng.integers(len(_TEXTS))].encode()
    return bytes(data)


def _place(size, rng):
    """A place in a file; headers and directories, at its ends, more often than the rest."""
    if not size:
        return 0
    end = rng.random()
    if end < 0.3:
        return int(rng.integers(min(size, 256)))
    if end > 0.8:
        return size - 1 - int(rng.integers(min(size, 160)))
    return int(rng.integers(size))


# --------------------------------------------------------------------------------------- cases


def damaged_case(kind, seed, folder):
    """Write a damaged file; return it, what reads it, and what must hold of the result."""
    rng = np.random.default_rng([seed, FORMATS.index(kind)])
    if kind in ("v5", "v7", "v7.3"):
        return _mat_case(kind, rng, folder / "case.mat")
    path = folder / ("case.txt" if kind == "unseen" else f"case.{kind}")
    if kind == "npy":
        path.write_bytes(mutate(npy_bytes(), rng))
        return path, lambda: from_array(path), lambda data: data.X.nbytes <= path.stat().st_size
    if kind == "npz":
        data, whole = npz_bytes(rng)
        path.write_bytes(mutate(data, rng))
        return path, lambda: from_array(path), lambda d: not whole or np.array_equal(d.X, X)
    if kind == "parquet":
        part = ("csv", "labels", "classes")[rng.integers(3)]
        file = io.BytesIO()
        codec = ("snappy", "zstd", "gzip", None)[rng.integers(4)]
        TABLES[part].to_parquet(
            file, compression=codec, use_dictionary=bool(rng.integers(2)), row_group_size=5
        )
        path.write_bytes(mutate(file.getvalue(), rng))
        return path, lambda: from_table(part, path), lambda data: data.X.shape == X.shape
    path = path.with_suffix(".txt" if kind == "unseen" else ".csv")
    text = TABLES[kind].to_csv(index=False)
    path.write_bytes(mutate(text.encode(), rng, text=True))
    return path, lambda: from_table(kind, path), lambda data: as_in_text(kind, path, data)


def _mat_case(kind, rng, path):
    names = [*VARIABLES, "absent"]
    inside = kind == "v7" and rng.random() < 0.5
    if kind == "v7.3":
        hdf5_file(path, rng)
        path.write_bytes(mutate(path.read_bytes(), rng))
    elif inside:  # damage that no checksum shows
        path.write_bytes(mat_file(v5_elements(rng), compressed=True))
    else:
        path.write_bytes(mutate(mat_file(v5_elements(), compressed=kind == "v7"), rng))
    proven = kind == "v7" and not inside
    return path, lambda: read_mat(path, names), lambda found: not proven or as_written(found)


def as_written(found):
    """Whether variables are what was written; zlib's checksums leave no doubt."""
    names = [str(name) for name in VARIABLES["names"].ravel()]
    for key, value in found.items():
        expected = names if key == "names" else VARIABLES[key]
        if key == "names":
            value = ["" if isinstance(v, np.ndarray) else v for v in value]
        if not np.array_equal(value, expected):
            return False
    return True


def from_array(path):
    return load_table(path, Y, CLASSES, unseen_classes=["cat"])


def from_table(kind, path):
    table = TABLES["csv"]
    if kind == "csv":
        return load_table(path, None, CLASSES, label="species", unseen_classes=["cat"])
    if kind == "labels":
        return load_table(X, path, CLASSES, label="species", unseen_classes=["cat"], name="case")
    signatures = path if kind == "classes" else CLASSES
    unseen = path if kind == "unseen" else ["cat"]
    options = {"label": "species", "unseen_classes": unseen, "name": "case"}
    return load_table(table, None, signatures, **options)


def as_in_text(kind, path, data):
    """Whether a data set holds what its text says, read in the plainest way."""
    text = path.read_bytes().decode("utf-8-sig")
    if '"' in text:
        return True  # what quotes mean is left to the parser
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [line for line in lines if line.strip(" \t")]
    if kind == "unseen":
        return sorted(data.unseen_classes) == sorted({line.strip() for line in lines} - {""})
    rows = list(csv.reader(lines[1:]))
    header = lines[0].split(",")
    column = header.index("species") if "species" in header else 0
    names = [row[column] for row in rows]
    if kind == "labels":
        return names == data.y.astype(str).tolist()
    cells = [[c for i, c in enumerate(row) if i != column] for row in rows]
    numbers = pd.DataFrame(cells).apply(pd.to_numeric, errors="coerce").to_numpy(float)
    found, labels = (data.X, data.y) if kind == "csv" else (data.signatures, data.signatures.index)
    found, known = np.asarray(found, float), np.isfinite(numbers)
    if not known.all():
        # The median replaces what is missing, and a column of text is dropped or has levels.
        same = bool(np.isfinite(found).all())
        if found.shape == numbers.shape:
            kept = known & known.all(axis=0)
            same = same and np.allclose(found[kept], numbers[kept], rtol=1e-14, atol=0)
    else:
        same = np.allclose(found, numbers, rtol=1e-14, atol=0)
    # Spaces around labels and their case do not count.
    return same and [n.strip().casefold() for n in names] == [str(n).casefold() for n in labels]


# ------------------------------------------------------------------------------------- watching


def in_use():
    """Memory in use, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_memory():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    raise OSError("there is no VmHWM")


def reset_peak():
    if in_use() > AT_START + SLACK // 2:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # else memory that stands free would hide what is taken
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


AT_START = in_use() if Path("/proc/self/statm").exists() else 0


def watched(path, read, holds, allowed=None):
    """Read a file; say how it went."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    allowed = MULTIPLE * size + BESIDE if allowed is None else allowed
    reset_peak()
    before = peak_memory()
    result, message = None, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = read()
    except (ValueError, OSError) as error:
        message = str(error)
        if path.stem not in message:
            return "fault", f"the message does not name the file: {message[:300]}"
        if len(message) > 20_000:
            return "fault", f"a message of {len(message)} characters: {message[:300]}"
    except BaseException as error:
        return "fault", f"{type(error).__name__}: {str(error)[:300]}"
    taken = peak_memory() - before
    if taken > allowed + SLACK:
        return "fault", f"{taken >> 20} MiB of memory for a file of {size} bytes; {message[:300]}"
    if message:
        return "refused", message
    return ("read", "") if holds(result) else ("fault", "what was read is not what was written")


def answer(kind, seed):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind in FORMATS:
            return watched(*damaged_case(kind, seed, folder))
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from fuzz import other_files, reader_corpus

        if kind in other_files.DAMAGED or kind in other_files.HOSTILE:
            said = watched(*other_files.case(kind, seed, folder))
            return ("fault", "the file ran code") if other_files.has_sprung(folder) else said
        return watched(*reader_corpus.CASES[kind](folder))


def main():
    # Far above what is promised: it keeps a fault from taking the whole machine.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 3 * 2**30, resource.RLIM_INFINITY))
    gc.freeze()
    for line in sys.stdin:
        kind, seed = line.split()
        try:
            outcome, detail = answer(kind, int(seed))
        except Exception as error:
            outcome, detail = "broken", f"the test itself: {type(error).__name__}: {error}"
        print(json.dumps({"outcome": outcome, "detail": detail}), flush=True)


if __name__ == "__main__":
    main()
