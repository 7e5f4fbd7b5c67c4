"""Networks of the packages timm and open_clip, where they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from zslearn.features._preprocessing import Preprocessing
from zslearn.features._weights import put_weights, read_weights, tensors_digest
from zslearn.utils import plain

#: Names that the packages give to ways of resizing which Pillow calls otherwise.
_WAYS = {"random": "bilinear", "bicubic": "bicubic", "bilinear": "bilinear", "nearest": "nearest"}


def _package(module: str, package: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"The backbone {name} needs {module}, which is not installed. Install it with: "
            f"pip install {package}"
        ) from error


def timm_backbone(name: str, path: Path | None, device: str) -> dict[str, Any]:
    """Fields of a backbone by a network of timm, without its last layer.

    Parameters
    ----------
    name : str
        "timm:NAME".
    path : Path or None
        A file of weights; by default those that timm has under the name.
    device : str
        Where to compute.

    Returns
    -------
    dict
        Fields of :class:`Backbone`.
    """
    timm = _package("timm", "timm", name)
    module = timm.create_model(name.partition(":")[2], pretrained=path is None, num_classes=0)
    digest = _put_or_digest(module, path, name)
    found = timm.data.resolve_model_data_config(module)
    size = int(found["input_size"][-1])
    return {
        "preprocessing": Preprocessing(
            size,
            "squash" if found.get("crop_mode") == "squash" else "center",
            min(1.0, float(found.get("crop_pct") or 1.0)),
            _way(str(found.get("interpolation", "bicubic"))),
            _bytes(found["mean"]),
            _bytes(found["std"]),
        ),
        "weights_sha256": digest,
        "n_features": int(module.num_features),
        "forward": module.eval().to(device),
    }


def open_clip_backbone(name: str, path: Path | None, device: str) -> dict[str, Any]:
    """Fields of a backbone by a model of open_clip: its side for pictures, and that for text.

    Parameters
    ----------
    name : str
        "open_clip:NAME" or "open_clip:NAME/WEIGHTS", both as open_clip names them.
    path : Path or None
        A file of weights, which takes the place of WEIGHTS.
    device : str
        Where to compute.

    Returns
    -------
    dict
        Fields of :class:`Backbone`.
    """
    open_clip = _package("open_clip", "open_clip_torch", name)
    model_name, _, tag = name.partition(":")[2].partition("/")
    if model_name.startswith("hf-hub:"):
        model_name, tag = name.partition(":")[2], ""
    elif not tag and path is None:
        listed = open_clip.list_pretrained()
        known = [weights for model, weights in listed if model == model_name]
        raise ValueError(
            f"{name} has no weights; name them as open_clip:{model_name}/WEIGHTS, where WEIGHTS is "
            f"one of {', '.join(known) or 'none that open_clip knows'}, or give a file."
        )
    module = open_clip.create_model(model_name, pretrained=(tag or None) if path is None else None)
    digest = _put_or_digest(module, path, name)
    module = module.eval().to(device)
    tokenize = open_clip.get_tokenizer(model_name)
    found = open_clip.get_model_preprocess_cfg(module)
    size = found["size"] if isinstance(found["size"], int) else found["size"][0]

    def forward_text(texts: Sequence[str]) -> Any:
        return module.encode_text(tokenize(list(texts)).to(device))

    preprocessing = Preprocessing(
        int(size),
        "squash" if found.get("resize_mode") == "squash" else "center",
        1.0,
        _way(str(found.get("interpolation", "bicubic"))),
        _bytes(found["mean"]),
        _bytes(found["std"]),
    )
    return {
        "preprocessing": preprocessing,
        "weights_sha256": digest,
        "n_features": len(forward_text(["a photo"])[0]),
        "forward": module.encode_image,
        "forward_text": forward_text,
    }


def _put_or_digest(module: Any, path: Path | None, name: str) -> str:
    """Put the weights of a file into a module, if there is one; a digest of what it then has."""
    if path is None:
        return tensors_digest(module)
    tensors, digest = read_weights(path)
    put_weights(module, tensors, name, path)
    return digest


def _way(name: str) -> str:
    if name not in _WAYS:
        raise ValueError(f"Pictures cannot be resized by {plain(name)!r} here.")
    return _WAYS[name]


def _bytes(values: Sequence[float]) -> tuple[float, float, float]:
    """Three numbers for pixels from 0 to 255, given for pixels from 0 to 1."""
    red, green, blue = (255.0 * float(value) for value in values)
    return red, green, blue
