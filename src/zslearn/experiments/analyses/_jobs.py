"""Jobs of an analysis: computations with a record each, so that finished jobs are not repeated.

A job has a method, a setting of the analysis (such as a number of phantoms) and a seed. Its record
is like that of a run, with the setting as ``"variant"``, so that tables can read it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._array import to_numpy
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._progress import Say, progress_bar
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import conventional_metrics
from zslearn.experiments._names import same_features
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import (
    is_finished,
    read_record,
    slug,
    whole_records,
    write_computed,
)
from zslearn.experiments._runs import origin_of, run_benchmark, split_slug
from zslearn.model_selection import (
    GRIDS,
    METHODS,
    Method,
    TuningOptions,
    ZeroShotSearchCV,
    find_method,
)


def write_value(value: Any) -> str:
    """Write a value of a setting as short text."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_variant(variant: Mapping[str, Any]) -> str:
    """Write a setting as in records: ``name=value`` joined by ``;``."""
    return ";".join(f"{name}={write_value(value)}" for name, value in variant.items())


def read_variant(text: str) -> dict[str, Any]:
    """Parse the setting of a record, with numbers and None."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {name: _read_value(value) for name, _, value in pairs}


def _read_value(text: str) -> Any:
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def method_name(method: str) -> str:
    """Name of a method in records: that of a class without its module."""
    return find_method(method).name if ":" in method else method


def record_origin(record: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that identify the origin of the numbers of a record."""
    names = ("dataset", "split", "subset", "semantic", "method")
    return {name: record.get(name, "") for name in names}


