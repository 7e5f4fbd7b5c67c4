"""Utilities without dependencies on the rest of the library: arrays, files, processes, messages.

This package is private. :mod:`zslearn.base` exports `move_like`, `to_numpy`, `inherit_docs` and
`InputWarning`, and :mod:`zslearn.model_selection` the cross-validation splitters.
"""
