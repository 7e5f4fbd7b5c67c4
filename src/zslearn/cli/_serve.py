"""`zslearn serve` and `zslearn export`: serve a saved model over HTTP, or export it to ONNX.

The library is imported when a command runs, so that the help is shown without delay.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from zslearn.cli import _output as out

#: Field of `Limits` → its option, type and help.
_LIMITS = {
    "body_bytes": ("--max-body", float, "size of a request body in MiB (default: 32)"),
    "pixels": ("--max-pixels", int, "pixels per image (default: 50000000)"),
    "batch": ("--max-batch", int, "images or feature vectors per request (default: 64)"),
    "added_classes": ("--max-added", int, "number of added classes (default: 1000)"),
    "examples": ("--max-examples", int, "number of stored corrections (default: 1000)"),
    "unlabelled": ("--max-unlabelled", int, "unlabelled images to adapt to (default: 1000)"),
    "in_flight": ("--max-in-flight", int, "concurrent requests (default: 64)"),
    "seconds": ("--timeout", float, "seconds per request (default: 30)"),
}


def _run_export(arguments: argparse.Namespace) -> None:
    """Export a model file to ONNX, as a graph that maps features to scores and labels.

    Before the file is written, onnxruntime checks that it gives the same results as the model.
    """
    if arguments.file.suffix.lower() != ".onnx":
        raise ValueError(f"{arguments.file}: the name of the file must end in .onnx.")
    from zslearn._utils._files import refuse_unwritable
    from zslearn.persistence import export_onnx, load

    refuse_unwritable(arguments.file)
    model = load(arguments.model)
    file = export_onnx(model, arguments.file, check=not arguments.no_check)
    size = file.stat().st_size / 2**20
    classes = f"{len(model.classes_)} classes, {model.n_features_in_} features"
    out.wrote(file, f"{classes}, {size:.1f} MiB")
    out.note(classes=model.classes_, n_features=model.n_features_in_)


def _run_serve(arguments: argparse.Namespace) -> None:
    """Serve a model file over HTTP, with a web page.

    The service predicts images or feature vectors, adds classes from their descriptions, and learns
    from corrections, which are saved in the model file. Without a token, it only answers requests
    from this machine.
    """
    from zslearn.datasets import read_odds, read_ranks
    from zslearn.images import read_class_texts
    from zslearn.serving import Limits, serve

    flags = {name: flag[2:].replace("-", "_") for name, (flag, _, _) in _LIMITS.items()}
    limits = {name: getattr(arguments, flag) for name, flag in flags.items()}
    if limits["body_bytes"] is not None:
        limits["body_bytes"] = int(limits["body_bytes"] * 2**20)
    serve(
        arguments.model,
        **out.values_of(arguments, "host", "port", "pictures", "weights", "device"),
        token=arguments.token or os.environ.get("ZSLEARN_TOKEN") or None,
        limits=Limits(**{name: value for name, value in limits.items() if value is not None}),
        encoder=arguments.text_encoder,
        prior=None if arguments.prior is None else read_odds(arguments.prior),
        taxonomy=None if arguments.taxonomy is None else read_ranks(arguments.taxonomy),
        describe=None if arguments.describe is None else read_class_texts(arguments.describe),
    )


_TOKEN = (
    "secret that requests must send, required if other machines can reach the service (default: "
    "ZSLEARN_TOKEN)"
)
OPTIONS = {
    "export": (
        _run_export,
        ("model", ("MODEL.zsl", Path), ..., "model file to export"),
        ("file", ("MODEL.onnx", Path), ..., "file to write"),
        ("--no-check", bool, False, "skip the check, which needs onnxruntime"),
    ),
    "serve": (
        _run_serve,
        ("model", "MODEL", ..., "model file (.zsl)"),
        ("--host", "HOST", "127.0.0.1", "address to listen on"),
        ("--port", int, 8000, "port"),
        ("--token", "TOKEN", None, _TOKEN),
        ("--pictures", "FOLDER", None, "folder of the training images, shown as thumbnails"),
        ("--weights", "FILE", None, "weights file, for networks that need one"),
        ("--device", "DEVICE", "auto", "cpu, cuda, …; auto uses a GPU if there is one"),
        ("--text-encoder", "NAME", None, "text encoder, if the model file names one in a folder"),
        ("--prior", "FILE", None, out.PRIOR),
        ("--describe", "FILE", None, "classes to add: CSV table (class, text) or JSON file"),
        ("--taxonomy", "FILE", None, f"{out.TAXONOMY}; requests can then name a taxon"),
        "limits",
        *((flag, kind, None, text) for flag, kind, text in _LIMITS.values()),
    ),
}
