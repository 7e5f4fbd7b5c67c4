"""`zslearn info`: what a bug report should say of the installation and the machine."""

from __future__ import annotations

import argparse
import os
import platform
import re
from importlib import metadata
from pathlib import Path

from zslearn._version import __version__

_TOOLS = ("dev", "docs")
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def _run_info(arguments: argparse.Namespace) -> int:
    """Print what a bug report needs: versions, threads, device, data.

    What fails is reported in its line, and the others are printed.
    """
    found, missing = _packages()
    lines = {
        "zslearn": __version__,
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "packages": ", ".join(found),
        "missing": ", ".join(missing) or "nothing",
    }
    for name, ask in {"threads": _threads, "device": _device, "data": _data}.items():
        try:
            lines[name] = ask()
        except Exception as error:  # a broken installation is what is reported
            lines[name] = f"{type(error).__name__}: {error}"
    home = str(Path.home())
    for name, text in lines.items():
        print(f"{name + ':':<10}{' '.join(text.replace(home, '~').split())}")
    return 0


def _packages() -> tuple[list[str], list[str]]:
    """What zslearn needs or can use, with versions; and what of it is not installed."""
    found: dict[str, str] = {}
    missing: dict[str, str] = {}
    try:
        needs = metadata.requires("zslearn") or []
    except metadata.PackageNotFoundError:
        return ["zslearn itself is not installed, only found on the path"], []
    for need in needs:
        extra = re.search(r"extra\s*==\s*['\"](\w+)", need)
        name = re.split(r"[^\w.-]", need, maxsplit=1)[0]
        if extra and extra[1] in _TOOLS:
            continue
        try:
            found[name] = f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            missing.setdefault(name, f"{name} ({extra[1]})" if extra else name)
    return list(found.values()), list(missing.values())


def _threads() -> str:
    """Cores that may be used, libraries that use threads, and what the environment says."""
    import numpy  # noqa: F401 - loads its linear algebra
    from joblib import cpu_count
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    pools = [
        f"{pool['internal_api']} {pool['version'] or ''} with {pool['num_threads']}"
        for pool in threadpool_info()
    ]
    said = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return "; ".join([f"{cpu_count()} of {os.cpu_count()} cores", *pools, *said])


def _device() -> str:
    """What networks and tensors compute on."""
    try:
        import torch
    except ImportError:
        return "CPU; torch is not installed"
    if not torch.cuda.is_available():
        return f"CPU; torch {torch.__version__} finds no GPU"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)}; CUDA {torch.version.cuda}"


def _data() -> str:
    """Where data sets and caches lie, and which data sets are there."""
    from zslearn._utils._files import cache_folder
    from zslearn.datasets import XLSA17

    here = {name: benchmark.status() for name, benchmark in XLSA17.items()}
    names = [
        name if found == "yes" else f"{name} ({found})"
        for name, found in here.items()
        if found != "no"
    ]
    return (
        f"{', '.join(names) or 'no data set'} in ZSLEARN_DATA="
        f"{os.environ.get('ZSLEARN_DATA', '(not set)')}; cache {cache_folder()}"
    )


OPTIONS = {"info": (_run_info,)}
