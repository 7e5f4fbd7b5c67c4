"""Tools that no other package of the library is above: arrays, blocks, files, processes, messages.

Private. `move_like`, `to_numpy`, `inherit_docs` and `InputWarning` are public in :mod:`zslearn.base`,
the folds over classes in :mod:`zslearn.model_selection`.
"""
