"""One lock per estimator."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

#: Outside of the estimators, so that copies, clones and files of them have none.
_locks: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
_locks_lock = threading.Lock()


def lock_of(estimator: Any) -> threading.Lock:
    """The lock of an estimator, always the same."""
    with _locks_lock:
        return _locks.setdefault(estimator, threading.Lock())
