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

from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.base._row_sums import RowSpectrum
from zslearn.base._stream_scores import count_block, stream_hits
from zslearn.base._streams import (
    StreamedSamples,
    is_dask,
    is_streamed,
    needs_rows,
    read_blocks,
    stream_samples,
)
from zslearn.base._summed_training import check_block_labels
from zslearn.base._together import fit_together
from zslearn.base._training import Training
from zslearn.base._variants import alike, alike_but_for, with_setting
from zslearn.base._weights import AcceptsSampleWeight, fit_weighted, weighted_samples

__all__ = [
    "AcceptsSampleWeight",
    "RowSpectrum",
    "StreamedSamples",
    "Training",
    "ZeroShotClassifier",
    "ZeroShotMetaClassifier",
    "ZeroShotPredictor",
    "alike",
    "alike_but_for",
    "check_block_labels",
    "count_block",
    "fit_together",
    "fit_weighted",
    "is_dask",
    "is_streamed",
    "needs_rows",
    "read_blocks",
    "stream_hits",
    "stream_samples",
    "weighted_samples",
    "with_setting",
]
