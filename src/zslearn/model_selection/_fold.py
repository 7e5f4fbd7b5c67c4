"""One fold of a search: every setting fitted without some classes and scored on these."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._probabilities import best_temperature
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, Floats, take_rows, to_numpy
from zslearn._utils._device import on_device
from zslearn._utils._files import DamagedFileError, read_checked_json, write_checked_json
from zslearn._utils._fit_cache import keeping_fits
from zslearn._utils._messages import InputWarning, warn_once, warn_user
from zslearn._utils._processes import end_with_parent, threads_for
from zslearn._utils._validation import is_share
from zslearn.base._pipeline import ZeroShotPipeline
from zslearn.calibration._held_out import Fold, some_rows, spread
from zslearn.metrics._curve import seen_unseen_summary
from zslearn.signatures._table import SignatureTable

# What a search has finished, on disk: whole files that only the same search reads.
#
# A file carries a checksum. One that is damaged or was edited, or whose scores cannot be scores,
# is
# passed over with a warning, and what it held is computed again.

_SECONDS = 5.0


class Checkpoint:
    """Finished settings of one fold.

    Parameters
    ----------
    folder : Path or None
        Where the file lies; None keeps nothing.
    fold : int
        Number of the fold.
    key : str
        Fingerprint of the search. A file of another search counts as absent.
    n_settings : int
        How many settings the search has.
    names : iterable of str
        What every setting must have a number of.
    fractions : iterable of str
        Those of them that lie between 0 and 1.
    """

    def __init__(
        self,
        folder: Path | None,
        fold: int,
        key: str,
        *,
        n_settings: int,
        names: Iterable[str],
        fractions: Iterable[str] = (),
    ) -> None:
        self.path = None if folder is None else folder / f"fold-{fold}-{key[:16]}.json"
        self.key = key
        self.done: dict[int, dict[str, float]] = {}
        self._n_settings = n_settings
        self._names, self._fractions = frozenset(names), frozenset(fractions)
        self._written = time.monotonic()
        if self.path is not None:
            self.done = self._read(self.path)

    def _read(self, path: Path) -> dict[int, dict[str, float]]:
        try:
            content = read_checked_json(path)
            if content.get("key") != self.key:
                return {}
            return self._checked(content.get("done"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, DamagedFileError) as error:
            warn_user(f"Passed over the checkpoint {path}: {error}. Its scores are computed again.")
            return {}

    def _checked(self, done: Any) -> dict[int, dict[str, float]]:
        """Scores by setting, each in its range; DamagedFileError where they are not."""
        if not isinstance(done, dict):
            raise DamagedFileError("'done' is not an object")
        checked: dict[int, dict[str, float]] = {}
        settings = {str(index) for index in range(self._n_settings)}
        for word, scores in done.items():
            if word not in settings:
                raise DamagedFileError(f"there is no setting {word[:20]!r}")
            if not isinstance(scores, dict) or not scores.keys() >= self._names:
                raise DamagedFileError(f"setting {word} lacks scores")
            checked[int(word)] = {name: self._number(name, v) for name, v in scores.items()}
        return checked

    def _number(self, name: str, value: Any) -> float:
        """A score; what was NaN is written as null."""
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise DamagedFileError(f"{name!r:.60} is {value!r:.60}, not a number")
        if name in self._fractions and not is_share(value):
            raise DamagedFileError(f"{name!r:.60} is {value!r:.60}, not between 0 and 1")
        try:
            return float(value)
        except OverflowError:
            raise DamagedFileError(f"{name!r:.60} is too large a number") from None

    def refresh(self) -> None:
        """Also take what another process has finished since, as one that was killed."""
        if self.path is not None:
            self.done = self._read(self.path) | self.done

    def add(self, index: int, scores: dict[str, float]) -> None:
        """Keep what a setting gave; written now and then."""
        self.done[index] = scores
        if time.monotonic() - self._written > _SECONDS:
            self.write()

    def write(self) -> None:
        """Write all that is finished; a search goes on without a checkpoint if it cannot."""
        if self.path is None:
            return
        done = {
            str(index): {name: None if math.isnan(v) else v for name, v in scores.items()}
            for index, scores in self.done.items()
        }
        try:
            write_checked_json(self.path, {"key": self.key, "done": done})
        except OSError as error:
            # Of the folder: every fold has a file there, and meets the same.
            warn_once(
                f"Could not write checkpoints to {self.path.parent} "
                f"({error.strerror or type(error).__name__}). The search goes on; if it is "
                "stopped, it starts anew."
            )
        self._written = time.monotonic()

    def table(self, n_settings: int, names: Sequence[str]) -> dict[str, Floats]:
        """What every setting gave, by name, in the order of the settings; NaN for none."""
        missing = float("nan")
        return {
            name: np.asarray([self.done.get(i, {}).get(name, missing) for i in range(n_settings)])
            for name in names
        }


Advance = Callable[[int], None]

#: Seconds that are kept of each setting beside its scores.
TIMES = ("fit_time", "score_time")
#: 1 where all classes score alike on every image, beside the scores of each setting.
TIED = "tied"
# So many settings fail alone in the same way, none succeeds: the others are not tried.
_SAME_FAILURES = 3


@dataclass(frozen=True)
class FoldResult:
    """What a fold gave.

    Parameters
    ----------
    scores : dict of str to ndarray of shape (n_settings,)
        By name, those in `TIMES` and `TIED` too; NaN where a setting failed.
    failures : dict of int to str
        Settings that failed, with the reason.
    n_read_fits : int, default=0
        Fits that were read, as another search had computed them.
    reused_time : float, default=0.0
        Seconds that these had taken.
    """

    scores: dict[str, Floats]
    failures: dict[int, str]
    n_read_fits: int = 0
    reused_time: float = 0.0


@dataclass(frozen=True)
class FoldTask:
    """What a worker needs to compute one fold.

    Parameters
    ----------
    estimator : zero-shot estimator
        Not fitted.
    X, y : arrays
        All samples and their labels.
    weights : ndarray of shape (n_samples,) or None
        How much each sample counts in training.
    table : SignatureTable
        Signatures of the seen classes.
    fold : (train, test)
        Rows to train on, rows to validate on.
    settings : sequence of mappings
        Hyper-parameters.
    scorers : mapping of str to (callable or None)
        Scores by name; None for those of the library.
    names : sequence of str
        What is kept of each setting: the scores, in the generalized setting also "bias" and the
        "spread" that its unit is, and "temperature" where one is wanted.
    checkpoint : Checkpoint
        What was finished before.
    raise_errors : bool
        Whether a setting that fails ends the search.
    caller : int
        Number of the process that asked.
    memory : Path or None, default=None
        Where fits are kept that several searches have in common.
    """

    estimator: Any
    X: Any
    y: NDArray[Any]
    weights: Floats | None
    table: SignatureTable
    fold: Fold
    settings: Sequence[Mapping[str, Any]]
    scorers: Mapping[str, Any]
    names: Sequence[str]
    checkpoint: Checkpoint
    raise_errors: bool
    caller: int
    memory: Path | None = None

    def run(self, advance: Advance | None = None) -> FoldResult:
        """Score every setting; what is finished already is not computed again."""
        end_with_parent(self.caller)
        advance = advance or (lambda amount: None)
        validation = self._validation()
        left = [i for i in range(len(self.settings)) if i not in self.checkpoint.done]
        advance(len(self.settings) - len(left))
        failures: dict[int, str] = {}
        try:
            with warnings.catch_warnings(), keeping_fits(self.memory) as kept_fits:
                # Said again when the chosen setting is fitted on all of the data.
                warnings.simplefilter("ignore", InputWarning)
                self._fit_or_halve(left, validation, advance, failures)
        finally:
            # Also after Ctrl-C: what is finished is not lost.
            if left:
                self.checkpoint.write()
        kept = [*self.names, *TIMES, TIED]
        scores = self.checkpoint.table(len(self.settings), kept)
        if kept_fits is None:
            return FoldResult(scores, failures)
        return FoldResult(scores, failures, kept_fits.n_read, kept_fits.seconds)

    def _fit_or_halve(
        self,
        wanted: list[int],
        validation: Validation,
        advance: Advance,
        failures: dict[int, str],
    ) -> None:
        """Fit some settings together; where one fails, halves of them, down to the one.

        So the others go on sharing their work.
        """
        try:
            self._fit_and_score(wanted, validation, advance)
        except Exception as error:
            if self.raise_errors:
                raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            left = [i for i in wanted if i not in self.checkpoint.done]
            same = sum(other == reason for other in failures.values())
            hopeless = not self.checkpoint.done and same >= _SAME_FAILURES
            if len(wanted) == 1 or hopeless:
                failures.update(dict.fromkeys(left, reason))
                advance(len(left))
            else:
                middle = -(-len(left) // 2)
                for half in (left[:middle], left[middle:]):
                    self._fit_or_halve(half, validation, advance, failures)

    def _validation(self) -> Validation:
        train, test = self.fold
        unseen = np.setdiff1d(self.table.labels, self.y[train])
        trained = take_rows(self.X, train[some_rows(len(train))])
        return Validation(take_rows(self.X, test), self.y[test], unseen, trained)

    def _fit_and_score(self, left: list[int], validation: Validation, advance: Advance) -> None:
        """Fit some settings together; what each gave is kept at once.

        The time of a fit is that since the model before was scored. What settings share is in the
        time of the first that needs it.
        """
        if not left:
            return
        train, _ = self.fold
        start = time.perf_counter()
        fitted = self.estimator.fit_grid(
            take_rows(self.X, train),
            self.y[train],
            signatures=self.table,
            settings=[self.settings[i] for i in left],
            **self._options(train, validation),
        )
        for position, model in fitted:
            is_fitted = time.perf_counter()
            found = validation.measure(model, self.scorers, self.names)
            times = is_fitted - start, time.perf_counter() - is_fitted
            self.checkpoint.add(left[position], found | dict(zip(TIMES, times, strict=True)))
            advance(1)
            start = time.perf_counter()

    def _options(self, train: NDArray[np.intp], validation: Validation) -> dict[str, Any]:
        """What a fit is told beside its samples: their weights, and what need not be described."""
        options: dict[str, Any] = {}
        if self.weights is not None:
            options["sample_weight"] = self.weights[train]
        # Accuracy among the classes left out asks for no others; a function of the user's may.
        only_accuracy = dict(self.scorers) == {"accuracy": None}
        only_accuracy &= set(self.names) <= {"accuracy", "temperature"}
        if only_accuracy and getattr(self.estimator, "describes_each_alone", False):
            options["classes"] = validation.unseen
        return options


class Validation:
    """Images that validate a fold, and what estimators score on them.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Their features.
    y : ndarray of shape (n_samples,)
        Their labels.
    unseen : ndarray of shape (n_unseen,)
        The classes left out.
    trained : array of shape (n_trained, n_features)
        Some of the images that estimators are trained on.
    """

    def __init__(self, X: Any, y: NDArray[Any], unseen: NDArray[Any], trained: Any) -> None:
        self.X, self.y, self.unseen = X, y, unseen
        self.is_unseen = np.isin(y, unseen)
        # Positions of the true classes among those left out, and how many images each has.
        self._true = np.searchsorted(unseen, y[self.is_unseen])
        self._counts = np.bincount(self._true)
        self._images, self._trained = _Images(X), _Images(trained)

    def measure(
        self, model: Any, scorers: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, float]:
        """The scores of a fitted estimator, by name, and whether all classes score alike."""
        with threads_for(2.0 * math.prod(self.X.shape) * len(model.classes_)):
            return self._measure(model, scorers, names)

    def _measure(
        self, model: Any, scorers: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, float]:
        rows, scorer = self._images.meet(model)
        generalized = "bias" in names
        found: dict[str, float] = {}
        if "accuracy" in scorers or ("temperature" in names and not generalized):
            found |= self._conventional(rows, scorer, "temperature" in names)
        if generalized:
            found |= self._generalized(rows, scorer, model.seen_classes_, "temperature" in names)
        if "spread" in names:
            rows, scorer = self._trained.meet(model)
            found["spread"] = spread(scorer.scores(rows, model.seen_classes_))
        for name, function in scorers.items():
            if callable(function):
                unseen_rows = take_rows(self.X, np.flatnonzero(self.is_unseen))
                labels = self.y[self.is_unseen]
                found[name] = float(function(model, unseen_rows, labels, self.unseen))
        return {name: found[name] for name in names} | {TIED: found.get(TIED, float("nan"))}

    def _conventional(
        self, rows: EmbeddedRows, scorer: ClassScorer, with_temperature: bool
    ) -> dict[str, float]:
        """Per-class accuracy on the classes left out, among these, and the best temperature."""
        scores = scorer.scores(rows, self.unseen)
        if not self.is_unseen.all():
            scores = take_rows(scores, np.flatnonzero(self.is_unseen))
        # As `per_class_accuracy`, which would encode the labels again for each setting.
        best, tied = _best_and_tied(scores)
        right = best == self._true
        tested = self._counts > 0
        hits = np.bincount(self._true[right], minlength=len(self._counts))
        accuracy = float((hits[tested] / self._counts[tested]).mean())
        found = {"accuracy": accuracy, TIED: tied}
        if with_temperature:
            found["temperature"] = best_temperature(to_numpy(scores), self._true)
        return found

    def _generalized(
        self,
        rows: EmbeddedRows,
        scorer: ClassScorer,
        seen: NDArray[Any],
        with_temperature: bool,
    ) -> dict[str, float]:
        """The area under the curve, its best harmonic mean, and the factor that gives it."""
        scores = to_numpy(scorer.scores(rows))
        problem: dict[str, Any] = {
            "y_true": self.y,
            "scores": scores,
            "classes": scorer.labels,
            "seen_classes": seen,
            "missing": "ignore",
        }
        area, best, factor = seen_unseen_summary(**problem)
        found = {
            "ausuc": area,
            "harmonic_mean": best,
            "bias": factor,
            TIED: _tied(scores),
        }
        if with_temperature:
            lowered = scores - factor * np.isin(scorer.labels, seen)
            found["temperature"] = best_temperature(lowered, np.searchsorted(scorer.labels, self.y))
        return found


class _Images:
    """Images that the estimators of a fold meet one after another.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Their features.
    """

    def __init__(self, X: Any) -> None:
        self._X = X
        # Estimators of one grid often embed images in the same way.
        self._rows = EmbeddedRows(X)
        # Pipelines of one grid often share their transformers.
        self._transformed: tuple[Any, EmbeddedRows] | None = None

    def meet(self, model: Any) -> tuple[EmbeddedRows, ClassScorer]:
        """The images and the scorer that they meet; of a pipeline, after its transformers."""
        if not isinstance(model, ZeroShotPipeline):
            return self._rows, model.class_scorer_
        transformers = model.transformers_
        if self._transformed is None or self._transformed[0] is not transformers:
            self._transformed = transformers, EmbeddedRows(model.transform_rows(self._X))
        return self._transformed[1], model.steps[-1][1].class_scorer_


def _best_and_tied(scores: Array) -> tuple[NDArray[np.intp], float]:
    """Position of the best class of each image, of equal ones the first; and :func:`_tied`.

    Scores on a device stay there: to bring them all to the host takes longer than to make them.
    """
    if not on_device(scores):
        scores = to_numpy(scores)
        return scores.argmax(axis=1), _tied(scores)
    xp = compat.array_namespace(scores)
    highest, lowest = xp.max(scores, axis=1, keepdims=True), xp.min(scores, axis=1)
    places = xp.arange(scores.shape[1], device=compat.device(scores))[None, :]
    best = xp.min(xp.where(scores == highest, places, scores.shape[1]), axis=1)
    largest = xp.max(xp.abs(xp.stack([highest[:, 0], lowest])))
    alike = xp.all(highest[:, 0] - lowest <= 4 * xp.finfo(scores.dtype).eps * largest)
    return to_numpy(best), float(scores.shape[1] > 1 and bool(alike))


def _tied(scores: Floats) -> float:
    """1 where two or more classes score alike on every image, but for rounding, else 0."""
    if scores.shape[1] < 2:
        return 0.0
    rounding = 4 * np.finfo(scores.dtype).eps * np.abs(scores).max(initial=0.0)
    return float((np.ptp(scores, axis=1) <= rounding).all())
