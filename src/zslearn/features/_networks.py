"""ResNet and GoogLeNet, with the names that torchvision gives to their weights.

A network is a tree of modules that hold the weights, and a function that goes through them. The
functions end after the pooling, whose output are the features; the last layer is there because
files of weights have it.

References
----------
K. He, X. Zhang, S. Ren and J. Sun, "Deep residual learning for image recognition", CVPR 2016.

C. Szegedy et al., "Going deeper with convolutions", CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zslearn.utils import import_optional

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


class Network(NamedTuple):
    """Weights, how to go through them, and how many features come out."""

    module: Module
    forward: Callable[[Module, Tensor], Tensor]
    n_features: int


def build_network(name: str) -> Network:
    """A network without trained weights.

    Parameters
    ----------
    name : {"resnet50", "resnet101", "googlenet"}
        Which one.

    Returns
    -------
    Network
        In evaluation mode.
    """
    nn = import_optional("torch", f"The network {name}").nn
    if name == "googlenet":
        return Network(_googlenet(nn).eval(), _googlenet_features, 1024)
    return Network(_resnet(nn, _RESNET_BLOCKS[name]).eval(), _resnet_features, 2048)


# --------------------------------------------------------------------------------------- ResNet


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


# ------------------------------------------------------------------------------------ GoogLeNet


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
