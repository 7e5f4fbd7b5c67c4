"""One fitted method on the test parts of one data set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from zslearn.calibration import CalibratedStacking
from zslearn.datasets import ZeroShotDataset
from zslearn.metrics import (
    ausuc,
    best_harmonic_mean,
    expected_calibration_error,
    flat_hit_at_k,
    generalized_accuracy,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)
from zslearn.scoring import softmax
from zslearn.utils import to_numpy, warn_user

_P = ParamSpec("_P")
_R = TypeVar("_R")


def measure_conventional(model: Any, data: ZeroShotDataset) -> dict[str, float]:
    """Measure a fitted method on images of unseen classes, chosen among these.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted on the training part.
    data : ZeroShotDataset
        The data set, with its active split.

    Returns
    -------
    dict of str to float
        "per_class_accuracy", "per_sample_accuracy", and "flat_hit_at_k" for k = 2, 5, 10 where
        there are as many classes.
    """
    k = min(10, len(data.unseen_classes))
    top, _ = model.predict_top_k(data.X_test_unseen, k, classes=data.unseen_classes)
    y_true = data.y_test_unseen
    found = {
        "per_class_accuracy": float(per_class_accuracy(y_true, top[:, 0])),
        "per_sample_accuracy": float(per_sample_accuracy(y_true, top[:, 0])),
    }
    for at in (2, 5, 10):
        if at <= k:
            found[f"flat_hit_at_{at}"] = float(flat_hit_at_k(y_true, top, at))
    return found


@dataclass(frozen=True)
class GeneralizedScores:
    """Scores of all test images against all classes.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
        Labels of the test images, those of seen classes first.
    scores : ndarray of shape (n_samples, n_classes)
        Scores without calibration; columns follow `classes`.
    classes, seen_classes : ndarray
        The candidates, and the seen ones among them.
    """

    y_true: NDArray[Any]
    scores: NDArray[Any]
    classes: NDArray[Any]
    seen_classes: NDArray[Any]

    @classmethod
    def of(cls, model: Any, data: ZeroShotDataset) -> GeneralizedScores:
        """Score the test parts of a data set by a method without calibration."""
        X = np.concatenate([data.X_test_seen, data.X_test_unseen])
        y_true = np.concatenate([data.y_test_seen, data.y_test_unseen])
        scores = to_numpy(model.decision_function(X, classes=model.classes_))
        return cls(y_true, scores, model.classes_, model.seen_classes_)

    def measure(self, bias: float) -> dict[str, float]:
        """Measure the generalized setting, without calibration and at a factor.

        Parameters
        ----------
        bias : float
            Calibration factor, found on the training data.

        Returns
        -------
        dict of str to float
            Accuracies "seen" and "unseen" and their "harmonic" mean; the same with the prefix
            ``"calibrated_"``; "ausuc"; and "harmonic_best", the curve's maximum, which no honest
            choice of the factor promises.
        """
        problem = vars(self)
        seen, unseen = generalized_accuracy(**problem)
        held_seen, held_unseen = generalized_accuracy(**problem, bias=bias)
        return {
            "seen": float(seen),
            "unseen": float(unseen),
            "harmonic": float(harmonic_mean(seen, unseen)),
            "calibrated_seen": float(held_seen),
            "calibrated_unseen": float(held_unseen),
            "calibrated_harmonic": float(harmonic_mean(held_seen, held_unseen)),
            "ausuc": float(ausuc(**problem)),
            "harmonic_best": float(best_harmonic_mean(**problem)[0]),
        }

    def calibration_errors(self, bias: float, temperature: float) -> dict[str, float]:
        """Measure how honest the probabilities at a factor and a temperature are.

        Parameters
        ----------
        bias : float
            Calibration factor, found on the training data.
        temperature : float
            What scores are divided by, found on the training data.

        Returns
        -------
        dict of str to float
            "expected_calibration_error" of all test images among all classes, and
            "unseen_expected_calibration_error" of those of unseen classes among these.
        """
        is_seen = np.isin(self.classes, self.seen_classes)
        of_unseen = ~np.isin(self.y_true, self.seen_classes)
        chances = softmax(self.scores - bias * is_seen, temperature)
        among_unseen = softmax(self.scores[of_unseen][:, ~is_seen], temperature)
        unseen = self.classes[~is_seen]
        return {
            "expected_calibration_error": expected_calibration_error(
                self.y_true, chances, classes=self.classes
            ),
            "unseen_expected_calibration_error": expected_calibration_error(
                self.y_true[of_unseen], among_unseen, classes=unseen
            ),
        }


@dataclass(frozen=True, repr=False)
class Evaluation:
    """One method with given hyper-parameters, measured in both settings.

    Parameters
    ----------
    method : str
        Name of the method.
    metrics : dict of str to float
        See :func:`measure_conventional`, :meth:`GeneralizedScores.measure` and
        :meth:`GeneralizedScores.calibration_errors`.
    bias : float
        Calibration factor, found on the training data.
    seconds : float
        Time to fit the method once.
    model : zero-shot estimator
        Fitted on all of the training part.
    generalized : GeneralizedScores
        What curves are drawn from.
    dataset : str, default=""
        Name and split of the data set.
    """

    method: str
    metrics: dict[str, float]
    bias: float
    seconds: float
    model: Any
    generalized: GeneralizedScores
    dataset: str = ""

    def __repr__(self) -> str:
        on = f" on {self.dataset}" if self.dataset else ""
        found = {name: f"{value:.3f}" for name, value in self.metrics.items()}
        hits = {name.removeprefix("flat_hit_at_"): name for name in found if "flat_hit" in name}
        lines = [
            f"<Evaluation of {self.method}{on}>",
            "  unseen classes, chosen among these",
            f"    accuracy        {found['per_class_accuracy']} per class, "
            f"{found['per_sample_accuracy']} per sample",
        ]
        if hits:
            shares = ", ".join(f"{k}: {found[name]}" for k, name in hits.items())
            lines.append(f"    among the best  {shares}")
        lines += ["  all classes       without calibration  calibrated"]
        for name, title in (("seen", "seen"), ("unseen", "unseen"), ("harmonic", "harmonic mean")):
            lines.append(f"    {title:<15} {found[name]:<20} {found[f'calibrated_{name}']}")
        lines.append(f"    AUSUC           {found['ausuc']}")
        if "expected_calibration_error" in found:
            lines.append(f"    ECE             {'':<20} {found['expected_calibration_error']}")
        lines.append(f"  calibration factor {self.bias:.4g}; fitted in {self.seconds:.2g} s")
        return "\n".join(_cut(line) for line in lines)


#: How wide a line of a printout may be.
_WIDTH = 80


def _cut(line: str) -> str:
    """A line that fits a screen: a long name of one's own is cut, never a number."""
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]}…>"


