"""Folds of a search on the workers of a dask cluster."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import joblib

from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._optional import import_optional
from zslearn.model_selection._search import FoldResult, FoldTask

# How often data that all workers have lost is sent again.
_ATTEMPTS = 3
# The rows that a cluster has, by what they hold: searches of one benchmark share them.
_sent: weakref.WeakKeyDictionary[Any, tuple[str, Any]] = weakref.WeakKeyDictionary()


@contextmanager
def on_cluster(cluster: Any) -> Iterator[Any]:
    """Compute the folds of searches inside on a dask cluster.

    Training rows are sent to the workers once, all of them to each. A worker that dies changes
    nothing: its folds are computed by another one, from what its checkpoint holds where the folder
    is one that all workers see.

    Parameters
    ----------
    cluster : str, Client or Cluster
        Address of a scheduler, such as ``"tcp://head:8786"``; or what dask.distributed made.

    Yields
    ------
    Client
        Of dask.distributed. One that was made here is closed at the end.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotSearchCV, on_cluster
    >>> data = make_zero_shot(random_state=0)
    >>> search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0, 100.0]})
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
    ...     with on_cluster(cluster):
    ...         search = search.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> search.n_splits_
    5
    """
    distributed = import_optional("distributed", "A dask cluster")
    is_own = not isinstance(cluster, distributed.Client)
    client = distributed.Client(cluster, set_as_default=True) if is_own else cluster
    try:
        with client.as_current(), joblib.parallel_config("dask"):
            yield client
    finally:
        if is_own:
            client.close()


def run_on_cluster(client: Any, tasks: Sequence[FoldTask], X: Any) -> Iterator[FoldResult]:
    """Compute folds on a cluster."""
    lost = import_optional("distributed", "A dask cluster").CancelledError
    small = [replace(task, X=None) for task in tasks]
    futures = _submit(client, small, _send(client, X))
    try:
        for number in range(len(tasks)):
            for attempt in range(_ATTEMPTS):
                try:
                    result = futures[number].result()
                    break
                # Every worker that had the rows is gone.
                except lost:
                    if attempt + 1 == _ATTEMPTS:
                        raise
                    _sent.pop(client, None)
                    futures[number:] = _submit(client, small[number:], _send(client, X))
            yield result
    finally:
        client.cancel(futures)


def _send(client: Any, X: Any) -> Any:
    """The rows on every worker; those that are there already are not sent again."""
    key = fingerprint(X)
    known = _sent.get(client)
    if known is not None and known[0] == key and known[1].status == "finished":
        return known[1]
    future = client.scatter(X, broadcast=True, hash=False)
    _sent[client] = key, future
    return future


def _submit(client: Any, tasks: Sequence[FoldTask], rows: Any) -> list[Any]:
    # Not pure: a task has no name that another search could share.
    return [client.submit(_run, task, rows, pure=False) for task in tasks]


def _run(task: FoldTask, X: Any) -> FoldResult:
    """Compute one fold on a worker; an earlier worker may have left a part of it."""
    return replace(task, X=X).run()
