"""Files of weights, read without running what they might hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zslearn.utils import import_optional, name_some, plain

#: What files of weights have in front of the names of a network.
_PREFIXES = ("module.", "model.", "backbone.")
#: Parts that do not matter to the features: the last layer, and GoogLeNet's side branches.
_NOT_NEEDED = ("fc.", "_fc.", "aux1.", "aux2.")
_COUNTER = "num_batches_tracked"


def read_weights(path: Path) -> tuple[dict[str, Any], str]:
    """Tensors by name from a file, and the SHA-256 of the file.

    Parameters
    ----------
    path : Path
        A file of torch (.pth, .pt, .bin), of which only tensors are read, or of safetensors.

    Returns
    -------
    tensors : dict
        By name.
    digest : str
        64 hexadecimal digits.

    Raises
    ------
    ValueError
        The file holds no such tensors.
    OSError
        The file cannot be read.
    """
    torch = import_optional("torch", "Reading weights")
    digest = file_digest(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    # Both packages raise errors of every kind for damaged files.
    except Exception as error:
        # What torch says at length is how to read the file all the same, which may run its code.
        raise ValueError(
            f"{plain(path)}: the weights cannot be read ({type(error).__name__}). The file is "
            "damaged, or holds something else than tensors; give a state_dict of torch, or "
            "safetensors."
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    tensors = {str(k): v for k, v in found.items()} if isinstance(found, Mapping) else {}
    if not tensors or not all(torch.is_tensor(value) for value in tensors.values()):
        raise ValueError(f"{plain(path)}: there is no state_dict, which is tensors by name.")
    return tensors, digest


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors_digest(module: Any) -> str:
    """The SHA-256 of the weights that a module has, where no file is known."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        digest.update(values.flatten().view(import_optional("torch", "Weights").uint8).numpy())
    return digest.hexdigest()


def put_weights(
    module: Any, tensors: Mapping[str, Any], name: str, path: str | os.PathLike[str]
) -> None:
    """Put tensors into a network; all that the features need must be there, and nothing else.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    tensors : mapping
        Tensors by name; a common prefix such as "module." is taken away.
    name : str
        What the network is called, for errors.
    path : path
        Where the tensors come from, for errors.
    """
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in tensors):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    wanted = module.state_dict()
    needed = {k for k in wanted if not k.startswith(_NOT_NEEDED) and not k.endswith(_COUNTER)}
    given = {k: v for k, v in tensors.items() if not k.startswith(_NOT_NEEDED)}
    if missing := sorted(needed - set(given)):
        raise ValueError(
            f"{plain(path)}: these are not the weights of {name}: {len(missing)} of "
            f"{len(needed)} tensors are missing, such as {name_some(missing, 3)}; the file has "
            f"{name_some(list(given), 3)}."
        )
    if unknown := sorted(set(given) - set(wanted)):
        raise ValueError(
            f"{plain(path)}: these are not the weights of {name}, which has no "
            f"{name_some(unknown, 3)}."
        )
    for key, value in given.items():
        if value.shape != wanted[key].shape:
            raise ValueError(
                f"{plain(path)}: these are not the weights of {name}: {key!r} has shape "
                f"{tuple(value.shape)} instead of {tuple(wanted[key].shape)}."
            )
    module.load_state_dict(given, strict=False)
