"""Benchmark runs: methods tuned and measured on a data set, one record each, resumed where stopped.

Several runs are computed at a time, each in a process of its own: the folds of one search fill two
processes badly, since five folds take three rounds and the fit at the end is one process's work.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
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
    is_finished,
    slug,
    write_computed,
    write_failure,
)
from zslearn.experiments._summary import is_class_split
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

#: Values of the weight of a single image that are searched where there are a few of a class.
FEW_SHOT_WEIGHTS = (0.5, 0.2, 1.0)
# What a record keeps of an adaptation to unlabelled images.
_ADAPTATION = (
    "accepted", "score_before", "score_after", "weight", "n_samples", "background_share",
)  # fmt: skip
# With fewer runs for each process the last ones would leave most processes idle.
_RUNS_PER_PROCESS = 2


@dataclass(frozen=True, eq=False)
class Run:
    """One method on one split, in one setting, with one seed.

    `label` distinguishes the runs of one call; `data_key` is a digest of the data; `shared` is the
    folder of what several runs have in common; `ranks` are those of the classes.
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

    @property
    def slug(self) -> str:
        """The name of its files; the default protocol is not named."""
        data, protocol = self.data, self.protocol.name
        parts: list[Any] = [*split_slug(data), *([data.semantic] if data.semantic else [])]
        parts += [self.name, self.setting, self.grid, self.seed]
        return slug(*parts, *([] if protocol == "default" else [protocol]))

    @property
    def path(self) -> Path:
        """The record."""
        return self.out / f"{self.slug}.json"

    @property
    def parts(self) -> Path:
        """Where finished settings of its search are kept."""
        return self.out / f".parts-{self.slug}"

    def key(self) -> str:
        """A digest of all that the record depends on, the source of the package too."""
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
        """Raise an error where it is known beforehand that the run must fail."""
        estimator = self.method.make()
        if self.protocol.unlabelled is not None and not hasattr(estimator, "adapt"):
            raise ValueError(f"{self.method.name} has no adapt: it cannot use unlabelled images.")
        if self.method.tune is Method.tune:  # its own grid, at once
            named_grid(estimator, self.grid)
        if self.method.check is not None:
            self.method.check(self.data)

    def origin(self, command: str | None) -> dict[str, Any]:
        """What a record says of the run before its results."""
        named = {"shots": self.protocol.shots, "unlabelled": self.protocol.unlabelled}
        given = {name: value for name, value in named.items() if value is not None}
        variant = ";".join(f"{name}={value}" for name, value in given.items())
        return {
            **data_origin(self.data),
            **({"semantic": self.data.semantic} if self.data.semantic else {}),
            "method": self.method.name,
            "setting": self.setting,
            "protocol": self.protocol.name,
            **({"variant": variant, **given} if given else {}),
            **({"draw": self.seed} if "shots" in given else {}),
            "seed": self.seed,
            "grid": self.grid,
            **({} if command is None else {"command": command}),
        }

    def write(self, command: str | None, n_jobs: int | None, progress: bool) -> str | None:
        """Tune and measure, and write the record; the reason where it failed."""

        def compute() -> dict[str, Any]:
            # First: a key that cannot be made costs nothing then.
            key = self.key()
            return self.results(n_jobs, progress) | {"key": key}

        return write_computed(self.path, self.origin(command), compute)

    def results(self, n_jobs: int | None, progress: bool) -> dict[str, Any]:
        """Tune the method on the training part and measure it on the test parts."""
        start, data, protocol = time.perf_counter(), self.data, self.protocol
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
        search = self.method.search(data, options, protocol.make(self.method, self.seed))
        if protocol.shots:
            search, data = _with_drawn(search, data, protocol.shots, self.seed)
        model, adaptation = search.estimator_, {}
        if protocol.unlabelled is not None:
            model = _adapted(model, data, protocol.unlabelled)
            adaptation = {"adaptation": _adaptation(model, search)}
        tuned = time.perf_counter()
        if self.setting == "zsl":
            results = _conventional(model, data, self.ranks)
        else:
            results = _generalized(model, data, search.bias_)
        # What Gaussian EXEM finds by itself.
        own = {name: getattr(model, f"{name}_", None) for name in ("temperature", "unseen_odds")}
        results["metrics"] |= {name: value for name, value in own.items() if value is not None}
        times = {"tune_and_fit": tuned - start, "measure": time.perf_counter() - tuned}
        if search.n_read_fits_:
            # Seconds that another method's search had taken for fits that this one read.
            times["reused"] = search.reused_time_
        return {
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
    """The chosen setting fitted with labelled images of unseen classes, and the data left."""
    signatures = data.signatures
    if "weights" in search.best_params_ and isinstance(signatures, MultiSignatures):
        signatures = signatures.with_weights(search.best_params_["weights"])
    drawn, left = draw_unseen(data, shots, seed)
    rows = np.concatenate([data.active_split.train, drawn])
    return search.refit(data.X[rows], data.y[rows], signatures=signatures), left


def _adapted(model: Any, data: ZeroShotDataset, unlabelled: str) -> Any:
    """The model adapted to the test images, of the unseen classes ("zsl") or of all ("gzsl")."""
    if unlabelled == "zsl":
        return model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    return model.adapt(np.concatenate([data.X_test_seen, data.X_test_unseen]), classes=None)


def _adaptation(model: Any, search: ZeroShotSearchCV) -> dict[str, Any]:
    """What a record says of an adaptation."""
    found = getattr(model, "adaptation_", None)
    named = {name: getattr(found, name, None) for name in _ADAPTATION}
    weights = search.cv_results_.get("param_unlabelled_weight")
    if weights is not None:
        # The best scores of classes left out without their images and with them.
        mean = next(v for name, v in search.cv_results_.items() if name.startswith("mean_test_"))
        named["score_before"] = float(np.nanmax(mean[weights == 0]))
        named["score_after"] = float(np.nanmax(mean[weights != 0]))
    return _plain({name: v for name, v in named.items() if v is not None and v == v})


def _conventional(model: Any, data: ZeroShotDataset, ranks: pd.DataFrame | None) -> dict[str, Any]:
    """Measure a model that was tuned for the conventional setting."""
    y, classes = data.y_test_unseen, data.unseen_classes
    predicted = model.predict(data.X_test_unseen, classes=classes)
    metrics = conventional_metrics(model, data, hits_per_class=True)
    if ranks is not None:
        right = rank_accuracy(y, predicted, ranks)[:-1].dropna()
        metrics |= {f"{RANK_ACCURACY}{rank}": float(share) for rank, share in right.items()}
    if len(data.y_test_seen) and not untested_classes(data):
        # The harmonic mean without calibration is of methods tuned for this setting.
        metrics |= generalized_metrics(model, data)
    return {"metrics": metrics, **by_class(y, predicted, classes)}


def _generalized(model: Any, data: ZeroShotDataset, bias: float) -> dict[str, Any]:
    """Measure a model that was tuned for the generalized setting."""
    scores = GeneralizedScores.of(model, data)
    return {
        "metrics": scores.measure(bias),
        "calibration_factor": bias,
        **by_class(scores.y_true, scores.predict(bias), model.classes_),
        "unseen_classes": [str(label) for label in data.unseen_classes.tolist()],
        "curve": compact_curve(*seen_unseen_curve(**scores.problem())),
    }


def _cross_validation(search: ZeroShotSearchCV) -> dict[str, Any]:
    """The whole grid: settings and what each gave in each fold."""
    results: dict[str, Any] = dict(search.cv_results_)
    settings = [_plain(setting) for setting in results.pop("params")]
    # The columns "param_…" repeat what "params" says; times would make every record differ.
    columns = {
        name: values.tolist()
        for name, values in results.items()
        if not name.startswith("param_") and not name.endswith("_time")
    }
    return {"params": settings, **columns}


def _plain(setting: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters as JSON can hold them."""
    values = {n: v.item() if isinstance(v, np.generic) else v for n, v in setting.items()}
    return {
        name: value if value is None or isinstance(value, (str, bool, int, float)) else repr(value)
        for name, value in values.items()
    }


def data_origin(data: ZeroShotDataset) -> dict[str, Any]:
    """The fields of a record that name the data."""
    return {
        "schema": RECORD_SCHEMA,
        "dataset": data.name,
        "split": data.split,
        "split_version": data.version,
        "features": data.features,
    }


def split_slug(data: ZeroShotDataset) -> list[str]:
    """Parts of a file name that tell the data.

    A split other than "ns" can be made in several ways, from published or random lists of classes
    and with any hold-out: a digest of its version distinguishes them.
    """
    made = "" if data.split == "ns" else f"-{fingerprint(data.version)[:6]}"
    return [data.name, data.split + made, data.features]


# Which runs there are.


def _chosen_splits(data: ZeroShotDataset, splits: str | Sequence[str] | None) -> list[str]:
    """Names of splits, each once; "ss" may stand for every class split."""
    words = [data.split] if splits is None else [splits] if isinstance(splits, str) else splits
    class_splits = [name for name in data.splits if is_class_split(name)]
    chosen: list[str] = []
    for word in words:
        chosen += class_splits if word == "ss" and word not in data.splits else [word]
    if not chosen:
        raise ValueError(f"{data.name} has no class splits; it has {', '.join(data.splits)}.")
    return list(dict.fromkeys(chosen))


def chosen_numbers(seeds: int | Sequence[int], what: str = "seeds") -> list[int]:
    """Seeds, or other whole numbers, as plain numbers, each once."""
    found: list[Any] = [seeds] if isinstance(seeds, Integral) else list(cast("Any", seeds))
    if not found or not all(
        isinstance(s, Integral) and not isinstance(s, bool) and int(s) >= 0 for s in found
    ):
        raise ValueError(f"{what} are whole numbers, 0 or larger; got {seeds!r}.")
    # Plain numbers, as records hold them; NumPy's are no JSON.
    return list(dict.fromkeys(map(int, found)))


def check_measurable(data: ZeroShotDataset, settings: Sequence[str], most_shots: int = 0) -> None:
    """Refuse a setting or a number of shots that the active split cannot measure."""
    where = f"{data.name}, split {data.split!r}"
    if not len(data.active_split.test_unseen):
        raise ValueError(
            f"{where}, has no samples of unseen classes, so that nothing can be measured. Name "
            "unseen classes that have samples, or call fit directly (zslearn fit) to recognise "
            "those that have none."
        )
    if most_shots:
        draw_unseen(data, most_shots, 0)
    if "gzsl" not in settings:
        return
    if not len(data.active_split.test_seen):
        raise ValueError(
            f"{where}, has no test images of seen classes, which the generalized setting needs: "
            "hold some out when it is loaded (hold_out=0.2; on the command line --hold-out 0.2), "
            "or ask for the setting zsl alone."
        )
    if untested := untested_classes(data):
        raise ValueError(
            f"{where}, has no test images of these classes: {name_some(untested)}; the generalized "
            "setting measures every seen class. Hold out an image of each, or ask for the setting "
            "zsl alone."
        )


def untested_classes(data: ZeroShotDataset) -> list[Any]:
    """Seen classes without a test image: the generalized setting has no accuracy of them."""
    tested = set(data.y_test_seen.tolist())
    return [label for label in data.seen_classes.tolist() if label not in tested]


def draw_unseen(
    data: ZeroShotDataset, number: int | float, seed: int
) -> tuple[NDArray[np.intp], ZeroShotDataset]:
    """Draw test images of each unseen class, a number or a share; and the data without them.

    A larger number holds every smaller one of the same seed.
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
            f"draw {number} of each and test on others: {name_some(few)}."
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
    """The protocol for one split."""
    if isinstance(protocol, Protocol):
        if protocol.name in PROTOCOLS and not protocol.is_authors:
            raise ValueError(f"The name {protocol.name!r} is taken; call your protocol otherwise.")
        if n_splits is not None:
            raise ValueError("A Protocol has its own number of folds: n_splits is not for it.")
        return protocol
    if protocol == "default":
        return Protocol("default") if n_splits is None else Protocol("default", n_splits)
    if protocol != "authors":
        raise ValueError(f"There is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}.")
    if n_splits is not None:
        raise ValueError("The authors' protocol has five folds: n_splits is not for it.")
    return authors_protocol(data, authors, hold_out="gzsl" in settings)


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
) -> Iterator[Run]:
    """Every run, in the order in which they are computed."""
    # The data themselves are the same for every split, and large.
    whole = fingerprint(to_numpy(parts[0].X), parts[0].y)
    for (part, protocol), seed in product(zip(parts, protocols, strict=True), seeds):
        split = part.active_split
        rows = split.train, split.test_seen, split.test_unseen
        data_key = fingerprint(whole, part.signatures, *rows)
        # Not that of another run into the same folder, which may end before this one.
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
            )