def _name_last(measure: Callable[_P, _R]) -> Callable[_P, _R]:
    """Take the name before the estimator, as formerly, as well; with a warning."""

    @functools.wraps(measure)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        former = "method" in kwargs or (args and isinstance(args[0], str))
        if not former:
            return measure(*args, **kwargs)
        name, *rest = (kwargs.pop("method"), *args) if "method" in kwargs else args
        warn_user(
            "evaluate(name, estimator, data) is now evaluate(estimator, data), with "
            f"name={name!r} if you want one. The former order ends with version 0.3.",
            FutureWarning,
        )
        return measure(*rest, name=name, **kwargs)  # type: ignore[arg-type]

    return wrapper


@_name_last
def evaluate(
    estimator: Any, data: ZeroShotDataset, *, name: str | None = None, cv: int = 5
) -> Evaluation:
    """Fit a method as it is on the training part and measure it on both test parts.

    Nothing is chosen on test images: the calibration factor comes from leaving out seen classes.

    Parameters
    ----------
    estimator : zero-shot estimator
        The method; a clone is fitted.
    data : ZeroShotDataset
        The data set, with its active split.
    name : str or None, default=None
        Name of the method, for tables; by default that of its class, with that of an inner method.
    cv : int, default=5
        Folds over the seen classes for the calibration factor.

    Returns
    -------
    Evaluation
        Every number, the fitted method and its scores. Printed, it fits a screen.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.experiments import evaluate
    >>> evaluate(ESZSL(), make_zero_shot(random_state=0))
    <Evaluation of ESZSL on make_zero_shot, split ns>
      unseen classes, chosen among these
        accuracy        0.887 per class, 0.887 per sample
        among the best  2: 0.980, 5: 1.000
      all classes       without calibration  calibrated
        seen            0.717                0.6...
        unseen          0.647                0.7...
        harmonic mean   0.680                0.7...
        AUSUC           0.656
        ECE                                  0.0...
      calibration factor 0.0...; fitted in ... s
    """
    stacked = CalibratedStacking(estimator, temperature="cv", cv=cv).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    model, bias = stacked.estimator_, stacked.bias_
    generalized = GeneralizedScores.of(model, data)
    return Evaluation(
        method=_name_of(estimator) if name is None else name,
        metrics=measure_conventional(model, data)
        | generalized.measure(bias)
        | generalized.calibration_errors(bias, stacked.temperature_),
        bias=bias,
        seconds=stacked.refit_time_,
        model=model,
        generalized=generalized,
        dataset=f"{data.name}, split {data.split}",
    )


def _name_of(estimator: Any) -> str:
    """The name of a method's class, with that of an inner method: "EXEM (ESZSL)"."""
    inner = getattr(estimator, "estimator", None)
    name = type(estimator).__name__
    return name if inner is None else f"{name} ({_name_of(inner)})"
