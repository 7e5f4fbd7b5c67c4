r"""Phantom classes: how many there are, and where their signatures start.

A phantom class is a linear combination of the seen classes, :math:`b_r = \sum_c \beta_{rc} a_c`,
or has a signature that the user gives. Signatures of several views have one table of coefficients
per view.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from zslearn.signatures import (
    MultiSignatures,
    Signatures,
    SignatureTable,
    side_by_side,
    view_arrays,
    with_arrays,
)
from zslearn.utils import Floats, to_numpy

#: One array per view.
Views = tuple[Floats, ...]

# Weights of the two classes of a random phantom: neither is nearly a phantom of its own.
_LEAST_SHARE = 0.25
# A given phantom counts as a combination of the seen classes up to this share of its norm.
_SPAN_TOLERANCE = 1e-6


def phantom_count(n_phantoms: float | None, n_seen: int) -> int:
    """How many phantoms there are.

    Parameters
    ----------
    n_phantoms : int, float or None
        A number, a share of the seen classes, or None for one phantom for each of them.
    n_seen : int
        Number of seen classes.

    Returns
    -------
    int
        At least one.
    """
    if n_phantoms is None:
        return n_seen
    if isinstance(n_phantoms, Integral):
        return int(n_phantoms)
    return max(1, round(float(n_phantoms) * n_seen))


def is_given(init: Any) -> bool:
    """Whether `phantom_init` is signatures, and not the name of a choice."""
    return not isinstance(init, str)


def given_phantoms(
    init: Any, n_phantoms: float | None, table: SignatureTable, scales: tuple[float, ...]
) -> Signatures:
    """Signatures of phantoms that the user gives, normalised as those of the classes.

    Parameters
    ----------
    init : array-like, DataFrame or mapping
        One row per phantom, in the units of the signatures given to `fit`; with several views a
        mapping of each view's name to its rows.
    n_phantoms : int, float or None
        If not None, it must be the number of rows.
    table : SignatureTable
        What `fit` was given.
    scales : tuple of float
        What the signatures of each view are divided by.

    Returns
    -------
    ndarray or SignatureViews
        Normalised signatures, in the order given.
    """
    several = table.names != ("",)
    if isinstance(init, Mapping) != several:
        raise ValueError(
            f"The signatures have the views {list(table.names)}: phantom_init must map each of "
            "them to its rows."
            if several
            else "The signatures have one view: phantom_init must be one table of rows."
        )
    views = {name: _numbered(rows) for name, rows in init.items()} if several else None
    signatures = _numbered(init) if views is None else MultiSignatures(views)
    try:
        phantoms = SignatureTable.read(signatures, None, where="phantom_init").aligned_with(table)
    except ValueError as error:
        raise ValueError(f"phantom_init cannot be used as signatures: {error}") from error
    count = len(phantoms.labels)
    if n_phantoms is not None and not (isinstance(n_phantoms, Integral) and n_phantoms == count):
        raise ValueError(
            f"phantom_init gives {count} phantoms, n_phantoms={n_phantoms} asks for another "
            "number: leave n_phantoms out."
        )
    return phantoms.normalized(scales, keep_views=True)


def _numbered(rows: Any) -> pd.DataFrame:
    """Rows under their numbers, so that they stay in order."""
    if isinstance(rows, pd.DataFrame):
        return rows.reset_index(drop=True)
    array = np.asarray(to_numpy(rows))
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"phantom_init must be a table with one row per phantom; got shape {array.shape}."
        )
    return pd.DataFrame(array)


def combinations_of(phantoms: Signatures, signatures: Signatures) -> Views:
    """Coefficients β of given phantoms in the seen classes' signatures.

    Parameters
    ----------
    phantoms : ndarray of shape (n_phantoms, n_attributes) or SignatureViews
        Normalised signatures of the phantoms.
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes.

    Returns
    -------
    tuple of ndarray of shape (n_phantoms, n_seen)
        The smallest coefficients, one table per view.
    """
    tables: list[Floats] = []
    for rows, array in zip(view_arrays(phantoms), view_arrays(signatures), strict=True):
        beta: Floats = np.linalg.lstsq(array.T, rows.T, rcond=None)[0].T.astype(np.float64)
        missed = np.linalg.norm(beta @ array - rows, axis=1)
        n_outside = int(np.sum(missed > _SPAN_TOLERANCE * np.linalg.norm(rows, axis=1)))
        if n_outside:
            raise ValueError(
                "learn_phantoms=True learns phantoms as combinations of the seen classes; "
                f"{n_outside} of the {len(rows)} rows of phantom_init are no such combination."
            )
        tables.append(beta)
    return tuple(tables)


def initial_combinations(
    signatures: Signatures,
    n_phantoms: int,
    init: str,
    rng: np.random.RandomState,
) -> Views:
    """Coefficients β of the first phantoms, scaled so that each b has the norm of the signatures.

    Parameters
    ----------
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes.
    n_phantoms : int
        How many phantoms, R.
    init : {"auto", "seen", "kmeans", "random"}
        "seen" are the seen classes, or R of them chosen at random; "kmeans" the centroids of R
        clusters of them; "random" convex combinations of two classes each, and where R > S the
        seen classes come first. "auto" is the paper's choice: "seen" for R = S, "kmeans" for
        R < S, "random" for R > S.
    rng : numpy.random.RandomState
        Source of the choice.

    Returns
    -------
    tuple of ndarray of shape (n_phantoms, n_seen)
        One table per view.
    """
    n_seen = len(signatures)
    if init == "auto":
        init = {-1: "kmeans", 0: "seen", 1: "random"}[int(np.sign(n_phantoms - n_seen))]
    if init != "random" and n_phantoms > n_seen:
        raise ValueError(
            f'phantom_init="{init}" makes at most one phantom for each of the {n_seen} seen '
            f'classes; for {n_phantoms} phantoms use phantom_init="random".'
        )
    everyone = np.eye(n_seen)
    if n_phantoms == n_seen and init != "random":
        return (everyone,) * len(view_arrays(signatures))
    if init == "seen":
        mixture = everyone[np.sort(rng.permutation(n_seen)[:n_phantoms])]
    elif init == "kmeans":
        mixture = _cluster_means(side_by_side(signatures), n_phantoms, rng)
    else:
        n_kept = n_seen if n_phantoms > n_seen else 0
        mixture = np.vstack([everyone[:n_kept], _pairs(n_seen, n_phantoms - n_kept, rng)])
    return tuple(_to_norm(mixture, array) for array in view_arrays(signatures))


def _cluster_means(vectors: Floats, n_clusters: int, rng: np.random.RandomState) -> Floats:
    """Each row averages the classes of one cluster."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=10, random_state=rng).fit(vectors).labels_
    member = labels == np.arange(n_clusters)[:, None]
    # Classes with equal signatures leave clusters empty: these take a seen class at random.
    empty = np.flatnonzero(~member.any(axis=1))
    member[empty, rng.permutation(len(vectors))[: len(empty)]] = True
    return member / member.sum(axis=1, keepdims=True)


