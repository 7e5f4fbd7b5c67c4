"""The contract of every method: embed, synthesize, score.

A zero-shot method takes image features into a space (`embed`), makes the parameters of any
described class there (`synthesize`), and scores pairs by the function that `score_function` names::

    image features X ──► embed(X) ─────────┐
                                           ├──► score ──► a number per (image, class)
    class signatures ──► synthesize(S) ────┘

A method derives from :class:`ZeroShotClassifier` and writes `_fit`, `embed` and `synthesize`. What
a user calls is written once, in :class:`ZeroShotPredictor`, and works on a :class:`ClassScorer`,
made when classes are described. A wrapper derives from :class:`ZeroShotMetaClassifier` and makes
its scorer from that of the estimator inside. :mod:`zslearn.base.checks` has checks for authors.

Public are the names below; a subclass may also define `_fit`, `_fit_many`, `_remove`, `_learn`,
`_wrap` and `_parameter_constraints`. The modules are private: what `fit` was given (`_training`),
sums over training rows (`_class_statistics`), all estimators (`_predictor`), methods
(`_classifier`), wrappers and pipelines (`_meta`).
"""

from zslearn._scoring._blocks import score_precision
from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import InputWarning
from zslearn.base._classifier import (
    AcceptsSampleWeight,
    ZeroShotClassifier,
    group_by_params,
    group_by_params_except,
)
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.base._training import Training

__all__ = [
    "AcceptsSampleWeight",
    "ClassScorer",
    "Embedding",
    "InputWarning",
    "Training",
    "ZeroShotClassifier",
    "ZeroShotMetaClassifier",
    "ZeroShotPredictor",
    "group_by_params",
    "group_by_params_except",
    "inherit_docs",
    "move_like",
    "score_precision",
    "to_numpy",
]
