"""From a picture to the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

#: Ways to make a picture square.
CROPS = ("center", "squash")
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes the input of a network.

    Parameters
    ----------
    size : int
        Width and height of the input, in pixels.
    crop : {"center", "squash"}
        "center" takes the square in the middle of the picture, "squash" the whole picture, whose
        sides then shrink by different factors.
    crop_share : float
        With "center", the side of the square as a share of the picture's shorter side.
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}
        How the part is resized, by Pillow, which takes the mean over pixels that shrink into one.
    mean, std : (float, float, float)
        What is subtracted from red, green and blue, which go from 0 to 255, and what they are then
        divided by.

    Examples
    --------
    >>> from PIL import Image
    >>> from zslearn.features import Preprocessing
    >>> lite = Preprocessing(224, "center", 0.875, "bicubic", (127.0,) * 3, (128.0,) * 3)
    >>> lite.pixels(Image.new("RGB", (640, 480))).shape
    (224, 224, 3)
    """

    size: int
    crop: str
    crop_share: float
    interpolation: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if self.crop not in CROPS:
            raise ValueError(f"crop={self.crop!r}; it is one of {', '.join(map(repr, CROPS))}.")
        if self.interpolation not in _INTERPOLATIONS:
            raise ValueError(
                f"interpolation={self.interpolation!r}; it is one of "
                f"{', '.join(map(repr, _INTERPOLATIONS))}."
            )
        if not (1 <= self.size <= 4096 and 0 < self.crop_share <= 1 and min(self.std) > 0):
            raise ValueError(f"{self} cannot be: size, crop_share and std are positive.")

    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """The part of a picture that a network sees, at its size.

        Parameters
        ----------
        image : PIL.Image.Image
            In mode "RGB".

        Returns
        -------
        ndarray of uint8 of shape (size, size, 3)
            Red, green and blue.
        """
        from PIL import Image

        width, height = image.size
        part = (0.0, 0.0, float(width), float(height))
        if self.crop == "center":
            side = max(1.0, self.crop_share * min(width, height))
            left, top = (width - side) / 2, (height - side) / 2
            part = (left, top, left + side, top + side)
        method = Image.Resampling[self.interpolation.upper()]
        return np.asarray(image.resize((self.size, self.size), method, box=part))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What :meth:`as_dict` gave.

        Parameters
        ----------
        fields : mapping
            The fields by name.

        Returns
        -------
        Preprocessing
            The same.
        """
        try:
            red, green, blue = (float(value) for value in fields["mean"])
            reds, greens, blues = (float(value) for value in fields["std"])
            return cls(
                size=int(fields["size"]),
                crop=str(fields["crop"]),
                crop_share=float(fields["crop_share"]),
                interpolation=str(fields["interpolation"]),
                mean=(red, green, blue),
                std=(reds, greens, blues),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"This is no record of preprocessing: {error}.") from error


#: Mean and standard deviation of ImageNet's pixels, from 0 to 255.
IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)
