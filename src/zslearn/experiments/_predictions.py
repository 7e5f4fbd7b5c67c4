"""Predictions of many images in files: what they are, and reading them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import plain


class Predictions(NamedTuple):
    """The best classes of many images.

    Parameters
    ----------
    indices : ndarray of int32 of shape (n_samples, k)
        Positions in `classes`, best first; a memory map.
    scores : ndarray of shape (n_samples, k)
        Their scores; a memory map.
    classes : ndarray of shape (n_classes,)
        Labels of the candidates.
    """

    indices: NDArray[np.int32]
    scores: NDArray[Any]
    classes: NDArray[Any]

    def labels(self, rows: Any = slice(None)) -> NDArray[Any]:
        """Labels of some rows, by default of all.

        Parameters
        ----------
        rows : slice or array of int
            Which.

        Returns
        -------
        ndarray of shape (n_rows, k)
            Best first.
        """
        return self.classes[self.indices[rows]]


def read_top_k(folder: str | os.PathLike[str]) -> Predictions:
    """Read what :func:`write_top_k` wrote to the end.

    Parameters
    ----------
    folder : path
        Where it was written.

    Returns
    -------
    Predictions
        As memory maps.

    Raises
    ------
    FileNotFoundError
        It was not finished; :func:`write_top_k` goes on with it.
    ValueError
        The files are damaged.
    """
    folder = Path(folder)
    if not (folder / "scores.npy").is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished predictions; write_top_k with the same arguments finishes "
            "what was begun."
        )
    try:
        indices = np.load(folder / "indices.npy", mmap_mode="r", allow_pickle=False)
        scores = np.load(folder / "scores.npy", mmap_mode="r", allow_pickle=False)
        classes = np.load(folder / "classes.npy", allow_pickle=False)
    # The parser of NumPy's headers raises errors of many kinds.
    except Exception as error:
        raise _damaged(folder) from error
    is_sound = (
        indices.dtype == np.int32
        and indices.ndim == 2
        and scores.shape == indices.shape
        and scores.dtype.kind == "f"
        and classes.ndim == 1
        and (not indices.size or (indices.min() >= 0 and indices.max() < len(classes)))
    )
    if not is_sound:
        raise _damaged(folder)
    return Predictions(indices, scores, classes)


def _damaged(folder: Path) -> ValueError:
    return ValueError(f"{plain(folder)}: the predictions are damaged; write_top_k makes them anew.")
