"""Devices and threads for training with torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import array_api_compat as compat

from zslearn._utils._array import Array

# With fewer multiplications per step than this, a second thread costs more time than it saves.
_ONE_THREAD_WORK = 1_000_000


def training_device(X: Array, device: str | None) -> Any:
    """The device of `X` if it is a tensor, else the requested one, else a GPU if there is one."""
    import torch

    if compat.is_torch_array(X):
        return X.device
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ValueError('device="cuda", but torch finds no GPU. Use device="cpu" or None.')
    return torch.device(device or ("cuda" if has_gpu else "cpu"))


@contextmanager
def training_threads(work: int) -> Iterator[None]:
    """Restrict torch to one thread if a step has few multiplications."""
    import torch

    before = torch.get_num_threads()
    try:
        if work < _ONE_THREAD_WORK:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
