"""Hostile files, each made by a function, that are costly to read without checks.

A function writes its file into a folder and returns the file, what reads it, and what must hold
of the result if it is read at all.
"""

from __future__ import annotations

import struct
import zipfile
import zlib

import numpy as np

from fuzz.reader_worker import X, from_array, from_table, mat_file, npy_bytes
from zslearn.datasets._mat import read_mat

MIB = 2**20


def never(result):
    """A file that must not be read."""
    return False


def zeros(n_bytes, level=9):
    """Deflated zeros."""
    stream = zlib.compressobj(level)
    parts = [stream.compress(bytes(MIB)) for _ in range(n_bytes // MIB)]
    return b"".join([*parts, stream.flush()])


def noise(n_bytes):
    """Padding that makes a file large, and thereby its limit high."""
    return np.random.default_rng(0).integers(0, 256, n_bytes, dtype=np.uint8)


# --------------------------------------------------------------------------- MATLAB, version 7


def element(code, data):
    return struct.pack("<II", code, len(data)) + data + bytes(-len(data) % 8)


def matrix(kind, shape, body, name=b"x"):
    inside = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack("<2i", *shape))
    inside += element(1, name) + body
    return struct.pack("<II", 14, len(inside)) + inside


def v7(folder, content):
    path = folder / "case.mat"
    path.write_bytes(mat_file([content], compressed=True))
    return path, lambda: read_mat(path, {"x"}), never


def v7_empty_members(folder):
    return v7(folder, matrix(1, (1_500_000, 1), struct.pack("<II", 14, 0) * 1_500_000))


def v7_zeros(folder):
    return v7(folder, matrix(6, (20 * MIB, 1), element(9, bytes(160 * MIB))))


def v7_bytes_as_doubles(folder):
    return v7(folder, matrix(6, (40 * MIB, 1), element(2, bytes(40 * MIB))))


def v7_rows_of_text(folder):
    return v7(folder, matrix(4, (4_000_000, 2), element(16, b"ab" * 4_000_000)))


# ------------------------------------------------------------------------- MATLAB, version 7.3


def v73(folder, write):
    import h5py

    path = folder / "case.mat"
    with h5py.File(path, "w") as file:
        write(h5py, file)
    return path, lambda: read_mat(path, {"x"}), never


def _low_level(h5py, file, shape, chunk, filters):
    """A chunked array of doubles, with filters that h5py itself would not set."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk(chunk)
    for name in filters:
        getattr(plan, f"set_{name}")(*([9] if name == "deflate" else []))
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
    return h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F64LE, space, plan)


def v73_huge_chunk(folder):
    def write(h5py, file):
        item = _low_level(h5py, file, (1, 1), (8192, 2560), ["deflate"])
        item.write_direct_chunk((0, 0), zeros(160 * MIB))

    return v73(folder, write)


def v73_deflated_twice(folder):
    def write(h5py, file):
        item = _low_level(h5py, file, (1, 1), (8192, 2560), ["deflate", "deflate"])
        item.write_direct_chunk((0, 0), zlib.compress(zeros(160 * MIB)))

    return v73(folder, write)


def v73_chunk_longer_than_declared(folder):
    def write(h5py, file):
        item = _low_level(h5py, file, (8, 8), (8, 8), ["deflate"])
        item.write_direct_chunk((0, 0), zeros(160 * MIB))

    return v73(folder, write)


def v73_twelve_references(folder):
    def write(h5py, file):
        one = file.create_dataset(
            "one", (5 * MIB,), "f8", data=np.zeros(5 * MIB), chunks=(MIB // 8,), compression="gzip"
        )
        refs = np.empty((12, 1), dtype=h5py.ref_dtype)
        refs[:, 0] = one.ref
        file.create_dataset("x", data=refs).attrs["MATLAB_class"] = np.bytes_(b"cell")

    return v73(folder, write)


def v73_many_references(folder):
    def write(h5py, file):
        one = file.create_dataset("one", data=np.zeros((1, 1)))
        refs = np.empty((300_000, 1), dtype=h5py.ref_dtype)
        refs[:, 0] = one.ref
        cell = file.create_dataset("x", data=refs, compression="gzip", chunks=(10_000, 1))
        cell.attrs["MATLAB_class"] = np.bytes_(b"cell")

    return v73(folder, write)


def v73_fill_value(folder):
    def write(h5py, file):
        file.create_dataset("other", data=noise(MIB // 2))
        file.create_dataset("x", (60 * MIB,), "f8", chunks=(MIB,), fillvalue=7.0)

    return v73(folder, write)


def v73_tiny_chunks(folder):
    def write(h5py, file):
        file.create_dataset("other", data=noise(2**16))
        file.create_dataset("x", (500_000,), "f8", chunks=(1,), fillvalue=7.0)

    return v73(folder, write)


def v73_size_that_overflows(folder):
    def write(h5py, file):
        file.create_dataset("x", (2**32, 2**32), "f8", chunks=(4, 4))

    return v73(folder, write)


# ------------------------------------------------------------------------------------- NumPy


def array_file(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path, lambda: from_array(path), never


def npy_header(header):
    header = header.encode("latin-1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def _npy(header):
    return lambda folder: array_file(folder, "case.npy", npy_header(header) + X.tobytes())


def _npz(member=None, **changes):
    def case(folder):
        path = folder / "case.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", npy_bytes() if member is None else member())
        data = bytearray(path.read_bytes())
        directory = data.rindex(b"PK\x01\x02")
        for at, value in changes.items():
            data[int(at[1:])] = data[directory + int(at[1:]) + 2] = value
        path.write_bytes(data)
        return path, lambda: from_array(path), never

    return case


def npz_zeros(folder):
    path = folder / "case.npz"
    n_values = 20 * MIB
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("X.npy", "w") as member,
    ):
        member.write(npy_header(_claims(f"({n_values // 4}, 4)")))
        for _ in range(8 * n_values // MIB):
            member.write(bytes(MIB))
    return path, lambda: from_array(path), never


def npz_bad_stream(folder):
    path, *rest = _npz()(folder)
    data = bytearray(path.read_bytes())
    data[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    return path, *rest


def _claims(shape, descr="<f8"):
    return f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"


# ------------------------------------------------------------------------------------- tables


def _csv(text, kind="csv"):
    def case(folder):
        path = folder / "case.csv"
        path.write_text(text)
        return path, lambda: from_table(kind, path), never

    return case


def csv_columns(folder):
    return _csv("species" + "," * 150_000 + "\nant" + "," * 150_000 + "\n")(folder)


def csv_repeated_header(folder):
    return _csv("species" + ",a" * 60_000 + "\nant" + ",1" * 60_000 + "\n")(folder)


def parquet(folder, table, **options):
    import pyarrow.parquet

    path = folder / "case.parquet"
    pyarrow.parquet.write_table(table, path, **options)
    return path, lambda: from_table("csv", path), never


def parquet_runs(folder):
    import pyarrow

    column = pyarrow.array(np.zeros(20 * MIB))
    return parquet(folder, pyarrow.table({"a": column}), row_group_size=20 * MIB)


def parquet_long_string(folder):
    import pyarrow

    codes = pyarrow.array(np.zeros(3000, dtype=np.int32))
    words = pyarrow.DictionaryArray.from_arrays(codes, ["a" * 200_000])
    return parquet(folder, pyarrow.table({"species": words, "a": np.zeros(3000)}))


def parquet_page(folder):
    import pyarrow

    values = pyarrow.array(np.zeros(12 * MIB, dtype=np.int64))
    return parquet(
        folder,
        pyarrow.table({"a": values}),
        use_dictionary=False,
        compression="zstd",
        data_page_size=2**30,
    )


_FUNCTIONS = (
    v7_empty_members, v7_zeros, v7_bytes_as_doubles, v7_rows_of_text, v73_huge_chunk,
    v73_deflated_twice, v73_chunk_longer_than_declared, v73_twelve_references,
    v73_many_references, v73_fill_value, v73_tiny_chunks, v73_size_that_overflows, npz_zeros,
    npz_bad_stream, csv_columns, csv_repeated_header, parquet_runs, parquet_long_string,
    parquet_page,
)  # fmt: skip
CASES = {case.__name__: case for case in _FUNCTIONS} | {
    "npy_no_end": _npy("{'descr': '<f8', 'shape': (1, ("),
    "npy_overflow": _npy(_claims("(99999999999999999999, 3)")),
    "npy_negative": _npy(_claims("(-12, -3)")),
    "npy_truth": _npy(_claims("(12, 3, )", "O")),
    "npy_no_width": _npy(_claims("(1000000000000, 3)", "<U0")),
    "npy_nested": _npy("(" * 100),
    "npy_text": _npy("{'descr': [('a', 'b', 'c', 'd')], 'fortran_order': 3, 'shape': 'x', }"),
    "npz_claims": _npz(lambda: npy_header(_claims("(1000000000, 8)")) + X.tobytes()),
    "npz_no_end": _npz(lambda: npy_header("{'descr': '<f8', 'shape': (1, (")),
    "npz_unknown_compression": _npz(_8=99),
    "npz_lzma": _npz(_8=14),
    "npz_encrypted": _npz(_6=1),
    "csv_long_field": _csv("species,a\nant," + "9" * 200_000 + "\n"),
    "csv_open_quote": _csv('species,a\nant,"1\n' + "ant,1\n" * 30_000),
    "csv_digits": _csv("species,a\n" + "9" * 5000 + ",1\n" + "8" * 20 + ",2\n"),
}
