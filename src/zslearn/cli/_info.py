"""`zslearn info`: a model file, or the installation and the machine for bug reports."""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

from zslearn._version import __version__
from zslearn.cli import _output as out

_TOOLS = ("dev", "docs")
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def _run_info(arguments: argparse.Namespace) -> None:
    """Describe a model file: its method, classes, columns, scaling, date and version.

    Without a model, print versions, threads, device and data sets for a bug report. If one of them
    cannot be determined, its line shows the error.
    """
    if arguments.model is not None:
        _describe(arguments.model)
        return
    lines = {
        "zslearn": __version__,
        "Python": f"{platform.python_version()}, {platform.platform()}",
    }
    missing = partial(_packages, missing=True)
    queries: list[Callable[[], str]] = [_packages, missing, _threads, _device, _data]
    names = ("packages", "missing", "threads", "device", "data")
    for name, query in zip(names, queries, strict=True):
        try:
            lines[name] = query()
        except Exception as error:  # the installation may be broken
            lines[name] = f"{type(error).__name__}: {error}"
    home = str(Path.home())
    for name, text in lines.items():
        shown = " ".join(text.replace(home, "~").split())
        out.result(f"{name + ':':<10}{shown}", **{name: shown})


def _describe(model: Path) -> None:
    """Print the summary of a model file."""
    from zslearn._utils._messages import name_some, plain
    from zslearn.images import summarize_model

    found = summarize_model(model)
    scaling, attributes = found["scaling"], [name for view in found["attributes"] for name in view]
    listed = name_some(found["columns"], 10) if found["columns"] else None
    columns = [f"{found['n_features']} features", found["network"], listed]
    scaled = {"features": scaling["features"], "rows": [scaling["rows"]]}
    scaled |= {"signatures": scaling["signatures"]}
    words = {name: ", ".join(filter(None, how)) for name, how in scaled.items()}
    seen, unseen = found["seen_classes"], found["unseen_classes"]
    lines = {
        "method": " in ".join([found["method"], *found["wrappers"][::-1]]),
        "seen": f"{len(seen)}: {name_some(seen, 10)}",
        "unseen": f"{len(unseen)}: {name_some(unseen, 10)}" if unseen else "0",
        "columns": ", ".join(filter(None, columns)),
        "described": f"{len(attributes)} attributes: {name_some(attributes, 5)}",
        "scaling": "; ".join(f"{name} {how or 'as they are'}" for name, how in words.items()),
        "fitted": found["fitted"] or "unknown",
        "version": found["version"],
    }
    for name, text in lines.items():
        out.result(f"{name + ':':<11}{plain(text)}")
    out.note(**found)


def _packages(*, missing: bool = False) -> str:
    """Installed dependencies with their versions, or missing ones with their extra."""
    found: dict[str, str] = {}
    lacking: dict[str, str] = {}
    for requirement in metadata.requires("zslearn") or []:
        extra = re.search(r"extra\s*==\s*['\"](\w+)", requirement)
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if extra and extra[1] in _TOOLS:
            continue
        try:
            found[name] = f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            lacking.setdefault(name, f"{name} ({extra[1]})" if extra else name)
    return ", ".join(lacking.values()) or "nothing" if missing else ", ".join(found.values())


def _threads() -> str:
    """Available cores, thread pools of libraries, and environment variables."""
    import numpy  # noqa: F401 - loads its BLAS library
    from joblib import cpu_count
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    pools = [
        f"{pool['internal_api']} {pool['version'] or ''} with {pool['num_threads']}"
        for pool in threadpool_info()
    ]
    variables = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return "; ".join([f"{cpu_count()} of {os.cpu_count()} cores", *pools, *variables])


def _device() -> str:
    """The device for networks and tensors."""
    try:
        import torch
    except ImportError:
        return "CPU; torch is not installed"
    if not torch.cuda.is_available():
        return f"CPU; torch {torch.__version__} finds no GPU"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)}; CUDA {torch.version.cuda}"


def _data() -> str:
    """Available data sets, and the folders of data and caches."""
    from zslearn._utils._files import cache_folder
    from zslearn.datasets import XLSA17

    statuses = {name: benchmark.status() for name, benchmark in XLSA17.items()}
    notes = {"yes": "", "no": None}
    found = {name: notes.get(status, f" ({status})") for name, status in statuses.items()}
    names = [f"{name}{note}" for name, note in found.items() if note is not None]
    folder = os.environ.get("ZSLEARN_DATA", "(not set)")
    return f"{', '.join(names) or 'no data set'} in ZSLEARN_DATA={folder}; cache {cache_folder()}"


OPTIONS = {"info": (_run_info, ("model", "MODEL", None, "model file (.zsl)"))}
