"""Worker processes."""

from __future__ import annotations

import os
import threading
import time

_SECONDS = 1.0


def end_with_parent(parent: int, *, child: bool = False) -> None:
    """End this process soon after the process that started it, however that one ended.

    A worker of a killed run would otherwise compute on, for nobody. Only a child of `parent` is
    watched: a process of a cluster, or the caller itself, is not.

    Parameters
    ----------
    parent : int
        Number of the process that gave the work.
    child : bool, default=False
        Whether this process is known to be started by it, so that another parent means that it has
        ended before this was called.
    """
    if child and os.getppid() != parent:
        os._exit(1)
    if os.getppid() == parent and parent not in _watched:
        _watched.add(parent)
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


_watched: set[int] = set()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)  # nobody is there to be told anything
