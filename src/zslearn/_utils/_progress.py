"""Progress bars in terminals and notebooks, drawn by rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Whether bars are hidden even if callers ask for them.
quiet: ContextVar[bool] = ContextVar("quiet", default=False)

#: A callback that reports the current step as a line of text.
Say = Callable[[str], None]


@contextmanager
def progress_bar(
    shown: bool, total: int, what: str, *, unit: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show progress, elapsed time and remaining time; yield a function that advances the bar."""
    if not shown or quiet.get():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    # Log files get no bar.
    is_drawn = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, transient=True, disable=not is_drawn) as bar:
        task = bar.add_task(what, total=total, rate="")

        def advance(amount: int) -> None:
            bar.advance(task, amount)
            if unit is not None and bar.tasks[0].speed:
                bar.update(task, rate=f"{bar.tasks[0].speed:.3g} {unit}/s")

        yield advance
