"""`zslearn demo`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._output import print_table, say
from zslearn.experiments import run_demo

_COLUMNS = {
    "per_class_accuracy": "unseen among unseen",
    "seen": "seen",
    "unseen": "unseen",
    "harmonic": "H",
    "calibrated_seen": "seen, cal.",
    "calibrated_unseen": "unseen, cal.",
    "calibrated_harmonic": "H, cal.",
    "ausuc": "AUSUC",
    "seconds": "seconds",
}


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        parents=[common],
        help="recognise letters that the model never saw",
        description="Fit the quick methods on the embedded glyphs and recognise letters that they "
        "never saw. Prints a table; writes it and two pictures to a folder.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("zslearn-demo"),
        metavar="FOLDER",
        help="where to write (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo, print its table and name its files."""
    demo = run_demo(arguments.out, say=say, progress=True)
    shown = pd.DataFrame(
        {
            title: [
                f"{value:.2f}" if name == "seconds" else f"{value:.3f}"
                for value in demo.table[name]
            ]
            for name, title in _COLUMNS.items()
        },
        index=demo.table.index,
    )
    print_table(shown, title="Glyphs, split ns: per-class accuracies")
    print("cal.: seen classes held back by a factor found on the training classes alone.")
    for path in demo.files:
        print(f"wrote {path}")
    return 0
