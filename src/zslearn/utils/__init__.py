"""Small tools that know nothing of zero-shot learning."""

from zslearn.utils._array import (
    Array,
    Floats,
    floating,
    is_foreign,
    is_symbolic,
    move_like,
    plain_tensor,
    row_lengths,
    take_rows,
    to_numpy,
    unit_rows,
)
from zslearn.utils._array_cache import (
    DamagedCacheError,
    cache_folder,
    read_arrays,
    write_arrays,
)
from zslearn.utils._blocks import block_length, row_blocks
from zslearn.utils._checked_json import DamagedFileError, read_checked_json, write_checked_json
from zslearn.utils._device import block_budget, moves_kept, on_device
from zslearn.utils._docs import fill_docstring
from zslearn.utils._files import refuse_folder, replacing
from zslearn.utils._fingerprint import fingerprint
from zslearn.utils._folds import class_folds, hold_out_per_class
from zslearn.utils._jit import jit, jit_inner
from zslearn.utils._kept_fits import KeptFits, keeping_fits, keeps_fits, kept_fit
from zslearn.utils._keywords import names_keywords
from zslearn.utils._numbers import is_share
from zslearn.utils._optional import import_optional
from zslearn.utils._parts import part_name, saved_part, saved_parts
from zslearn.utils._processes import end_with_parent
from zslearn.utils._progress import progress_bar
from zslearn.utils._read_ahead import read_ahead
from zslearn.utils._rows import read_rows, separator_hint
from zslearn.utils._rows_in_blocks import Block, RowsInBlocks
from zslearn.utils._sklearn import checks_arguments, checks_parameters
from zslearn.utils._split import ClassKFold, GeneralizedClassKFold
from zslearn.utils._suggest import (
    did_you_mean,
    look_alikes,
    name_near_misses,
    name_pairs,
    normal_form,
    suggest,
)
from zslearn.utils._text import name_some, plain
from zslearn.utils._threads import (
    blas_threads,
    free_threads,
    in_threads,
    one_blas_thread,
    shared_threads,
    threads_for,
)
from zslearn.utils._transformers import transform_array
from zslearn.utils._twins import composed, refuse_twins
from zslearn.utils._warnings import InputWarning, warn_once, warn_user

__all__ = [
    "Array",
    "Block",
    "ClassKFold",
    "DamagedCacheError",
    "DamagedFileError",
    "Floats",
    "GeneralizedClassKFold",
    "InputWarning",
    "KeptFits",
    "RowsInBlocks",
    "blas_threads",
    "block_budget",
    "block_length",
    "cache_folder",
    "checks_arguments",
    "checks_parameters",
    "class_folds",
    "composed",
    "did_you_mean",
    "end_with_parent",
    "fill_docstring",
    "fingerprint",
    "floating",
    "free_threads",
    "hold_out_per_class",
    "import_optional",
    "in_threads",
    "is_foreign",
    "is_share",
    "is_symbolic",
    "jit",
    "jit_inner",
    "keeping_fits",
    "keeps_fits",
    "kept_fit",
    "look_alikes",
    "move_like",
    "moves_kept",
    "name_near_misses",
    "name_pairs",
    "name_some",
    "names_keywords",
    "normal_form",
    "on_device",
    "one_blas_thread",
    "part_name",
    "plain",
    "plain_tensor",
    "progress_bar",
    "read_ahead",
    "read_arrays",
    "read_checked_json",
    "read_rows",
    "refuse_folder",
    "refuse_twins",
    "replacing",
    "row_blocks",
    "row_lengths",
    "saved_part",
    "saved_parts",
    "separator_hint",
    "shared_threads",
    "suggest",
    "take_rows",
    "threads_for",
    "to_numpy",
    "transform_array",
    "unit_rows",
    "warn_once",
    "warn_user",
    "write_arrays",
    "write_checked_json",
]
