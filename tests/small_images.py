"""Pictures in folders, and stand-ins for packages of networks."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

COLORS = {
    "red": (220, 20, 30),
    "green": (20, 200, 40),
    "blue": (30, 20, 210),
    "yellow": (220, 210, 30),
    "cyan": (20, 210, 220),
    "magenta": (210, 30, 200),
}


def write_image(path: Path, color, *, seed: int = 0, size=(24, 16), **options) -> Path:
    """A picture of one colour with a little noise."""
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(seed)
    noise = rng.integers(-15, 16, (size[1], size[0], 3))
    pixels = (np.asarray(color) + noise).clip(0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def write_colors(folder: Path, names=COLORS, n_images: int = 4, first: int = 0) -> Path:
    """A folder with one folder per colour."""
    for name in names:
        for i in range(n_images):
            write_image(folder / name / f"{i}.png", COLORS[name], seed=first + i)
    return folder


def tiny_timm() -> types.ModuleType:
    """A package with timm's interface: one network, whose features are means of colours."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        num_features = 12

        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            pooled = torch.nn.functional.adaptive_avg_pool2d(x, 2)
            return (pooled * self.scale.view(1, 3, 1, 1)).flatten(1)

    timm = types.ModuleType("timm")
    timm.calls = []

    def create_model(name, pretrained, num_classes):
        timm.calls.append((name, pretrained, num_classes))
        if name not in ("tiny", "tiny2"):
            raise RuntimeError(f"Unknown model ({name})")
        net = Net()
        if name == "tiny2":
            net.scale.data.mul_(2)
        return net

    timm.create_model = create_model
    timm.data = types.SimpleNamespace(
        resolve_model_data_config=lambda model: {
            "input_size": (3, 8, 8),
            "interpolation": "bicubic",
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.25, 0.5),
            "crop_pct": 0.9,
            "crop_mode": "center",
        }
    )
    return timm


def tiny_open_clip() -> types.ModuleType:
    """A package with open_clip's interface, whose texts are colours."""
    torch = pytest.importorskip("torch")

    class Clip(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def encode_image(self, x):
            return x.mean((2, 3)) * self.scale

        def encode_text(self, tokens):
            return tokens.float() * self.scale

    def tokenize(texts):
        def color(text):
            found = [COLORS[word] for word in text.strip(".").split() if word in COLORS]
            return (np.asarray(found[0] if found else (127, 127, 127)) - 127.5).tolist()

        return torch.tensor([color(text) for text in texts])

    open_clip = types.ModuleType("open_clip")
    open_clip.list_pretrained = lambda: [("ViT-T", "colors"), ("ViT-T", "other"), ("ViT-B", "x")]
    open_clip.create_model = lambda name, pretrained: Clip()
    open_clip.get_tokenizer = lambda name: tokenize
    open_clip.get_model_preprocess_cfg = lambda model: {
        "size": (8, 8),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    }
    return open_clip


@pytest.fixture
def timm(monkeypatch):
    """The stand-in, where timm is imported from."""
    module = tiny_timm()
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


@pytest.fixture
def open_clip(monkeypatch):
    """The stand-in, where open_clip is imported from."""
    module = tiny_open_clip()
    monkeypatch.setitem(sys.modules, "open_clip", module)
    return module
