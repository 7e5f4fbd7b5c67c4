"""The thread that computes answers: requests that come at the same time are one computation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.serving._recognizer import Answer, Recognizer, Snapshot

# Once so many rows are gathered, further requests wait for the next batch.
_ENOUGH_ROWS = 256


@dataclass(eq=False)
class Job:
    """What one request asks, of features or pixels (uint8); `trial` replaces the model served."""

    X: NDArray[Any]
    top: int = 5
    among: str = "all"
    within: tuple[str, ...] = ()
    explain: bool = False
    trial: Snapshot | None = None
    prior: Mapping[str, float] | None = None
    done: Future[tuple[list[Answer], NDArray[Any]]] = field(default_factory=Future)


class Batcher:
    """One thread that computes; what waits meanwhile is computed together.

    Nothing is waited for: a request that comes alone is computed at once, and those that come while
    it is computed are the next batch. `observe` is called with the number of rows of each.
    """

    def __init__(self, recognizer: Recognizer, observe: Callable[[int], None]) -> None:
        self._recognizer = recognizer
        self._observe = observe
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> Future[tuple[list[Answer], NDArray[Any]]]:
        """Have a job done: its answers, and the features that they were made of."""
        with self._lock:
            # An application may be started again after it was closed.
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._waiting.put(job)
        return job.done

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        with self._lock:
            if self._thread is not None:
                self._waiting.put(None)
                self._thread.join(timeout=10)
                self._thread = None

    def _work(self) -> None:
        for job in iter(self._waiting.get, None):
            jobs, n_rows = [job], len(job.X)
            while n_rows < _ENOUGH_ROWS and not self._waiting.empty():
                more = self._waiting.get()
                if more is None:
                    self._waiting.put(None)
                    break
                jobs.append(more)
                n_rows += len(more.X)
            self._compute(jobs)

    def _compute(self, jobs: Sequence[Job]) -> None:
        # Those whose request has gone are not computed.
        jobs = [job for job in jobs if job.done.set_running_or_notify_cancel()]
        if not jobs:
            return
        self._observe(sum(len(job.X) for job in jobs))
        try:
            results = self._answers(jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
                return
            # One of them is to blame: each answers for itself.
            for job in jobs:
                try:
                    job.done.set_result(self._answers([job])[0])
                except Exception as own_error:
                    job.done.set_exception(own_error)
            return
        for job, result in zip(jobs, results, strict=True):
            job.done.set_result(result)

    def _answers(self, jobs: Sequence[Job]) -> list[tuple[list[Answer], NDArray[Any]]]:
        """Answers to each job; those that ask the same of the same model are one computation."""
        features = self._features(jobs)
        current = self._recognizer.snapshot
        groups: dict[Any, list[int]] = {}
        for place, job in enumerate(jobs):
            asked = (id(job.trial), id(job.prior), job.among, job.within, job.explain)
            groups.setdefault(asked, []).append(place)
        out: list[Any] = [None] * len(jobs)
        for places in groups.values():
            first = jobs[places[0]]
            found = iter(
                self._recognizer.answer(
                    np.concatenate([features[place] for place in places]),
                    first.trial or current,
                    among=first.among,
                    within=first.within,
                    top=max(jobs[place].top for place in places),
                    explain=first.explain,
                    prior=first.prior,
                )
            )
            for place in places:
                own = [next(found) for _ in features[place]]
                cut = [{**a, "ranked": a["ranked"][: jobs[place].top]} for a in own]
                out[place] = cut, features[place]
        return out

    def _features(self, jobs: Sequence[Job]) -> list[NDArray[Any]]:
        """Features of each job; those of images are made together."""
        of_job = [job.X for job in jobs]
        images = [place for place, X in enumerate(of_job) if X.dtype == np.uint8]
        if images:
            made = self._recognizer.features(np.concatenate([of_job[place] for place in images]))
            ends = np.cumsum([len(of_job[place]) for place in images])[:-1]
            for place, rows in zip(images, np.split(made, ends), strict=True):
                of_job[place] = rows
        return [np.asarray(X, dtype=np.float64) for X in of_job]
