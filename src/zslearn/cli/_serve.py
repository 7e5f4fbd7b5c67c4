"""`zslearn serve`: a saved model behind HTTP; `zslearn export`: a saved model as an ONNX file.

The library is imported when a command runs, so that its help does not wait.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from zslearn._utils._messages import plain
from zslearn.cli._output import PRIOR, TAXONOMY

#: Field of `Limits` → option, its type and its help.
_LIMITS = {
    "body_bytes": ("--max-body", float, "MiB of a request's body (default: 32)"),
    "pixels": ("--max-pixels", int, "pixels of an image (default: 50000000)"),
    "batch": ("--max-batch", int, "images or vectors of one request (default: 64)"),
    "added_classes": ("--max-added", int, "classes that may be added (default: 1000)"),
    "examples": ("--max-examples", int, "corrections that are kept (default: 1000)"),
    "unlabelled": ("--max-unlabelled", int, "pictures to adapt to (default: 1000)"),
    "in_flight": ("--max-in-flight", int, "requests at the same time (default: 64)"),
    "seconds": ("--timeout", float, "seconds for a request (default: 30)"),
}


def _run_export(arguments: argparse.Namespace) -> int:
    """Write a saved model as an ONNX file: features in, scores and labels out.

    The file is run by onnxruntime and compared with the model before it is kept.
    """
    if arguments.file.suffix.lower() != ".onnx":
        raise ValueError(f"{arguments.file} must end in .onnx: no other format can be written.")
    from zslearn._utils._files import refuse_unwritable
    from zslearn.persistence import export_onnx, load

    refuse_unwritable(arguments.file)
    model = load(arguments.model)
    file = export_onnx(model, arguments.file, check=not arguments.no_check)
    size = file.stat().st_size / 2**20
    print(
        f"{plain(file)}: {len(model.classes_)} classes, {model.n_features_in_} features in, "
        f"{size:.1f} MiB"
    )
    return 0


def _run_serve(arguments: argparse.Namespace) -> int:
    """Serve a model file over HTTP, with a page for people.

    Answers predictions of images or features, adds classes by describing them, and learns from
    corrections, which are written into the model file. Only this machine is answered unless there
    is a token.
    """
    from zslearn.datasets import read_odds, read_ranks
    from zslearn.images import read_class_texts
    from zslearn.serving import Limits, serve

    words = {name: word[2:].replace("-", "_") for name, (word, _, _) in _LIMITS.items()}
    limits = {name: getattr(arguments, word) for name, word in words.items()}
    if limits["body_bytes"] is not None:
        limits["body_bytes"] = int(limits["body_bytes"] * 2**20)
    serve(
        arguments.model,
        host=arguments.host,
        port=arguments.port,
        token=arguments.token or os.environ.get("ZSLEARN_TOKEN") or None,
        pictures=arguments.pictures,
        weights=arguments.weights,
        device=arguments.device,
        limits=Limits(**{name: value for name, value in limits.items() if value is not None}),
        encoder=arguments.text_encoder,
        prior=None if arguments.prior is None else read_odds(arguments.prior),
        taxonomy=None if arguments.taxonomy is None else read_ranks(arguments.taxonomy),
        describe=None if arguments.describe is None else read_class_texts(arguments.describe),
    )
    return 0


_TOKEN = "needed in requests where other machines reach the service; or set ZSLEARN_TOKEN"
OPTIONS = {
    "export": (
        _run_export,
        ("model", ("MODEL.zsl", Path), ..., "a model that fit has saved"),
        ("file", ("MODEL.onnx", Path), ..., "where the ONNX file goes"),
        ("--no-check", bool, False, "do not run the file (onnxruntime is then not needed)"),
    ),
    "serve": (
        _run_serve,
        ("model", "MODEL", ..., "a model file .zsl"),
        ("--host", "HOST", "127.0.0.1", "address to listen at"),
        ("--port", int, 8000, "port"),
        ("--token", "TOKEN", None, _TOKEN),
        ("--pictures", "FOLDER", None, "the training pictures, of which small copies are shown"),
        ("--weights", "FILE", None, "weights, for a network that needs them"),
        ("--device", "DEVICE", "auto", "cpu, cuda, …; auto is a GPU if any"),
        ("--text-encoder", "NAME", None, "for a model that names an encoder in a folder"),
        ("--prior", "FILE", None, PRIOR),
        ("--describe", "FILE", None, "add the classes of a .csv (class, text) or .json of texts"),
        ("--taxonomy", "FILE", None, f"{TAXONOMY}: requests may name a taxon to choose within"),
        "limits",
        *((word, kind, None, text) for word, kind, text in _LIMITS.values()),
    ),
}
