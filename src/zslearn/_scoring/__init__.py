"""Scores of images and classes: preparation, embedding, scores in blocks, the best classes.

Private. `ClassScorer`, `Embedding` and `score_precision` are public in :mod:`zslearn.base`.

- `_embedding`: features prepared as they are read, and embedded once for many estimators;
- `_classes`: parameters of classes made ready for the score function;
- `_blocks`: scores and the k best classes, block by block, on the host (compiled) or on a device;
- `_scorer`: the frozen object that all predictions of a fitted estimator work on;
- `_probabilities`: softmax at a temperature, and the temperature that fits.
"""
