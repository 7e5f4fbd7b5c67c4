"""Images in a webdataset archive: images a core second of reading, of the network and of both.

The images are synthetic photographs of the size of ImageNet's, 500 × 375, in JPEG. The network is
EfficientNet-Lite0, the default, and the model has described classes only by their number, since
scoring them is measured elsewhere.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _common import Report, interleaved

from zslearn import BatchPredictor, save
from zslearn.baselines import ESZSL
from zslearn.images import load_backbone, predict_shards, read_image

IMAGES, CLASSES = 256, 1_000


def write_archive(path: Path, n_images: int) -> list[bytes]:
    """An archive of smooth random images with some noise, and their bytes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    contents = []
    with tarfile.open(path, "w") as archive:
        for number in range(n_images):
            small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
            pixels = np.asarray(small.resize((500, 375), Image.Resampling.BICUBIC), dtype=float)
            pixels = (pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "JPEG", quality=85)
            member = tarfile.TarInfo(f"{number:06}.jpg")
            contents.append(file.getvalue())
            member.size = len(contents[-1])
            archive.addfile(member, io.BytesIO(contents[-1]))
    return contents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few images")
    n_images = 16 if parser.parse_args().quick else IMAGES
    network = load_backbone(device="cpu")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * CLASSES, network.n_features)).astype(np.float32)
    table = pd.DataFrame(rng.standard_normal((CLASSES, 64)))
    model = ESZSL().fit(X, np.arange(2 * CLASSES) % CLASSES, signatures=table)
    report = Report("shards", "Images in an archive, in processor seconds")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contents = write_archive(folder / "0.tar", n_images)
        save(model, folder / "model.zsl", about={"features": network.about})
        predictor = BatchPredictor(folder / "model.zsl", "jpg", device="cpu")
        pixels = [network.preprocessing.pixels(read_image(content)) for content in contents]
        batches = [np.stack(pixels[i : i + 64]) for i in range(0, n_images, 64)]
        options = {"resume": False}
        times = interleaved(
            {
                "read": lambda: [network.preprocessing.pixels(read_image(c)) for c in contents],
                "network": lambda: [network.features_of_pixels(batch) for batch in batches],
                "predict_shards": lambda: predict_shards(
                    predictor, [folder / "0.tar"], folder / "out", **options
                ),
            },
            repeats=3,
        )
        size = sum(map(len, contents)) / n_images
    for job, seconds in times.items():
        report.add(
            job=job,
            images=n_images,
            bytes_per_image=size,
            core_seconds=seconds,
            images_per_core_second=n_images / seconds,
        )
    report.save()


if __name__ == "__main__":
    main()
