"""Tools that no other package of the library is above: arrays, blocks, files, processes, messages.

Private. :mod:`zslearn.base` shows `move_like`, `to_numpy`, `inherit_docs` and `InputWarning`,
:mod:`zslearn.model_selection` the folds over classes.
"""
