"""Benchmark runs: tune and measure methods on a data set, with one resumable record per run.

Where there are many runs, each gets a process of its own. The folds of a single search do not fill
two processes: five folds take three rounds, and the final fit runs in one process.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from numbers import Integral
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
import pandas as pd
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._array import to_numpy
from zslearn._utils._files import refuse_unwritable
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import each_warning_once, name_some, warn_user
from zslearn._utils._processes import end_with_parent, shared_threads
from zslearn._utils._progress import Say, progress_bar
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import (
    GeneralizedScores,
    by_class,
    compact_curve,
    conventional_metrics,
    generalized_metrics,
)
from zslearn.experiments._examples import save_examples
from zslearn.experiments._names import RANK_ACCURACY
from zslearn.experiments._protocol import PROTOCOLS, SETTINGS, Protocol, authors_protocol
from zslearn.experiments._records import (
    RECORD_SCHEMA,
    TEST_SELECTION,
    circumstances,
    is_class_split,
    is_finished,
    selection_file,
    slug,
    write_computed,
    write_failure,
    write_record,
)
from zslearn.metrics import rank_accuracy, seen_unseen_curve
from zslearn.model_selection import (
    GRIDS,
    Method,
    TuningOptions,
    ZeroShotSearchCV,
    find_method,
    named_grid,
)
from zslearn.signatures import (
    MultiSignatures,
    classes_below,
    filled_ranks,
    taxonomy_hierarchy,
)

#: Values of `few_shot_weight`, the weight of a single labelled image, that a search tries.
FEW_SHOT_WEIGHTS = (0.5, 0.2, 1.0)
# Attributes of an adaptation to unlabelled images that a record keeps.
_ADAPTATION = (
    "accepted", "score_before", "score_after", "weight", "n_samples", "background_share",
)  # fmt: skip
# With fewer runs per process, most processes would be idle at the end.
_RUNS_PER_PROCESS = 2


@dataclass(frozen=True, eq=False)
class Run:
    """One method on one split, in one setting, with one seed.

    `label` distinguishes the runs of one call, `data_key` is a digest of the data, `shared` the
    folder of fits that several runs share, and `ranks` holds the taxonomic ranks of the classes.
    With `inflation` a second record has what choosing on test classes would give.
    """

    data: ZeroShotDataset
    name: str
    method: Method
    setting: str
    seed: int
    grid: str
    protocol: Protocol
    out: Path
    shared: Path
    label: str
    data_key: str
    ranks: pd.DataFrame | None = None
    inflation: bool = False

    @property
    def slug(self) -> str:
        """Name of the files of the run; the default protocol is omitted."""
        data, protocol = self.data, self.protocol.name
        parts: list[Any] = [*split_slug(data), *([data.semantic] if data.semantic else [])]
        parts += [self.name, self.setting, self.grid, self.seed]
        return slug(*parts, *([] if protocol == "default" else [protocol]))

    @property
    def path(self) -> Path:
        """Path of the record."""
        return self.out / f"{self.slug}.json"

    def is_finished(self) -> bool:
        """Whether the run has its records."""
        if not is_finished(self.path, self.key):
            return False
        beside = selection_file(self.path)
        return not self.inflation or is_finished(beside, self.key, test_selected=True)

    @property
    def parts(self) -> Path:
        """Folder of the checkpoints of the search."""
        return self.out / f".parts-{self.slug}"

    def key(self) -> str:
        """Digest of everything that the record depends on, including the source of zslearn."""
        return fingerprint(
            self.data_key,
            self.method.definition(),
            self.setting,
            self.grid,
            self.protocol.definition(self.setting),
            self.seed,
            self.ranks,
            source_digest(),
        )

    def check(self) -> None:
        """Raise an error if the run is bound to fail."""
        estimator = self.method.make()
        if self.protocol.unlabelled is not None and not hasattr(estimator, "adapt"):
            raise ValueError(f"{self.method.name} has no adapt: it cannot use unlabelled images.")
        if self.method.tune is Method.tune:  # raises if the method has no such grid
            named_grid(estimator, self.grid)
        if self.method.check is not None:
            self.method.check(self.data)

    def origin(self, command: str | None) -> dict[str, Any]:
        """Fields of the record that identify the run."""
        named = {"shots": self.protocol.shots, "unlabelled": self.protocol.unlabelled}
        given = {name: value for name, value in named.items() if value is not None}
        return origin_of(
            self.data,
            method=self.method.name,
            setting=self.setting,
            protocol=self.protocol.name,
            variant=";".join(f"{name}={value}" for name, value in given.items()) or None,
            **given,
            draw=self.seed if "shots" in given else None,
            seed=self.seed,
            grid=self.grid,
            command=command,
        )

    def write(self, command: str | None, n_jobs: int | None, progress: bool) -> str | None:
        """Tune, measure and write the record; return the reason if the run failed."""
        compute = partial(self.results, command, n_jobs, progress)
        return write_computed(self.path, self.origin(command), compute)

    def results(self, command: str | None, n_jobs: int | None, progress: bool) -> dict[str, Any]:
        """Tune the method on the training part and measure it on the test parts."""
        # The key comes first, so that a method without a fingerprint fails before it is fitted.
        key, start = self.key(), time.perf_counter()
        data, protocol = self.data, self.protocol
        options = TuningOptions(
            setting=self.setting,
            grid=self.grid,
            cv=protocol.folds(self.setting, len(data.seen_classes), self.seed),
            checkpoint=self.parts,
            memory=self.shared,
            n_jobs=n_jobs,
            progress=progress,
            rescale_bias=protocol.rescale_bias,
            extra_values={"few_shot_weight": FEW_SHOT_WEIGHTS} if protocol.shots else {},
        )
        default = protocol.make(self.method, self.seed)
        search = self.method.search(data, options, default)
        if protocol.shots:
            search, data = _with_drawn(search, data, protocol.shots, self.seed)
        model, adaptation = search.estimator_, {}
        if protocol.unlabelled is not None:
            X = data.X_test_unseen
            classes: NDArray[Any] | None = data.unseen_classes
            if protocol.unlabelled == "gzsl":
                X, classes = np.concatenate([data.X_test_seen, X]), None
            model = model.adapt(X, classes=classes)
            adaptation = {"adaptation": _adaptation(model, search)}
        tuned = time.perf_counter()
        if self.setting == "zsl":
            results = measure_conventional(model, data, self.ranks)
        else:
            results = measure_generalized(model, data, search.bias_)
        # Estimated by Gaussian EXEM itself.
        own = {name: getattr(model, f"{name}_", None) for name in ("temperature", "unseen_odds")}
        results["metrics"] |= {name: value for name, value in own.items() if value is not None}
        times = {"tune_and_fit": tuned - start, "measure": time.perf_counter() - tuned}
        if search.n_read_fits_:
            # Time that the fits read from another search's cache had taken.
            times["reused"] = search.reused_time_
        if self.inflation:
            selection = {TEST_SELECTION: compare_choices(search, default, data, self.setting)}
            record = {**self.origin(command), "key": key, "metrics": {}, **selection}
            write_record(record | circumstances(), selection_file(self.path))
        return {
            "key": key,
            "hyper_parameters": _plain(search.best_params_),
            "edges": dict(getattr(search, "edges_", {})),
            **adaptation,
            **results,
            "cross_validation": _cross_validation(search),
            "times": times,
            "shared_fits": search.n_read_fits_,
        }


def _with_drawn(
    search: ZeroShotSearchCV, data: ZeroShotDataset, shots: int, seed: int
) -> tuple[ZeroShotSearchCV, ZeroShotDataset]:
    """Refit the chosen setting with labelled images of the unseen classes; the remaining data."""
    drawn, left = draw_unseen(data, shots, seed)
    rows = np.concatenate([data.active_split.train, drawn])
    return search.refit(data.X[rows], data.y[rows], signatures=_chosen_views(search, data)), left


def _chosen_views(search: ZeroShotSearchCV, data: ZeroShotDataset) -> Any:
    """The signatures of a data set, with the weights of views that a search chose."""
    signatures = data.signatures
    if "weights" in search.best_params_ and isinstance(signatures, MultiSignatures):
        return signatures.with_weights(search.best_params_["weights"])
    return signatures


def compare_choices(
    search: ZeroShotSearchCV, default: Any, data: ZeroShotDataset, setting: str
) -> dict[str, dict[str, float]]:
    """Metric → test result of the default, of the held-out choice, and the best on the test images.

    All three are from one fit per setting of the search's last step. The harmonic mean has a
    calibration factor chosen in the same way: none, that of the folds, the best on the test images.
    """
    results, signatures = search.cv_results_, _chosen_views(search, data)
    # Settings that failed in a fold have no score.
    scores = next(v for name, v in results.items() if name.startswith("mean_test_"))
    tried = np.flatnonzero(~np.isnan(scores)).tolist()
    train = {"X": data.X_train, "y": data.y_train, "signatures": signatures}
    settings = [results["params"][at] for at in tried]
    fitted = search.estimator.fit_grid(**train, settings=settings)
    found: dict[int, dict[str, float]] = {}
    # Settings have positions from 0; the default has −1.
    for position, model in chain([(-1, default.fit(**train))], fitted):
        if setting == "zsl":
            found[position] = conventional_metrics(model, data)
        else:
            found[position] = GeneralizedScores.of(model, data).measure(search.bias_)
    by_choice = {"harmonic": ("harmonic", "calibrated_harmonic", "harmonic_best")}
    compared = {}
    for metric in ["per_class_accuracy"] if setting == "zsl" else ["ausuc", "harmonic"]:
        of_default, of_held_out, of_test = by_choice.get(metric, (metric,) * 3)
        compared[metric] = {
            "default": found[-1][of_default],
            "held_out": found[tried.index(search.best_index_)][of_held_out],
            "test": max(each[of_test] for each in found.values()),
        }
    return compared


def _adaptation(model: Any, search: ZeroShotSearchCV) -> dict[str, Any]:
    """Describe an adaptation to unlabelled images for the record."""
    found = getattr(model, "adaptation_", None)
    named = {name: getattr(found, name, None) for name in _ADAPTATION}
    weights = search.cv_results_.get("param_unlabelled_weight")
    if weights is not None:
        # Best validation scores without and with the unlabelled images.
        mean = next(v for name, v in search.cv_results_.items() if name.startswith("mean_test_"))
        named["score_before"] = float(np.nanmax(mean[weights == 0]))
        named["score_after"] = float(np.nanmax(mean[weights != 0]))
    return _plain({name: v for name, v in named.items() if v is not None and v == v})


def measure_conventional(
    model: Any, data: ZeroShotDataset, ranks: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Measure a model for the conventional setting, as fields of a record."""
    y, classes = data.y_test_unseen, data.unseen_classes
    predicted = model.predict(data.X_test_unseen, classes=classes)
    metrics = conventional_metrics(model, data, hits_per_class=True)
    if ranks is not None:
        right = rank_accuracy(y, predicted, ranks)[:-1].dropna()
        metrics |= {f"{RANK_ACCURACY}{rank}": float(share) for rank, share in right.items()}
    if len(data.y_test_seen) and not untested_classes(data):
        # The harmonic mean without calibration is reported for models tuned for this setting.
        metrics |= generalized_metrics(model, data)
    return {"metrics": metrics, **by_class(y, predicted, classes)}


