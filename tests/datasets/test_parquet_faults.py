"""Parquet files that are damaged or claim less than they hold."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from zslearn.datasets import read_signature_table

FLIP = """
import sys
from pathlib import Path
from zslearn.datasets import read_signature_table
path, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
raw = path.read_bytes()
damaged = path.with_suffix(".damaged")
for bit in range(first, last):
    content = bytearray(raw)
    content[bit // 8] ^= 1 << bit % 8
    damaged.write_bytes(content)
    try:
        read_signature_table(damaged)
    except ValueError:
        pass
print("done")
"""


def footer_length(raw: bytes) -> int:
    return struct.unpack("<I", raw[-8:-4])[0]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_no_flipped_bit_of_a_footer_ends_the_process(tmp_path):
    """In a separate process, since pyarrow's C++ can abort it."""
    path = tmp_path / "table.parquet"
    pd.DataFrame({"label": ["a", "b"], "x": [1.0, 2.0]}).to_parquet(path)
    raw = path.read_bytes()
    first = 8 * (len(raw) - 8 - footer_length(raw))
    # The schema and the chunks come first, then notes of pandas.
    last = min(first + 8 * 400, 8 * len(raw))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FLIP, path, str(first), str(last)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]


def test_bytes_of_a_fixed_length_are_counted(tmp_path):
    """One value of 100 kB in a dictionary, said 3,000 times, takes 300 MB."""
    path = tmp_path / "table.parquet"
    value = bytes(100_000)
    column = pa.chunked_array([pa.array([value] * 200, pa.binary(len(value)))] * 15)
    pq.write_table(
        pa.table({"a": column}),
        path,
        compression="gzip",
        dictionary_pagesize_limit=10**9,
        store_schema=False,
    )
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match="table.parquet: reading it takes"):
        read_signature_table(path)


def test_a_footer_that_names_fewer_rows_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    n_rows = 1_000_000
    table = pa.table({"a": pa.array(np.zeros(n_rows, dtype=np.int64))})
    pq.write_table(table, path, compression="gzip", row_group_size=n_rows, write_statistics=False)
    raw = path.read_bytes()
    split = len(raw) - 8 - footer_length(raw)
    footer, count = raw[split:-8], varint(n_rows)
    # Ten rows, written as long as the million was.
    few = bytes([varint(10)[0] | 128]) + bytes([128] * (len(count) - 2)) + b"\0"
    path.write_bytes(raw[:split] + footer.replace(count, few, 1) + raw[-8:])
    with pytest.raises(ValueError, match="table.parquet"):
        read_signature_table(path)


def varint(number: int) -> bytes:
    """A whole number as Thrift's compact protocol writes it."""
    number, out = 2 * number, b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
