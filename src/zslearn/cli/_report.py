"""`zslearn report`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from zslearn.experiments import write_report


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        parents=[common],
        help="records as one page to look at",
        description="Write records as one page for a browser, which needs no network: the main "
        "numbers beside the published ones, curves, ranks, a page for each method and each class, "
        "what the searches found, times, versions and the command that makes it again. Only reads "
        "records.",
    )
    parser.add_argument("runs", type=Path, metavar="RUNS", help="the folder of the records")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    parser.add_argument(
        "--title", default=None, help="what stands above (default: the data sets are named)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    path = write_report(arguments.runs, arguments.out, title=arguments.title)
    print(f"wrote {path}")
    return 0