def measure_generalized(model: Any, data: ZeroShotDataset, bias: float) -> dict[str, Any]:
    """Measure a model for the generalized setting, as fields of a record."""
    scores = GeneralizedScores.of(model, data)
    return {
        "metrics": scores.measure(bias),
        "calibration_factor": bias,
        **by_class(scores.y_true, scores.predict(bias), model.classes_),
        "unseen_classes": [str(label) for label in data.unseen_classes.tolist()],
        "curve": compact_curve(*seen_unseen_curve(**scores.problem())),
    }


def _cross_validation(search: ZeroShotSearchCV) -> dict[str, Any]:
    """The whole grid: settings and their scores in each fold."""
    results: dict[str, Any] = dict(search.cv_results_)
    settings = [_plain(setting) for setting in results.pop("params")]
    # "param_…" repeats "params", and times would make otherwise equal records differ.
    columns = {
        name: values.tolist()
        for name, values in results.items()
        if not name.startswith("param_") and not name.endswith("_time")
    }
    return {"params": settings, **columns}


def _plain(setting: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters as JSON values."""
    values = {n: v.item() if isinstance(v, np.generic) else v for n, v in setting.items()}
    return {
        name: value if value is None or isinstance(value, (str, bool, int, float)) else repr(value)
        for name, value in values.items()
    }


def origin_of(data: ZeroShotDataset, **fields: Any) -> dict[str, Any]:
    """Fields of a record that identify the data and the run; None stands for no value."""
    found = {
        "schema": RECORD_SCHEMA,
        "dataset": data.name,
        "split": data.split,
        "split_version": data.version,
        "features": data.features,
        "semantic": data.semantic or None,
        **fields,
    }
    return {name: value for name, value in found.items() if value is not None}


def split_slug(data: ZeroShotDataset) -> list[str]:
    """Parts of a file name that identify the data.

    There is one "ns" split, but any number of others (published or random classes, with or without
    held-out images), so a digest of the version distinguishes those.
    """
    made = "" if data.split == "ns" else f"-{fingerprint(data.version)[:6]}"
    return [data.name, data.split + made, data.features]


# Planning: splits, seeds, protocols and the runs that follow from them.


def _chosen_splits(data: ZeroShotDataset, splits: str | Sequence[str] | None) -> list[str]:
    """Names of splits without repetition; "ss" stands for every class split."""
    words = [data.split] if splits is None else [splits] if isinstance(splits, str) else splits
    class_splits = [name for name in data.splits if is_class_split(name)]
    chosen: list[str] = []
    for word in words:
        chosen += class_splits if word == "ss" and word not in data.splits else [word]
    if not chosen:
        raise ValueError(f"{data.name} has no class splits; it has {', '.join(data.splits)}.")
    return list(dict.fromkeys(chosen))


def chosen_numbers(seeds: int | Sequence[int], what: str = "seeds") -> list[int]:
    """Validate seeds, or other whole numbers, and remove repetitions."""
    found: list[Any] = [seeds] if isinstance(seeds, Integral) else list(cast("Any", seeds))
    if not found or not all(
        isinstance(s, Integral) and not isinstance(s, bool) and int(s) >= 0 for s in found
    ):
        raise ValueError(f"{what} must be whole numbers >= 0; got {seeds!r}.")
    # NumPy integers cannot be written as JSON.
    return list(dict.fromkeys(map(int, found)))


def check_measurable(data: ZeroShotDataset, settings: Sequence[str], most_shots: int = 0) -> None:
    """Raise an error if the active split lacks test images for a setting or a number of shots."""
    where = f"{data.name}, split {data.split!r}"
    if not len(data.active_split.test_unseen):
        raise ValueError(
            f"{where}, has no samples of unseen classes, so nothing can be measured. Name unseen "
            "classes that have samples, or call fit directly (zslearn fit) to recognise classes "
            "without any."
        )
    if most_shots:
        draw_unseen(data, most_shots, 0)
    if "gzsl" not in settings:
        return
    if not len(data.active_split.test_seen):
        raise ValueError(
            f"{where}, has no test images of seen classes, which the generalized setting needs. "
            "Hold some out when loading the data (hold_out=0.2), or run the setting zsl only."
        )
    if untested := untested_classes(data):
        raise ValueError(
            f"{where}, has no test images of these classes: {name_some(untested)}. The generalized "
            "setting measures every seen class: hold out an image of each, or run the setting zsl "
            "only."
        )


def untested_classes(data: ZeroShotDataset) -> list[Any]:
    """Seen classes without test images."""
    tested = set(data.y_test_seen.tolist())
    return [label for label in data.seen_classes.tolist() if label not in tested]


def draw_unseen(
    data: ZeroShotDataset, number: int | float, seed: int
) -> tuple[NDArray[np.intp], ZeroShotDataset]:
    """Draw a number or a share of the test images of each unseen class; also the remaining data.

    For a given seed, the images of a smaller draw are among those of a larger one.
    """
    split = data.active_split
    rng = np.random.RandomState(seed)
    labels = data.y[split.test_unseen]
    drawn, left, few = [], [], []
    for label in split.unseen_classes.tolist():
        rows = rng.permutation(split.test_unseen[labels == label])
        n = number if isinstance(number, Integral) else int(number * len(rows))
        drawn.append(rows[:n])
        left.append(np.sort(rows[n:]))
        few += [label] if not 0 < n < len(rows) else []
    if few:
        raise ValueError(
            f"{data.name}, split {data.split!r}: these unseen classes have too few test images to "
            f"draw {number} of each and test on the rest: {name_some(few)}."
        )
    version = f"{split.version}, without {number} of each unseen class of seed {seed}"
    rest = replace(split, test_unseen=np.concatenate(left), version=version)
    return np.concatenate(drawn), data.with_splits({data.split: rest})


def _protocol_of(
    protocol: str | Protocol,
    data: ZeroShotDataset,
    settings: Sequence[str],
    n_splits: int | None,
    authors: str | os.PathLike[str] | None,
) -> Protocol:
    """Resolve the protocol for one split."""
    if isinstance(protocol, Protocol):
        if protocol.name in PROTOCOLS and not protocol.is_authors:
            raise ValueError(f"The protocol name {protocol.name!r} is reserved; choose another.")
        found = protocol
    elif protocol == "default":
        return Protocol("default") if n_splits is None else Protocol("default", n_splits)
    elif protocol == "authors":
        found = authors_protocol(data, authors, hold_out="gzsl" in settings)
    else:
        raise ValueError(f"Unknown protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}.")
    if n_splits is not None:
        raise ValueError(
            f"The protocol {found.name!r} sets its own number of folds; leave out n_splits."
        )
    return found


def _plan_runs(
    parts: Sequence[ZeroShotDataset],
    protocols: Sequence[Protocol],
    named: dict[str, Method],
    settings: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    grid: str,
    shots: Sequence[int] | None,
    unlabelled: Any,
    ranks: pd.DataFrame | None,
    inflation: bool,
) -> Iterator[Run]:
    """Every run, in the order of computation."""
    # Hashed once, since the arrays are large and the same for every split.
    whole = fingerprint(to_numpy(parts[0].X), parts[0].y)
    for (part, protocol), seed in product(zip(parts, protocols, strict=True), seeds):
        split = part.active_split
        rows = split.train, split.test_seen, split.test_unseen
        data_key = fingerprint(whole, part.signatures, *rows)
        # Specific to this call: another benchmark in the same folder may end and clean up earlier.
        of_run = list(named), list(settings), grid, seed, shots, unlabelled
        shared = fingerprint(data_key, *of_run, protocol.definition("zsl"))
        where = [part.split] if len(parts) > 1 else []
        where += [f"seed {seed}"] if len(seeds) > 1 else []
        numbers: Sequence[int | None] = shots or [None]
        for setting, k, name in product(settings, numbers, named):
            images = [] if k is None else [f"{k} shots"]
            images += [f"unlabelled {unlabelled}"] if unlabelled else []
            given = replace(
                protocol,
                name=", ".join([protocol.name, *images]),
                shots=protocol.shots if k is None else k,
                unlabelled=unlabelled or protocol.unlabelled,
            )
            yield Run(
                data=part,
                name=name,
                method=named[name],
                setting=setting,
                seed=seed,
                grid=grid,
                protocol=given if images else protocol,
                out=out,
                shared=out / f".parts-shared-{shared[:12]}",
                label=", ".join([name, setting, *images, *where]),
                data_key=data_key,
                ranks=ranks,
                inflation=inflation,
            )


# Parallel runs, each in a process of its own.


def n_parallel_runs(n_runs: int, n_jobs: int | None) -> int:
    """Number of runs to compute at the same time."""
    if n_jobs in (None, 1) or type(get_active_backend()[0]).__name__ != "LokyBackend":
        return 1
    n_processes: int = joblib.effective_n_jobs(n_jobs)
    return n_processes if n_runs >= _RUNS_PER_PROCESS * n_processes else 1


def _run_parallel(
    runs: Sequence[Run], command: str | None, n_processes: int, say: Say
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs in parallel; a process that finishes takes the next run."""

    def tasks() -> Iterator[Any]:
        for number, run in enumerate(runs):
            say(f"{run.label}: tuning")
            yield joblib.delayed(_run_in_process)(number, run, command, n_processes, os.getpid())

    parallel = joblib.Parallel(
        n_jobs=n_processes, return_as="generator_unordered", batch_size=1, pre_dispatch=n_processes
    )
    try:
        with warnings.catch_warnings():
            # joblib warns when it restarts a process whose memory grew; no work is lost.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            for number, reason, caught in parallel(tasks()):
                for warning in caught:
                    warn_user(str(warning), type(warning))
                yield runs[number], reason
    except TerminatedWorkerError as error:
        reason = str(error).partition("\n")[0]
        warn_user(f"A worker process was killed ({reason}); computing the remaining runs serially.")


def _run_in_process(
    number: int, run: Run, command: str | None, n_processes: int, caller: int
) -> tuple[int, str | None, list[Warning]]:
    """Compute a run; its number, the reason if it failed, and the warnings it raised."""
    end_with_parent(caller, child=True)
    with warnings.catch_warnings(record=True) as caught, shared_threads(n_processes):
        warnings.simplefilter("default")
        reason = run.write(command, 1, False)
    messages = [warning.message for warning in caught if isinstance(warning.message, Warning)]
    return number, reason, messages


def _compute_all(
    runs: Sequence[Run], n_jobs: int | None, progress: bool, command: str | None, say: Say
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs and yield each when it ends, with the reason if it failed."""
    left = list(runs)
    if (n_processes := n_parallel_runs(len(runs), n_jobs)) > 1:
        with progress_bar(progress, len(runs), "runs") as advance:
            for run, reason in _run_parallel(runs, command, n_processes, say):
                left.remove(run)
                yield run, reason
                advance(1)
    for run in left:
        say(f"{run.label}: tuning")
        yield run, run.write(command, n_jobs, progress)


def run_benchmark(
    data: ZeroShotDataset,
    methods: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    settings: Sequence[str] = ("zsl", "gzsl"),
    splits: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] = (0,),
    protocol: str | Protocol = "default",
    grid: str | None = None,
    n_splits: int | None = None,
    authors: str | os.PathLike[str] | None = None,
    shots: int | Sequence[int] | None = None,
    unlabelled: str | None = None,
    taxonomy: pd.DataFrame | None = None,
    subset: str | Sequence[str] | None = None,
    inflation: bool = False,
    resume: bool = True,
    n_jobs: int | None = None,
    progress: bool = False,
    command: str | None = None,
    say: Say = lambda text: None,
) -> list[Path]:
    """Tune, fit and measure methods on a data set, and write one record per run.

    A method is tuned on held-out seen classes, refitted on the whole training part and measured on
    the test parts, once for each split, seed and setting. Finished records are kept, and an
    unfinished run resumes its search. A damaged record is recomputed with a warning.

    If a method fails, its record holds the reason and the other runs continue; a
    `FitFailedWarning` names the failed runs at the end. The next call with `resume` retries them.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    methods : str or sequence of str
        Names accepted by :func:`~zslearn.model_selection.find_method`.
    out : str or path
        Folder for the records; created if needed.
    settings : sequence of {"zsl", "gzsl"}
        Conventional, generalized, or both. Methods are tuned for each separately.
    splits : str or sequence of str, optional
        Splits of the data set; by default the active one. "ss" stands for "ss-1", "ss-2", ….
    seeds : int or sequence of int
        Random state of the folds and of the method.
    protocol : {"default", "authors"} or Protocol
        How methods are tuned; see :class:`Protocol` and :func:`authors_protocol`.
    grid : {"fast", "paper", "paper-googlenet", "quick"}, optional
        Hyper-parameter grid; by default that of the protocol ("fast", or "paper" for "authors").
        "quick" is a subset of "fast" for a first look.
    n_splits : int, optional
        Folds over the seen classes, for the default protocol; by default 5.
    authors : str or path, optional
        Folder of the authors' files, for the protocol "authors".
    shots : int or sequence of int, optional
        Number of labelled test images of each unseen class to train with, one run per number; the
        remaining images are tested. Validation classes get as many images during tuning. The seed
        determines the draw, and smaller draws are subsets of larger ones.
    unlabelled : {"zsl", "gzsl"}, optional
        Pass the unlabelled test images of the unseen classes, or of all classes, to the method's
        `adapt` (the transductive protocol). Like `shots`, this becomes part of the protocol's name.
    taxonomy : DataFrame, optional
        Ranks of classes, as for :func:`~zslearn.signatures.taxonomy_signatures`: records of the
        conventional setting then contain the accuracy at each rank.
    subset : str or sequence of str, optional
        Taxa of `taxonomy`: restrict the unseen classes to those below these taxa.
    inflation : bool
        Also measure by how much choosing on test classes would raise the numbers: every setting
        that a search tried is fitted and measured on the test images. A second record per run,
        which only :func:`read_test_selection` and the report read, has the results.
    resume : bool
        Whether to keep finished runs.
    n_jobs : int, optional
        Number of processes, for runs if there are many, otherwise for the folds of one run. The
        records do not depend on it.
    progress : bool
        Whether to show progress bars.
    command : str, optional
        Command that reproduces the records, for the report.
    say : callable
        Called with a line of text before each run and after each failure.

    Returns
    -------
    list of Path
        Records in the order of splits, seeds, settings and methods, including failed runs.

    Raises
    ------
    ValueError, OSError
        Before any computation: a name is unknown, a split cannot be measured in a setting, or the
        folder is not writable.

    See Also
    --------
    read_records : Read records, with a description of their fields.
    summarize_runs : Summarise the results in one table.
    """
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        raise ValueError(
            f"Unknown settings: {name_some(unknown)}. Choose from {', '.join(SETTINGS)}."
        )
    seeds = chosen_numbers(seeds)
    numbers = None if shots is None else chosen_numbers(shots, "shots")
    named: dict[str, Method] = {}
    for name in [methods] if isinstance(methods, str) else methods:
        method = find_method(name)
        # Two spellings of a name are one method, but classes of two modules may share a name.
        named[name if ":" in name else method.name] = method
    if inflation and (shots is not None or unlabelled is not None):
        raise ValueError("inflation is measured without images of unseen classes in training.")
    parts = [data.with_split(name) for name in _chosen_splits(data, splits)]
    parts, ranks = _with_taxonomy(parts, taxonomy, subset)
    for part in parts:
        check_measurable(part, settings, max(numbers or [0]))
    if isinstance(protocol, Protocol) and protocol.is_for_one_split and len(parts) > 1:
        raise ValueError(
            f"The protocol {protocol.name!r} lists classes or images by position (class_order, "
            f"held_out), which holds for one split; got {name_some([p.split for p in parts])}. "
            "Run each split with its own Protocol."
        )
    protocols = [_protocol_of(protocol, part, settings, n_splits, authors) for part in parts]
    grid = grid or protocols[0].grid
    if grid not in GRIDS:
        raise ValueError(f"Unknown grid {grid!r}; choose from {', '.join(GRIDS)}.")
    runs = list(
        _plan_runs(
            parts,
            protocols,
            named,
            settings,
            seeds,
            Path(out),
            grid,
            numbers,
            unlabelled,
            ranks,
            inflation,
        )
    )
    for run in runs:
        refuse_unwritable(run.path)
    if not resume:
        for folder in {folder for run in runs for folder in (run.parts, run.shared)}:
            shutil.rmtree(folder, ignore_errors=True)
    failed: list[Run] = []

    def end(run: Run, reason: str | None) -> None:
        if reason is None:
            shutil.rmtree(run.parts, ignore_errors=True)
        else:
            failed.append(run)
            say(f"{run.label}: failed ({reason}); continuing")

    if data.images is not None:
        save_examples(data, out)
    todo = []
    for run in runs:
        try:
            run.check()
        except Exception as error:
            end(run, write_failure(run.path, run.origin(command), error))
            continue
        if resume and run.is_finished():
            # A run killed right after its record was written leaves checkpoints.
            shutil.rmtree(run.parts, ignore_errors=True)
            say(f"{run.label}: already finished")
        else:
            todo.append(run)
    with each_warning_once():
        for run, reason in _compute_all(todo, n_jobs, progress, command, say):
            end(run, reason)
    failed.sort(key=runs.index)
    for folder in {run.shared for run in runs} - {run.shared for run in failed}:
        shutil.rmtree(folder, ignore_errors=True)
    if failed:
        warn_user(
            f"Runs failed: {name_some([run.label for run in failed])}. Their records give the "
            "reasons; running again with resume retries them.",
            FitFailedWarning,
        )
    return [run.path for run in runs]


def _with_taxonomy(
    parts: list[ZeroShotDataset],
    taxonomy: pd.DataFrame | None,
    subset: str | Sequence[str] | None,
) -> tuple[list[ZeroShotDataset], pd.DataFrame | None]:
    """Restrict the unseen classes to those below some taxa; also the ranks of all classes."""
    if taxonomy is None:
        if subset is not None:
            raise ValueError("subset= names taxa of a taxonomy; pass taxonomy= as well.")
        return parts, None
    ranks = filled_ranks(taxonomy)
    if subset is not None:
        taxa = [subset] if isinstance(subset, str) else list(subset)
        chosen = classes_below(taxonomy_hierarchy(ranks), taxa, classes=ranks.index)
        parts = [part.with_unseen(chosen, " and ".join(map(str, taxa))) for part in parts]
    unseen = dict.fromkeys(label for part in parts for label in part.unseen_classes.tolist())
    if missing := [label for label in unseen if label not in ranks.index]:
        raise ValueError(f"The taxonomy has no row for {name_some(missing)}.")
    return parts, ranks