# Runs in parallel, each in a process of its own.


def n_parallel_runs(n_runs: int, n_jobs: int | None) -> int:
    """How many runs to compute at a time."""
    if n_jobs in (None, 1) or type(get_active_backend()[0]).__name__ != "LokyBackend":
        return 1
    n_processes: int = joblib.effective_n_jobs(n_jobs)
    return n_processes if n_runs >= _RUNS_PER_PROCESS * n_processes else 1


def _run_parallel(
    runs: Sequence[Run], command: str | None, n_processes: int, begin: Callable[[Run], None]
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs in processes, each of which goes on with the next run when it is done."""

    def tasks() -> Iterator[Any]:
        for number, run in enumerate(runs):
            begin(run)
            yield joblib.delayed(_run_in_process)(number, run, command, n_processes, os.getpid())

    parallel = joblib.Parallel(
        n_jobs=n_processes, return_as="generator_unordered", batch_size=1, pre_dispatch=n_processes
    )
    try:
        with warnings.catch_warnings():
            # joblib renews a process whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            for number, reason, caught in parallel(tasks()):
                for warning in caught:
                    warn_user(str(warning), type(warning))
                yield runs[number], reason
    except TerminatedWorkerError as error:
        reason = str(error).partition("\n")[0]
        warn_user(f"A process was ended from outside ({reason}); the runs left go on one by one.")


def _run_in_process(
    number: int, run: Run, command: str | None, n_processes: int, caller: int
) -> tuple[int, str | None, list[Warning]]:
    """Compute a run: its number, why it failed and what it warned of."""
    end_with_parent(caller, child=True)
    with warnings.catch_warnings(record=True) as caught, shared_threads(n_processes):
        warnings.simplefilter("default")
        reason = run.write(command, 1, False)
    messages = [warning.message for warning in caught if isinstance(warning.message, Warning)]
    return number, reason, messages


def _compute_all(
    runs: Sequence[Run], n_jobs: int | None, progress: bool, command: str | None, say: Say
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs: each as it ends, with the reason where it failed."""
    left = list(runs)

    def begin(run: Run) -> None:
        say(f"{run.label}: tuning")

    if (n_processes := n_parallel_runs(len(runs), n_jobs)) > 1:
        with progress_bar(progress, len(runs), "runs") as advance:
            for run, reason in _run_parallel(runs, command, n_processes, begin):
                left.remove(run)
                yield run, reason
                advance(1)
    for run in left:
        begin(run)
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
    resume: bool = True,
    n_jobs: int | None = None,
    progress: bool = False,
    command: str | None = None,
    say: Say = lambda text: None,
) -> list[Path]:
    """Tune, fit and measure methods on a data set, and write one record for each.

    Every method is tuned by leaving out seen classes of the training part, fitted on all of that
    part, and then measured on the test parts: once for each split, seed and setting. A finished
    record is not computed again, and inside an unfinished one the search goes on where it was
    stopped. A damaged record is computed again with a warning.

    A method that fails does not end the run: its record gives the reason, the others go on, and a
    `FitFailedWarning` at the end names what failed. The next run with `resume` tries it again.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    methods : str or sequence of str
        Names as :func:`~zslearn.model_selection.find_method` takes them.
    out : str or path
        Folder of the records; it is made.
    settings : sequence of {"zsl", "gzsl"}
        Conventional, generalized, or both. Each is tuned for itself.
    splits : str or sequence of str, optional
        Splits of the data set; by default its active one. "ss" is all of "ss-1", "ss-2", ….
    seeds : int or sequence of int
        Each decides the folds, and is the random state of the method.
    protocol : {"default", "authors"} or Protocol
        How methods are tuned; see :class:`Protocol` and :func:`authors_protocol`.
    grid : {"fast", "paper", "paper-googlenet", "quick"}, optional
        Which of the methods' grids; by default that of the protocol: "fast", or "paper" for
        "authors". "quick" is a part of "fast", for a first look.
    n_splits : int, optional
        Folds over the seen classes; by default those of the protocol, five.
    authors : str or path, optional
        Folder of the authors' files, for the protocol "authors".
    shots : int or sequence of int, optional
        So many labelled test images of each unseen class are added to training, one run for each
        number; the others are tested. The seed draws them, and a larger number holds every smaller
        one. As many images of left-out classes are given back in tuning.
    unlabelled : {"zsl", "gzsl"}, optional
        Give the test images of the unseen classes, or of all classes, without their labels to the
        method's `adapt`: the transductive protocol. The name of the protocol in the records
        includes it, as it does `shots`.
    taxonomy : DataFrame, optional
        Ranks of classes, as :func:`~zslearn.signatures.taxonomy_signatures` takes them: records of
        the conventional setting also have the accuracy at each rank.
    subset : str or sequence of str, optional
        Taxa of `taxonomy`: only the unseen classes below these are tested and chosen among, beside
        the seen ones in the generalized setting.
    resume : bool
        Whether what is finished is kept.
    n_jobs : int, optional
        Processes. Where there are many runs, each computes one; else they compute the folds of one
        run after another. Records are the same.
    progress : bool
        Whether searches draw a bar.
    command : str, optional
        The command that makes the same records, for the report.
    say : callable
        Called with a line of text before each run, and after one that failed.

    Returns
    -------
    list of Path
        The records, in the order of splits, seeds, settings and methods; those of failed runs too.

    Raises
    ------
    ValueError, OSError
        Before anything is computed: a name is unknown, a setting cannot be measured on a split, or
        the folder cannot be written to.

    See Also
    --------
    read_records : What the records say.
    summarize_runs : The results as one table.
    """
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        raise ValueError(
            f"Unknown settings: {name_some(unknown)}. There are: {', '.join(SETTINGS)}."
        )
    seeds = chosen_numbers(seeds)
    numbers = None if shots is None else chosen_numbers(shots, "shots")
    named: dict[str, Method] = {}
    for name in [methods] if isinstance(methods, str) else methods:
        method = find_method(name)
        # Two spellings are one method; classes of two modules may share their name.
        named[name if ":" in name else method.name] = method
    parts = [data.with_split(name) for name in _chosen_splits(data, splits)]
    parts, ranks = _with_taxonomy(parts, taxonomy, subset)
    for part in parts:
        check_measurable(part, settings, max(numbers or [0]))
    if isinstance(protocol, Protocol) and protocol.is_for_one_split and len(parts) > 1:
        raise ValueError(
            f"The class_order and the rows held_out of the protocol {protocol.name!r} are those of "
            f"one split, but there are several: {name_some([part.split for part in parts])}. Run "
            "each split with its own Protocol."
        )
    protocols = [_protocol_of(protocol, part, settings, n_splits, authors) for part in parts]
    grid = grid or protocols[0].grid
    if grid not in GRIDS:
        raise ValueError(f"There is no grid named {grid!r}; there are: {', '.join(GRIDS)}.")
    runs = list(
        _plan_runs(
            parts, protocols, named, settings, seeds, Path(out), grid, numbers, unlabelled, ranks
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
            say(f"{run.label}: failed ({reason}); going on")

    for run in runs:
        try:
            run.check()
        except Exception as error:
            end(run, write_failure(run.path, run.origin(command), error))
    save_examples(data, out)
    todo = []
    for run in [run for run in runs if run not in failed]:
        if resume and is_finished(run.path, run.key):
            # Left by a run that was killed as soon as its record was written.
            shutil.rmtree(run.parts, ignore_errors=True)
            say(f"{run.label}: finished before")
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
            f"Runs failed: {name_some([run.label for run in failed])}. Their records say why; "
            "running again with resume tries them again.",
            FitFailedWarning,
        )
    return [run.path for run in runs]


def _with_taxonomy(
    parts: list[ZeroShotDataset],
    taxonomy: pd.DataFrame | None,
    subset: str | Sequence[str] | None,
) -> tuple[list[ZeroShotDataset], pd.DataFrame | None]:
    """The data with the unseen classes below some taxa, and the ranks of all classes."""
    if taxonomy is None:
        if subset is not None:
            raise ValueError("subset names taxa: give the taxonomy that they are of.")
        return parts, None
    ranks = filled_ranks(taxonomy)
    if subset is not None:
        taxa = [subset] if isinstance(subset, str) else list(subset)
        chosen = classes_below(taxonomy_hierarchy(ranks), taxa, classes=ranks.index)
        parts = [part.with_unseen(chosen, " and ".join(map(str, taxa))) for part in parts]
    unseen = dict.fromkeys(label for part in parts for label in part.unseen_classes.tolist())
    if missing := [label for label in unseen if label not in ranks.index]:
        raise ValueError(f"The taxonomy has no row of {name_some(missing)}.")
    return parts, ranks