def _pairs(n_seen: int, n_rows: int, rng: np.random.RandomState) -> Floats:
    """Random convex combinations of two classes each.

    Combinations of all classes would all lie near their mean. Each round goes once round a random
    circle of the classes, so that all of them are used alike.
    """
    mixture = np.zeros((n_rows, n_seen))
    for first in range(0, n_rows, n_seen):
        circle = rng.permutation(n_seen)
        share = rng.uniform(_LEAST_SHARE, 1 - _LEAST_SHARE, size=n_seen)
        rows = np.arange(first, min(first + n_seen, n_rows))
        place = rows - first
        mixture[rows, circle[place]] += share[place]
        mixture[rows, np.roll(circle, 1)[place]] += 1 - share[place]
    return mixture


def _to_norm(mixture: Floats, array: Floats) -> Floats:
    """Scale each combination to the norm of the signatures; a zero combination stays."""
    lengths = np.linalg.norm(mixture @ array, axis=1, keepdims=True)
    target = np.linalg.norm(array, axis=1).max()
    scale = np.divide(target, lengths, out=np.ones_like(lengths), where=lengths > 0)
    return mixture * scale


def combine(betas: Views, signatures: Signatures) -> Signatures:
    r"""The phantoms :math:`b_r = \sum_c \beta_{rc} a_c`, view by view."""
    arrays = tuple(beta @ array for beta, array in zip(betas, view_arrays(signatures), strict=True))
    return with_arrays(arrays, signatures)


def signature_norms(signatures: Signatures) -> tuple[float, ...]:
    """The norm h of the signatures of each view; all are equal but for zero rows."""
    return tuple(
        float(np.linalg.norm(array, axis=1).max(initial=0.0)) for array in view_arrays(signatures)
    )
