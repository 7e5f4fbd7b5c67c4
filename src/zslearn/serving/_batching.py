"""Concurrent requests are computed in batches, in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from zslearn.serving._recognizer import Recognizer, State, answer

# A batch of this many rows is full.
_FULL_BATCH = 256

#: The answers to a request, and the features or rows they were computed from.
Answered = tuple[list[dict[str, Any]], Any]


def is_pixels(X: Any) -> bool:
    """Whether samples are decoded images, neither features nor rows of a table."""
    return isinstance(X, np.ndarray) and X.dtype == np.uint8


@dataclass(eq=False)
class Job:
    """A request to predict features, pixels or rows with the model at one moment."""

    X: Any
    state: State
    top: int = 1
    candidates: list[Any] | None = None
    explain: bool = False
    odds: Mapping[Any, float] | None = None
    done: asyncio.Future[Answered] = field(init=False)

    def computed_with(self) -> tuple[Any, ...]:
        """A key that is equal for jobs that can share a computation."""
        labels = None if self.candidates is None else tuple(self.candidates)
        odds = None if self.odds is None else tuple(self.odds.items())
        return id(self.state), labels, self.explain, odds


class Batcher:
    """A thread that computes predictions; jobs that arrive meanwhile form the next batch."""

    # Jobs never wait for a batch to fill: a single job is computed at once.

    def __init__(self, recognizer: Recognizer, observe: Callable[[int], None]) -> None:
        self._recognizer = recognizer
        self._observe = observe
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[Job] = []
        self._work: asyncio.Task[None] | None = None

    async def compute(self, job: Job) -> Answered:
        """Compute the answers to a job, and the features they were computed from."""
        loop = asyncio.get_running_loop()
        job.done = loop.create_future()
        self._waiting.append(job)
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._compute_waiting())
        return await job.done

    async def _compute_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            jobs, n_rows = [], 0
            while self._waiting and n_rows < _FULL_BATCH:
                job = self._waiting.pop(0)
                # Requests that have timed out are skipped.
                if not job.done.done():
                    jobs.append(job)
                    n_rows += len(job.X)
            if not jobs:
                break
            self._observe(n_rows)
            results = await loop.run_in_executor(self._thread, self._results, jobs)
            for job, result in zip(jobs, results, strict=True):
                if job.done.done():
                    continue
                if isinstance(result, Exception):
                    job.done.set_exception(result)
                else:
                    job.done.set_result(result)

    def _results(self, jobs: Sequence[Job]) -> list[Answered | Exception]:
        """Compute jobs together; if one fails, compute them one by one."""
        try:
            return list(self._answers(jobs))
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [result for job in jobs for result in self._results([job])]

    def _answers(self, jobs: Sequence[Job]) -> list[Answered]:
        """Compute jobs, grouped by model and options."""
        features = self._features(jobs)
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, job in enumerate(jobs):
            groups.setdefault(job.computed_with(), []).append(place)
        out: dict[int, Answered] = {}
        for places in groups.values():
            first = jobs[places[0]]
            found = iter(
                answer(
                    first.state,
                    _joined([features[place] for place in places]),
                    candidates=first.candidates,
                    top=max(jobs[place].top for place in places),
                    explain=first.explain,
                    odds=first.odds,
                )
            )
            for place in places:
                own = [next(found) for _ in range(len(features[place]))]
                cut = [{**a, "ranked": a["ranked"][: jobs[place].top]} for a in own]
                out[place] = cut, features[place]
        return [out[place] for place in range(len(jobs))]

    def _features(self, jobs: Sequence[Job]) -> list[Any]:
        """The features of each job; the network computes all images together."""
        features = [job.X for job in jobs]
        images = [place for place, X in enumerate(features) if is_pixels(X)]
        if images:
            made = self._recognizer.features(np.concatenate([features[i] for i in images]))
            ends = np.cumsum([len(features[i]) for i in images])[:-1]
            for place, rows in zip(images, np.split(made, ends), strict=True):
                features[place] = rows
        return [X if isinstance(X, pd.DataFrame) else np.asarray(X, np.float64) for X in features]


def _joined(parts: list[Any]) -> Any:
    """Samples of several requests together."""
    if isinstance(parts[0], pd.DataFrame):
        return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)
