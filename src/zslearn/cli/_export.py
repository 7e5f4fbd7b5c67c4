"""`zslearn export`: a saved model in a format of other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command `export`."""
    parser = commands.add_parser(
        "export",
        parents=[common],
        help="write a saved model as an ONNX file",
        description="Write a saved model as an ONNX file: features in, scores and labels out. The "
        "file is run by onnxruntime and compared with the model before it is kept.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.zsl", help="a model that fit has saved")
    parser.add_argument("file", type=Path, metavar="MODEL.onnx", help="where the ONNX file goes")
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not run the file (onnxruntime is then not needed)",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.file.suffix.lower() != ".onnx":
        raise ValueError(f"{arguments.file} must end in .onnx: no other format can be written.")
    # Imported here so that the help of a command does not wait for the whole library.
    from zslearn.export import export_onnx
    from zslearn.persistence import load
    from zslearn.utils import plain, refuse_folder

    refuse_folder(arguments.file)

    model = load(arguments.model)
    file = export_onnx(model, arguments.file, check=not arguments.no_check)
    size = file.stat().st_size / 2**20
    print(
        f"{plain(file)}: {len(model.classes_)} classes, {model.n_features_in_} features in, "
        f"{size:.1f} MiB"
    )
    return 0
