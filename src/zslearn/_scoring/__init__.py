"""Scoring of rows against classes. :mod:`zslearn.base` exports the public names.

- `_embedding`: feature preparation, and rows embedded once for many estimators;
- `_blocks`: scores and the exact k best classes in blocks, on the host or on a device;
- `_scorer`: the immutable object behind all predictions of a fitted estimator;
- `_probabilities`: softmax with a temperature, and the estimate of the temperature.
"""
