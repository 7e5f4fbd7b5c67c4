"""Helpers of all benchmarks: timing against a peer in the same run, and a record of it."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console
from rich.table import Table

from zslearn._utils._processes import blas_threads

RESULTS = Path(__file__).parent / "results"
BEGIN = time.perf_counter()
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "array-api-compat")


def seconds(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Shortest wall time of `repeats` calls, and what the last of them gave."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def interleaved(functions: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Shortest processor time of each function, taken in turns.

    All threads of the process count, and what else the machine does counts little: a ratio of two
    of these numbers stands on a busy machine, too.
    """
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def fitted_exponent(sizes: list[float], times: list[float]) -> float:
    """The power of the size that times grow with, by least squares in logarithms."""
    x = [math.log(size) for size in sizes]
    y = [math.log(time_) for time_ in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return slope / sum((a - mean_x) ** 2 for a in x)


class Report:
    """Rows of one benchmark: printed as a table, kept as a JSON record with date and command.

    `part` names what was measured where it is less than the whole.
    """

    def __init__(self, name: str, title: str, part: str | None = None) -> None:
        self.name = name
        self.title = title
        self.part = part
        self.rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        print("  ".join(f"{key}={_shown(value)}" for key, value in row.items()), flush=True)

    def save(self, device: str | None = None) -> Path:
        """Print the table and write it to `results/NAME.json`, whole or not at all.

        What `--quick` measured goes to `results/quick/NAME.json`, and a part of the whole to
        `results/parts/NAME-PART.json`, for `gather.py`: neither takes the place of a record.
        """
        table = Table(title=self.title)
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        for column in columns:
            table.add_column(column)
        for row in self.rows:
            table.add_row(*(_shown(row.get(column, "")) for column in columns))
        Console().print(table)
        record = {
            "title": self.title,
            "date": date.today().isoformat(),
            "command": command(),
            # Of the whole script, with what it loaded and compiled.
            "seconds": round(time.perf_counter() - BEGIN, 1),
            "machine": {
                # Cores that the system, a container or LOKY_MAX_CPU_COUNT allows.
                "cores": joblib.cpu_count(),
                "blas_threads": blas_threads(),
                "processor": _processor(),
                "device": device,
                "python": platform.python_version(),
                **versions(PACKAGES),
            },
            "rows": self.rows,
        }
        if "--quick" in sys.argv:
            return write(RESULTS / "quick" / f"{self.name}.json", record)
        if self.part is not None:
            return write(RESULTS / "parts" / f"{self.name}-{self.part}.json", record)
        return write(RESULTS / f"{self.name}.json", record)


def write(path: Path, record: dict[str, Any]) -> Path:
    """Write a record, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=2) + "\n")
    temporary.replace(path)
    return path


def command() -> str:
    """The command of this process, as one types it in the repository."""
    shown = ["FOLDER" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *shown])


def slug(text: str) -> str:
    """Letters and digits of a text, for a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
