"""The picture of the service's page in the guide: `python docs/serving_picture.py`.

Pictures of shapes in colours are drawn; the network is EfficientNet-Lite0 (extra `images`). Of some
pairs of a colour and a shape the model has a description alone. That of red hearts says nothing of
the shape: one of them is corrected. Red stars are described on the page.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from zslearn.images import Description, extract_features, save_fitted
from zslearn.serving import create_app
from zslearn.synthesis import GaussianEXEM

COLORS = {
    "red": (208, 48, 44),
    "green": (46, 140, 72),
    "blue": (40, 90, 190),
    "yellow": (236, 190, 40),
}
SHAPES = ("circle", "square", "triangle", "star", "ring")
#: Without training pictures: described in the file, or only on the page.
DESCRIBED = ("green square", "blue ring", "red heart")
NEW = ("red star", "yellow triangle")


def draw(color: str, shape: str, seed: int) -> Image.Image:
    """A shape somewhere in a picture."""
    rng = np.random.default_rng(seed)
    paper = tuple(int(v) for v in rng.integers(225, 256, 3))
    image = Image.new("RGB", (448, 448), paper)
    pen = ImageDraw.Draw(image)
    x, y = rng.uniform(190, 258, 2)
    size = rng.uniform(105, 150)
    ink = tuple(int(np.clip(v + rng.integers(-14, 15), 0, 255)) for v in COLORS[color])
    corners = {"square": (4, 1.0), "triangle": (3, 1.0), "star": (5, 0.42)}
    if shape in corners:
        n, inner = corners[shape]
        turn = rng.uniform(-0.25, 0.25) - np.pi / 2 + (np.pi / 4 if shape == "square" else 0)
        radii = [size, size * inner] * n if shape == "star" else [size] * n
        angles = turn + 2 * np.pi * np.arange(len(radii)) / len(radii)
        points = [
            (x + r * np.cos(a), y + r * np.sin(a)) for r, a in zip(radii, angles, strict=True)
        ]
        pen.polygon(points, fill=ink)
    elif shape == "heart":
        t = np.linspace(0, 2 * np.pi, 80)
        heights = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
        outline = zip(x + size * np.sin(t) ** 3, y - size * heights / 16, strict=True)
        pen.polygon(list(outline), fill=ink)
    else:
        pen.ellipse((x - size, y - size, x + size, y + size), fill=ink)
        if shape == "ring":
            hole = size * 0.62
            pen.ellipse((x - hole, y - hole, x + hole, y + hole), fill=paper)
    return image


def make_model(folder: Path) -> Path:
    """Draw pictures of most pairs of a colour and a shape, and fit a model."""
    rows = {}
    for i, color in enumerate(COLORS):
        for j, shape in enumerate(SHAPES):
            name = f"{color} {shape}"
            if name in NEW:
                continue
            rows[name] = [float(color == c) for c in COLORS] + [float(shape == s) for s in SHAPES]
            for k in range(0 if name in DESCRIBED else 6):
                path = folder / "images" / name / f"{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                draw(color, shape, 1000 * i + 100 * j + k).save(path)
    features = extract_features(folder / "images", device="cpu", progress=True)
    rows["red heart"] = [1.0] + [0.0] * (len(COLORS) + len(SHAPES) - 1)
    signatures = pd.DataFrame(rows, index=[*COLORS, *SHAPES]).T
    model = GaussianEXEM().fit(features.X, features.y, signatures=signatures)
    description = Description(signatures, {"kind": "table"})
    save_fitted(model, folder / "shapes.zsl", features, description, method="Gaussian EXEM")
    return folder / "shapes.zsl"


def serve_in_thread(path: Path) -> str:
    """Serve the model; the address of its page."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(path, pictures=path.parent / "images")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/"


def take(
    browser: Any, address: str, pictures: list[Path], out: Path, width: int, scheme: str
) -> None:
    """Correct one red heart, describe red stars, and save what is seen before they are added."""
    window = {"width": width, "height": 860}
    context = browser.new_context(viewport=window, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(address)
    tab.locator("#main").wait_for()
    tab.locator("#files").set_input_files([str(path) for path in pictures])
    tab.get_by_text(f"{len(pictures)} pictures", exact=True).wait_for(timeout=120_000)
    heart = tab.locator(".card").first
    heart.get_by_role("button", name="red heart").click()
    tab.get_by_text("Learned that it is").wait_for()
    tab.get_by_label("Name").fill("red star")
    tab.get_by_label("Start from").fill("blue star")
    tab.locator("#trial").wait_for()
    tab.get_by_role("checkbox", name="red", exact=True).check()
    tab.get_by_role("checkbox", name="blue", exact=True).uncheck()
    tab.wait_for_timeout(1500)
    tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    tab.screenshot(path=out, full_page=width < 800)
    # For the next picture.
    tab.get_by_role("button", name="Undo red heart").click()
    tab.get_by_text("Correction undone.").wait_for()
    context.close()


def main() -> None:
    """Make the model and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    parser.add_argument("--all", action="store_true", help="also narrow and dark ones")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or sys.exit("Chromium is missing.")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        address = serve_in_thread(make_model(folder))
        wanted = (
            "red heart",
            "green square",
            "red heart",
            "red star",
            "red heart",
            "red star",
        )
        pictures = []
        for k, pair in enumerate(wanted):
            pictures.append(folder / f"{k + 1}.png")
            draw(*pair.split(), 777 + k).save(pictures[-1])
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width, scheme in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]:
            first = (width, scheme) == (1280, "light")
            if first or options.all:
                out = options.out / ("serving.png" if first else f"serving-{width}-{scheme}.png")
                take(browser, address, pictures, out, width, scheme)
        browser.close()
    picture = Image.open(options.out / "serving.png").convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(options.out / "serving.png", optimize=True)


if __name__ == "__main__":
    main()
