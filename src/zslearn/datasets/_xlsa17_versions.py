"""Which publication of the proposed split a file holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import check_indices

_FOR_TUNING = ("train_loc", "val_loc")
# Splits that are also published in files with train_loc and val_loc, so that a file without them is
# recognised: CUB, SUN, FLO. The splits of AWA1 and AWA2 stand in files of both versions.
_KNOWN_SPLITS = {
    "49132e4ab2b08fccb65b6b3b878ccf604a5c5f899d9347da9a2dcf3950896625": "PS1",
    "6fa9c8939286a2c8b03d8c45df114263577e2448abfbce89456c5c8ee9ba25d8": "PS1",
    "47d3bf046aaa3c7c1d39d42dec238bceddddd2f4c60e0b95601759b947c31033": "PS1",
}


def parts_checksum(parts: Mapping[str, NDArray[np.intp]]) -> str:
    """SHA-256 of the parts of a split, whatever their order, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in ("train", "test_seen", "test_unseen"):
        indices = parts.get(part, np.empty(0, dtype=np.intp))
        digest.update(np.sort(indices).astype("<i8").tobytes() + b"\n")
    return digest.hexdigest()


def found_version(path: Path, parts: Mapping[str, NDArray[np.intp]]) -> tuple[str, str]:
    """The publication of the proposed split, where the file tells it.

    Parameters
    ----------
    path : Path
        The file of splits.
    parts : mapping
        Its parts "train", "test_seen" and "test_unseen".

    Returns
    -------
    version : {"PS1", "PS2", "unknown"}
        The version.
    reason : str
        How it is known.
    """
    # Without test images of seen classes it is neither: they are what the two differ in.
    tuning = _tuning_samples(path) if len(parts["test_seen"]) else None
    if tuning is not None and np.isin(parts["test_seen"], tuning).all():
        return "PS1", "train_loc and val_loc hold all test images of seen classes"
    if tuning is not None and np.array_equal(tuning, np.unique(parts["train"])):
        return "PS2", "train_loc and val_loc together are trainval_loc"
    version = _KNOWN_SPLITS.get(parts_checksum(parts))
    if version is not None:
        return version, "its parts are those of a published file of this version"
    return "unknown", "neither train_loc and val_loc nor its parts tell"


def checked_version(path: Path, parts: Mapping[str, NDArray[np.intp]], version: str | None) -> str:
    """The publication that a file tells, or else `version`; ValueError where they contradict.

    Parameters
    ----------
    path : Path
        The file of splits.
    parts : mapping
        Its parts "train", "test_seen" and "test_unseen".
    version : {"PS1", "PS2"} or None
        What somebody says it is.

    Returns
    -------
    {"PS1", "PS2", "unknown"}
        The version.
    """
    found, reason = found_version(path, parts)
    if version is not None and found not in (version, "unknown"):
        raise ValueError(
            f"{path}: version={version!r} was given, but this is {found}: {reason}; pass "
            f"version={found!r} or None."
        )
    return version or found


def tuning_leak(path: Path, parts: Mapping[str, NDArray[np.intp]]) -> int:
    """How many test images of seen classes the parts for tuning hold: all of them in PS1."""
    tuning = _tuning_samples(path)
    return 0 if tuning is None else int(np.isin(parts["test_seen"], tuning).sum())


def _tuning_samples(path: Path) -> NDArray[np.intp] | None:
    """The samples of ``train_loc`` and ``val_loc``, ascending; None where one is missing."""
    found = read_mat(path, set(_FOR_TUNING))
    if set(found) != set(_FOR_TUNING):
        return None
    return np.unique(
        np.concatenate([check_indices(found[name], name, path, None) for name in _FOR_TUNING])
    )