def numbers_frame(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row per number of the records, with the settings of the jobs as columns."""
    rows = []
    for record in records:
        of_record = {**record_origin(record), **read_variant(record.get("variant", ""))}
        rows += [
            {**of_record, "seed": record["seed"], "metric": metric, "value": value}
            for metric, value in record["metrics"].items()
            if value is not None
        ]
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class Job:
    """A computation with one record.

    `method` is the name of the row: a method, or another name. `compute` returns fields of the
    record, ``"metrics"`` among them. `variant` is the setting of the analysis; `depends` is what
    the results depend on besides data, method, setting and seed; `semantic` is the kind of
    signatures if it is not that of the data set.
    """

    method: str
    seed: int
    compute: Callable[[], Mapping[str, Any]]
    variant: Mapping[str, Any] = field(default_factory=dict)
    depends: tuple[Any, ...] = ()
    semantic: str | None = None

    @property
    def label(self) -> str:
        """The job in a progress message."""
        setting = [f"{name} {write_value(value)}" for name, value in self.variant.items()]
        kind = [self.semantic] if self.semantic else []
        return ", ".join([self.method, *kind, *setting, f"seed {self.seed}"])


@dataclass(eq=False)
class JobRunner:
    """Computes the jobs of an analysis and tunes methods for them, or reads records of runs.

    `runs` is a folder of records to read; for other options see :func:`run_analysis`. When reading
    records, empty `methods` and `seeds` select all.
    """

    analysis: str
    data: Any
    out: Path
    methods: Sequence[str] = ()
    seeds: Sequence[int] = (0,)
    runs: Path | str | None = None
    grid: str = "quick"
    n_splits: int | None = None
    resume: bool = True
    progress: bool = False
    n_jobs: int | None = None
    say: Say = lambda text: None
    command: str | None = None

    def __post_init__(self) -> None:
        if self.grid not in GRIDS:
            raise ValueError(f"Unknown grid {self.grid!r}; choose from {', '.join(GRIDS)}.")
        self.protocol = Protocol("default", 3 if self.n_splits is None else self.n_splits)
        self._parts = self.out / f".parts-{self.analysis}"
        self.shared = self._parts / "shared"
        self._searches: dict[str, ZeroShotSearchCV] = {}

    @cached_property
    def _data_key(self) -> str:
        data, split = self.data, self.data.active_split
        rows = split.train, split.test_seen, split.test_unseen
        return fingerprint(to_numpy(data.X), data.y, data.signatures, *rows)

    def tune(
        self,
        method: str | Method,
        seed: int,
        *,
        data: ZeroShotDataset | None = None,
        fixed: Mapping[str, Any] | None = None,
        also: Mapping[str, Sequence[Any]] | None = None,
        grid: str | None = None,
        shots: int = 0,
        setting: str = "zsl",
    ) -> ZeroShotSearchCV:
        """Tune a method on held-out seen classes, once for each combination of arguments.

        `fixed` hyper-parameters are not searched, `also` are searched in addition to the grid;
        validation classes get `shots` labelled images.
        """
        found = find_method(method) if isinstance(method, str) else method
        data = self.data if data is None else data
        fixed, grid = dict(fixed or {}), grid or self.grid
        of_data = self._data_key, data.signatures, data.active_split.train
        key = fingerprint(*of_data, found.definition(), fixed, also, seed, grid, shots, setting)
        if key not in self._searches:
            protocol = replace(self.protocol, shots=shots)
            options = TuningOptions(
                setting=setting,
                grid=grid,
                cv=protocol.folds(setting, len(data.seen_classes), seed),
                checkpoint=self._parts / key[:16],
                memory=self.shared,
                n_jobs=self.n_jobs,
                fixed=tuple(fixed),
                extra_values=also or {},
            )
            estimator = self.protocol.make(found, seed).set_params(**fixed)
            self._searches[key] = found.search(data, options, estimator)
        return self._searches[key]

    def refit(self, search: ZeroShotSearchCV, data: ZeroShotDataset, **parameters: Any) -> Any:
        """Fit the chosen method on another training part, or with other parameters."""
        model = clone(search.estimator_).set_params(**parameters)
        return model.fit(data.X_train, data.y_train, signatures=data.signatures)

    def results_of(self, search: ZeroShotSearchCV) -> dict[str, Any]:
        """Fields of a record about a tuned method."""
        return {
            "metrics": conventional_metrics(search.estimator_, self.data),
            "hyper_parameters": dict(search.best_params_),
            "edges": dict(search.edges_),
        }

    def jobs(
        self,
        compute: Callable[..., Mapping[str, Any]],
        settings: Sequence[Mapping[str, Any]],
        *depends: Any,
    ) -> list[Job]:
        """A job for each method, setting and seed: ``compute(method, seed, **setting)``."""
        return [
            Job(method, seed, partial(compute, method, seed, **setting), setting, depends)
            for seed in self.seeds
            for method in self.methods
            for setting in settings
        ]

    def run(self, jobs: Iterable[Job]) -> pd.DataFrame:
        """Compute unfinished jobs; return a row per number of the records."""
        return numbers_frame(self.records(jobs))

    def records(self, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        """Compute unfinished jobs; return the records of jobs that did not fail."""
        jobs = list(jobs)
        if not jobs:
            raise ValueError(f"{self.analysis} has nothing to compute: no methods or no settings.")
        if not self.resume:
            shutil.rmtree(self._parts, ignore_errors=True)
        failed: list[str] = []
        with progress_bar(self.progress, len(jobs), self.analysis) as advance:
            for job in jobs:
                path = self._path(job)
                if not (self.resume and is_finished(path, partial(self._key, job))):
                    self.say(f"{self.analysis}: {job.label}")
                    reason = self._write(job, path)
                    failed += [] if reason is None else [f"{job.label} ({reason})"]
                advance(1)
        if len(failed) == len(jobs):
            raise ValueError(f"Every part of {self.analysis} failed: {name_some(failed, 3)}.")
        if failed:
            warn_user(
                f"Parts of {self.analysis} failed: {name_some(failed)}. Their records give the "
                "reasons; running again with resume retries them.",
                FitFailedWarning,
            )
        else:
            shutil.rmtree(self._parts, ignore_errors=True)
        found = [read_record(self._path(job)) for job in jobs]
        return [record for record in found if "failed" not in record]

    def _path(self, job: Job) -> Path:
        """Path of the record of a job."""
        kind = [job.semantic] if job.semantic else []
        setting = [f"{name}-{write_value(value)}" for name, value in job.variant.items()]
        parts = [*split_slug(self.data), self.analysis, job.method, *kind, *setting, job.seed]
        return self.out / f"{slug(*parts)}.json"

    def _key(self, job: Job) -> str:
        try:
            definition: Any = find_method(job.method).definition()
        except ValueError:
            definition = job.method
        return fingerprint(
            self.analysis,
            self._data_key,
            definition,
            dict(job.variant),
            job.seed,
            job.depends,
            job.semantic,
            self.grid,
            self.protocol.definition("zsl"),
            source_digest(),
        )

    def _write(self, job: Job, path: Path) -> str | None:
        """Compute a job and write its record; return the reason if it failed."""
        semantic = self.data.semantic if job.semantic is None else job.semantic
        origin = origin_of(
            self.data,
            analysis=self.analysis,
            semantic=semantic or None,
            method=method_name(job.method),
            setting="zsl",
            variant=write_variant(job.variant),
            protocol="default",
            grid=self.grid,
            seed=job.seed,
            command=self.command,
        )
        return write_computed(path, origin, lambda: {"key": self._key(job), **job.compute()})

    # Records of runs, from a folder or from a benchmark that is run now.

    def read(
        self,
        settings: Sequence[str] = ("zsl", "gzsl"),
        protocols: Mapping[Protocol, Sequence[str]] | None = None,
    ) -> list[dict[str, Any]]:
        """Records of successful runs with the default protocol and others."""
        names = list(map(method_name, self.methods))
        found = [
            record
            for record in whole_records(
                self._benchmark(settings, protocols or {}) if self.runs is None else self.runs
            )
            if "failed" not in record
            and record["setting"] in settings
            and (self.data is None or _is_of(record, self.data))
            and (not names or record["method"] in names)
            and (not self.seeds or record.get("seed") in self.seeds)
        ]
        if not found:
            where = self.out if self.runs is None else self.runs
            raise ValueError(f"There are no such records in {where}.")
        return found

    def _benchmark(
        self, settings: Sequence[str], protocols: Mapping[Protocol, Sequence[str]]
    ) -> list[Path]:
        """Run benchmarks with the default and other protocols, and return their records."""
        if self.data is None or not self.methods:
            raise ValueError("Pass data and methods to run, or a folder of records.")
        names = ("seeds", "grid", "resume", "progress", "n_jobs", "say", "command")
        run = partial(
            run_benchmark,
            self.data,
            self.methods,
            self.out,
            **{name: getattr(self, name) for name in names},
        )
        paths = run(settings=settings, n_splits=self.n_splits)
        for protocol, of_protocol in protocols.items():
            paths += run(settings=of_protocol, protocol=protocol)
        return paths


def _is_of(record: dict[str, Any], data: ZeroShotDataset) -> bool:
    """Whether a record matches the split, features and signatures of a data set."""
    own = (data.name, data.split, data.semantic)
    found = (record["dataset"], record["split"], record.get("semantic", ""))
    return found == own and same_features(record["features"], data.features)


def chosen_methods(
    methods: str | Sequence[str],
    *,
    fits: Callable[[Any], bool] = lambda method: True,
    needed: str = "methods",
) -> list[str]:
    """Validate names of methods that an analysis fits, and remove repetitions."""
    names = [methods] if isinstance(methods, str) else list(methods)
    if not names:
        raise ValueError("Name at least one method.")
    names = list(dict.fromkeys(n if ":" in n else find_method(n).name for n in names))
    if others := [name for name in names if not fits(find_method(name).make())]:
        raise ValueError(f"This analysis needs {needed}; got {', '.join(others)}.")
    return names


def chosen_rows(names: str | Sequence[str]) -> list[str]:
    """Canonical names of rows; names that are not methods stay as they are."""
    known = {name.casefold(): name for name in METHODS}
    given = [names] if isinstance(names, str) else names
    return [known.get(name.casefold(), name) for name in given]


def choose_among(
    rows: Mapping[str, str], names: str | Sequence[str], *, own: bool = False
) -> list[str]:
    """Rows of an analysis by their names, ignoring case; with `own`, also own classes."""
    given = [names] if isinstance(names, str) else list(names)
    known = {name.casefold(): row for name, row in rows.items()}
    if own:
        for name in (name for name in given if ":" in name):
            find_method(name)  # raises an error unless the class exists
            known[name.casefold()] = name
    unknown = [name for name in given if name.casefold() not in known]
    if unknown or not given:
        raise ValueError(
            f"Unknown methods: {', '.join(unknown) or 'none given'}. This analysis compares "
            f"{', '.join(rows)}."
        )
    return list(dict.fromkeys(known[name.casefold()] for name in given))
