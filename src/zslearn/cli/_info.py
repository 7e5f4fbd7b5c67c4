"""`zslearn info`: a model file, or the installation and the machine for bug reports."""

from __future__ import annotations

import argparse
import os
import platform
import re
from importlib import metadata
from pathlib import Path

from zslearn._version import __version__
from zslearn.cli._output import note, result

_TOOLS = ("dev", "docs")
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def _run_info(arguments: argparse.Namespace) -> int:
    """Describe a model file: its method, classes, columns, scaling, date and version.

    Without a model, print versions, threads, device and data sets for a bug report. If one of them
    cannot be determined, its line shows the error.
    """
    if arguments.model is not None:
        return _describe(arguments.model)
    found, missing = _packages()
    lines = {
        "zslearn": __version__,
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "packages": ", ".join(found),
        "missing": ", ".join(missing) or "nothing",
    }
    for name, query in {"threads": _threads, "device": _device, "data": _data}.items():
        try:
            lines[name] = query()
        except Exception as error:  # the installation may be broken
            lines[name] = f"{type(error).__name__}: {error}"
    home = str(Path.home())
    for name, text in lines.items():
        shown = " ".join(text.replace(home, "~").split())
        result(f"{name + ':':<10}{shown}", **{name: shown})
    return 0


def _describe(model: Path) -> int:
    """Print the summary of a model file."""
    from zslearn._utils._messages import name_some, plain
    from zslearn.images import summarize_model

    found = summarize_model(model)
    scaling, attributes = found["scaling"], [name for view in found["attributes"] for name in view]
    columns = [f"{found['n_features']} features"]
    columns += [found["network"]] if found["network"] else []
    columns += [name_some(found["columns"], 10)] if found["columns"] else []
    scaled = {
        "features": ", ".join(scaling["features"]),
        "rows": scaling["rows"],
        "signatures": ", ".join(filter(None, scaling["signatures"])),
    }
    seen, unseen = found["seen_classes"], found["unseen_classes"]
    lines = {
        "method": " in ".join([found["method"], *found["wrappers"][::-1]]),
        "seen": f"{len(seen)}: {name_some(seen, 10)}",
        "unseen": f"{len(unseen)}: {name_some(unseen, 10)}" if unseen else "0",
        "columns": ", ".join(columns),
        "described": f"{len(attributes)} attributes: {name_some(attributes, 5)}",
        "scaling": "; ".join(f"{name} {how or 'as they are'}" for name, how in scaled.items()),
        "fitted": found["fitted"] or "unknown",
        "version": found["version"],
    }
    for name, text in lines.items():
        result(f"{name + ':':<11}{plain(text)}")
    note(**found)
    return 0


def _packages() -> tuple[list[str], list[str]]:
    """Installed dependencies with their versions, and missing ones with their extra."""
    found: dict[str, str] = {}
    missing: dict[str, str] = {}
    try:
        requirements = metadata.requires("zslearn") or []
    except metadata.PackageNotFoundError:
        return ["zslearn is on the path but not installed"], []
    for requirement in requirements:
        extra = re.search(r"extra\s*==\s*['\"](\w+)", requirement)
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if extra and extra[1] in _TOOLS:
            continue
        try:
            found[name] = f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            missing.setdefault(name, f"{name} ({extra[1]})" if extra else name)
    return list(found.values()), list(missing.values())


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
    names = [
        name if status == "yes" else f"{name} ({status})"
        for name, status in statuses.items()
        if status != "no"
    ]
    return (
        f"{', '.join(names) or 'no data set'} in ZSLEARN_DATA="
        f"{os.environ.get('ZSLEARN_DATA', '(not set)')}; cache {cache_folder()}"
    )


OPTIONS = {"info": (_run_info, ("model", "MODEL", None, "model file (.zsl)"))}
