"""The contract of every method: embed, synthesize, score.

A zero-shot method embeds image features (`embed`), builds the parameters of any described class in
the same space (`synthesize`), and compares both by the function named by `score_function`::

    image features X ──► embed(X) ─────────┐
                                           ├──► score ──► a score per (image, class)
    class signatures ──► synthesize(S) ────┘

A method derives from :class:`ZeroShotClassifier` and defines `_fit`, `embed` and `synthesize`. The
methods that users call are defined once in :class:`ZeroShotPredictor`, in terms of a
:class:`ClassScorer`. A wrapper derives from :class:`ZeroShotMetaClassifier` and builds its scorer
from that of the inner estimator. :mod:`zslearn.base.checks` has checks for authors of methods.

The names below are public; a subclass may also define `_fit`, `_fit_many`, `_remove`, `_learn`,
`_wrap` and `_parameter_constraints`. The private modules are: the arguments of `fit` (`_training`),
sums over training rows (`_class_statistics`), samples that are not in memory (`_streams`), the base
of all estimators (`_predictor`), of methods (`_classifier`), and of wrappers (`_meta`).
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
