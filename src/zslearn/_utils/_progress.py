"""A bar that shows how far long work is: in a terminal, or below the cell of a notebook."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

#: Is called with a line of text that says what is being done.
Say = Callable[[str], None]

# A notebook is drawn in no more often than this, in seconds.
_NOTEBOOK_PAUSE = 0.2


@contextmanager
def progress_bar(
    shown: bool, total: int, what: str, *, unit: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show how much of long work is done, and the time it took and will take."""
    display = _notebook_display() if shown else None
    if display is not None:
        with _notebook_bar(display, total, what) as advance:
            yield advance
        return
    if shown:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            with _terminal_bar(console, total, what, unit) as advance:
                yield advance
            return
    yield lambda amount: None


@contextmanager
def _terminal_bar(
    console: Any, total: int, what: str, unit: str | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar that goes when the work is done."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, rate="")

        def advance(amount: int) -> None:
            bar.advance(task, amount)
            speed = bar.tasks[0].speed
            if unit is not None and speed:
                bar.update(task, rate=f"{speed:.3g} {unit}/s")

        yield advance


def _notebook_display() -> Any:
    """IPython's `display` inside a notebook, else None."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    shell = get_ipython()
    # A terminal of IPython draws what a terminal draws; only a kernel has a page to draw on.
    return display if shell is not None and hasattr(shell, "kernel") else None


@contextmanager
def _notebook_bar(display: Any, total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A line below the cell; it stays, with the time that the work took."""
    start = time.monotonic()
    done, drawn = 0, 0.0

    def line() -> dict[str, str]:
        seconds = time.monotonic() - start
        times = _clock(seconds)
        if 0 < done < total:
            times += f", left {_clock(seconds / done * (total - done))}"
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
        count = f"{done} of {total}, {times}"
        return {
            "text/plain": f"{what}: {count}",
            "text/html": f"<div>{html.escape(what)} {bar} {count}</div>",
        }

    handle = display(line(), display_id=True, raw=True)

    def advance(amount: int) -> None:
        nonlocal done, drawn
        done += amount
        now = time.monotonic()
        if now - drawn >= _NOTEBOOK_PAUSE or done >= total:
            drawn = now
            handle.update(line(), raw=True)

    try:
        yield advance
    finally:
        handle.update(line(), raw=True)


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))
