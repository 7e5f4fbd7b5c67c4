"""`zslearn serve`: a saved model behind HTTP."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from zslearn._utils._messages import plain

# `zslearn export`: a saved model in a format of other programs.


def add_parsers_export(commands: Any, common: argparse.ArgumentParser) -> None:
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
    from zslearn._utils._files import refuse_folder
    from zslearn._utils._messages import plain
    from zslearn.persistence._model_files import load
    from zslearn.persistence._onnx import export_onnx

    refuse_folder(arguments.file)

    model = load(arguments.model)
    file = export_onnx(model, arguments.file, check=not arguments.no_check)
    size = file.stat().st_size / 2**20
    print(
        f"{plain(file)}: {len(model.classes_)} classes, {model.n_features_in_} features in, "
        f"{size:.1f} MiB"
    )
    return 0


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command `serve`."""
    parser = commands.add_parser(
        "serve",
        parents=[common],
        help="serve a model file over HTTP, with a page for people",
        description="Serve a model file over HTTP: predictions of images or features, classes that "
        "are added by describing them, and a page for people. Only this machine is answered unless "
        "there is a token.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file .zsl")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to listen at (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="PORT", help="port (default: %(default)s)"
    )
    parser.add_argument(
        "--token",
        default=None,
        metavar="TOKEN",
        help="what requests must carry; needed where other machines can reach the service. The "
        "environment variable ZSLEARN_TOKEN does the same, and is seen by fewer",
    )
    parser.add_argument(
        "--added",
        type=Path,
        default=None,
        metavar="FILE",
        help="where added classes are kept (default: MODEL.added.json)",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        default=None,
        metavar="FILE",
        help="weights, for a network that needs them",
    )
    parser.add_argument(
        "--device", default="auto", metavar="DEVICE", help="cpu, cuda, … (default: a GPU if any)"
    )
    parser.add_argument(
        "--text-encoder",
        default=None,
        metavar="NAME",
        help="what reads texts of added classes, for a model that names an encoder in a folder",
    )
    _add_limits(parser)
    parser.set_defaults(run=run_serve)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    for word, kind, what in (
        ("--max-body", float, "MiB of a request's body (default: 32)"),
        ("--max-pixels", int, "pixels of an image (default: 50000000)"),
        ("--max-batch", int, "images or vectors of one request (default: 64)"),
        ("--max-added", int, "classes that may be added (default: 1000)"),
        ("--max-in-flight", int, "requests at the same time (default: 64)"),
        ("--timeout", float, "seconds for a request (default: 30)"),
    ):
        group.add_argument(word, type=kind, default=None, metavar="N", help=what)


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    # Imported here so that the help of a command does not wait for the whole library.
    from zslearn.serving._guard import Limits
    from zslearn.serving._recognizer import Recognizer
    from zslearn.serving._service import serve

    chosen = {
        "body_bytes": None if arguments.max_body is None else int(arguments.max_body * 2**20),
        "pixels": arguments.max_pixels,
        "batch": arguments.max_batch,
        "added_classes": arguments.max_added,
        "in_flight": arguments.max_in_flight,
        "seconds": arguments.timeout,
    }
    limits = Limits(**{name: value for name, value in chosen.items() if value is not None})
    token = arguments.token or os.environ.get("ZSLEARN_TOKEN") or None
    recognizer = Recognizer(
        arguments.model,
        added=arguments.added,
        weights=arguments.weights,
        device=arguments.device,
        limits=limits,
        encoder=arguments.text_encoder,
    )
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    what = "images and features" if recognizer.backbone is not None else "features"
    print(
        f"zslearn: {plain(arguments.model)}: {len(recognizer.snapshot.label_of)} classes, takes "
        f"{what}; serving at http://{plain(host)}:{arguments.port}/ (Ctrl-C ends it)",
        file=sys.stderr,
        flush=True,
    )
    serve(recognizer, host=arguments.host, port=arguments.port, token=token)
    return 0
