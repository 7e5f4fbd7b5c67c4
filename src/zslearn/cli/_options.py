"""Words that several commands share."""

from __future__ import annotations

import argparse

from joblib import cpu_count


def add_jobs(parser: argparse.ArgumentParser, what: str = "folds") -> None:
    """Add `--jobs`: how many folds, or whatever else, are computed at the same time."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=cpu_count(only_physical_cores=False),
        metavar="N",
        help=f"{what} at the same time (default: one per core, here %(default)s)",
    )
