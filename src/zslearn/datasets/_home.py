"""Where data sets lie."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

DATA_VARIABLE = "ZSLEARN_DATA"


def data_home(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return `folder`, else the folder named by ``ZSLEARN_DATA``, else the user's data folder."""
    chosen = folder or os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("zslearn")
    return Path(chosen).expanduser()
