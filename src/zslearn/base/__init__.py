"""The contract of every method: embed · synthesize · score.

A zero-shot method is three verbs. `embed` takes image features into a space, `synthesize` makes the
parameters of any described class, and the score named by `score_function` is how the two meet::

    image features X ──► embed(X) ─────────┐
                                           ├──► score ──► a number per (image, class)
    class signatures ──► synthesize(S) ────┘

A method derives from :class:`ZeroShotClassifier` and writes `_fit`, `embed` and `synthesize`; what
a user calls is written once, in :class:`ZeroShotPredictor`, and works on the scorer that was made
when classes were described. A wrapper derives from :class:`ZeroShotMetaClassifier` and makes its
scorer from that of the estimator inside.
"""

from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import InputWarning
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.base._training import Training
from zslearn.base._variants import fit_variants, group_by_params, group_by_params_except
from zslearn.base._weights import AcceptsSampleWeight, fit_weighted, weighted_samples

__all__ = [
    "AcceptsSampleWeight",
    "ClassScorer",
    "Embedding",
    "InputWarning",
    "Training",
    "ZeroShotClassifier",
    "ZeroShotMetaClassifier",
    "ZeroShotPredictor",
    "fit_variants",
    "fit_weighted",
    "group_by_params",
    "group_by_params_except",
    "inherit_docs",
    "move_like",
    "to_numpy",
    "weighted_samples",
]
