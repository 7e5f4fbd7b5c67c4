"""How much a service takes on."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """How much a service takes on; what is beyond is refused with a reason.

    Parameters
    ----------
    body_bytes : int, default=33554432
        Bytes of a request's body, whether it says its length or not.
    pixels : int, default=50000000
        Pixels that an image may claim; more are refused before it is decoded.
    batch : int, default=64
        Images or feature vectors of one request.
    added_classes : int, default=1000
        Classes that may be added to those of the model file.
    in_flight : int, default=64
        Requests at the same time; further ones are answered with 503 and when to try again.
    seconds : float, default=30.0
        For a request from its first byte to the answer.

    Examples
    --------
    >>> from zslearn.serving import Limits
    >>> Limits(batch=8).batch
    8
    """

    body_bytes: int = 32 * 2**20
    pixels: int = 50_000_000
    batch: int = 64
    added_classes: int = 1000
    in_flight: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "added_classes" else 1e-3
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"The limit {field.name}={value!r} must be a positive number.")
