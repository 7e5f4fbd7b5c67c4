"""Requests that come at the same time are computed together."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.serving._recognizer import Answer, Recognizer, Snapshot


@dataclass(eq=False)
class Job:
    """What one request asks.

    Parameters
    ----------
    X : ndarray
        Features, or pixels of type uint8 of which features are made.
    top : int
        How many classes per image.
    among : {"all", "seen", "described"}
        The candidates.
    why : bool
        Whether predictions are explained.
    trial : Snapshot or None
        Another model than the one that is served.
    """

    X: NDArray[Any]
    top: int = 5
    among: str = "all"
    why: bool = False
    trial: Snapshot | None = None
    done: Future[tuple[list[Answer], NDArray[Any]]] = field(default_factory=Future)


class Batcher:
    """One thread that computes; what waits meanwhile is computed together.

    Nothing is waited for: a request that comes alone is computed at once, and those that come while
    it is computed are the next batch.

    Parameters
    ----------
    recognizer : Recognizer
        What answers.
    max_rows : int, default=256
        Rows that are computed at once.
    observe : callable, optional
        Called with the number of rows of each batch.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        *,
        max_rows: int = 256,
        observe: Callable[[int], None] | None = None,
    ) -> None:
        self._recognizer = recognizer
        self._max_rows = max_rows
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
        job = self._waiting.get()
        while job is not None:
            jobs, job = self._gather(job)
            self._do(jobs)
            if job is _NOTHING:
                job = self._waiting.get()

    def _gather(self, first: Job) -> tuple[list[Job], Any]:
        """Jobs that wait, as many as are computed at once, and what comes after them."""
        jobs, n_rows = [first], len(first.X)
        while True:
            try:
                job = self._waiting.get_nowait()
            except queue.Empty:
                return jobs, _NOTHING
            if job is None or n_rows + len(job.X) > self._max_rows:
                return jobs, job
            jobs.append(job)
            n_rows += len(job.X)

    def _do(self, jobs: Sequence[Job]) -> None:
        # Those whose request has gone are not computed.
        jobs = [job for job in jobs if job.done.set_running_or_notify_cancel()]
        if not jobs:
            return
        if self._observe is not None:
            self._observe(sum(len(job.X) for job in jobs))
        if len(jobs) == 1:
            self._alone(jobs[0])
            return
        try:
            results = self._together(jobs)
        except Exception:
            # One of them is to blame: each answers for itself.
            for job in jobs:
                self._alone(job)
            return
        for job, result in zip(jobs, results, strict=True):
            job.done.set_result(result)

    def _alone(self, job: Job) -> None:
        try:
            (result,) = self._together([job])
        except BaseException as error:
            job.done.set_exception(error)
        else:
            job.done.set_result(result)

    def _together(self, jobs: Sequence[Job]) -> list[tuple[list[Answer], NDArray[Any]]]:
        features = self._features(jobs)
        current = self._recognizer.snapshot
        groups: dict[tuple[int, str, bool], list[int]] = {}
        for place, job in enumerate(jobs):
            groups.setdefault((id(job.trial), job.among, job.why), []).append(place)
        out: list[Any] = [None] * len(jobs)
        for (_, among, why), places in groups.items():
            whole = np.concatenate([features[place] for place in places])
            found = self._recognizer.answer(
                whole,
                jobs[places[0]].trial or current,
                among=among,
                top=max(jobs[place].top for place in places),
                why=why,
            )
            start = 0
            for place in places:
                own = found[start : start + len(features[place])]
                start += len(own)
                top = jobs[place].top
                cut = [{**answer, "ranked": answer["ranked"][:top]} for answer in own]
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


_NOTHING = Job(np.empty((0, 0)))
