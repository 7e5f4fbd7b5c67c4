"""A bar that shows how far a search is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(shown: bool, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on standard error where that is a terminal.

    Parameters
    ----------
    shown : bool
        Whether to draw it.
    total : int
        Number of steps.

    Yields
    ------
    callable
        To be called with the number of steps that were finished.
    """
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda amount: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("settings × folds", total=total)
        yield lambda amount: bar.advance(task, amount)
