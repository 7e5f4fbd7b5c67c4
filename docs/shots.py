"""Screenshots of every built page in Chromium, wide and narrow: `make docs-shots`.

Each page is opened at the widths of a laptop and of a phone and saved as a PNG; `index.html` shows
all of them. Problems are listed, and the exit status is then 1: a page wider than its window, a
picture that did not load, an error in the console, a request to another server. Blocks of code,
formulas and tables that scroll sideways are counted, but are no problem.
"""

from __future__ import annotations

import argparse
import html
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WIDTHS = (1280, 390)
HEIGHT = 900
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Load all pictures, including those further down. Then find out whether the page scrolls sideways,
# which pictures are missing, and which blocks scroll by themselves. The article is measured as
# well, because the theme lets it scroll inside the page.
LOOK = """
async () => {
  const images = Array.from(document.images).filter((image) => image.getAttribute("src"));
  images.forEach((image) => { image.loading = "eager"; });
  await Promise.all(images.map((image) => image.decode().catch(() => null)));
  const root = document.documentElement;
  const article = document.querySelector(".bd-article-container") || root;
  const blocks = Array.from(document.querySelectorAll(
    "article pre, article div.math, article .pst-scrollable-table-container"));
  return {
    width: root.scrollWidth,
    window: window.innerWidth,
    article: article.scrollWidth,
    available: article.clientWidth,
    missing: images.filter((image) => image.naturalWidth === 0).map((image) => image.src),
    scrolling: blocks.filter((block) => block.scrollWidth > block.clientWidth + 1).length,
  };
}
"""


@dataclass
class Shot:
    """A screenshot of a page at one width, and its problems."""

    page: str
    width: int
    picture: str
    scrolling: int = 0
    problems: list[str] = field(default_factory=list)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Do not log requests."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and return the address of its root."""
    handler = partial(_QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def opened_browser(executable: str) -> Iterator[Any]:
    """Chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def take(tab: Any, root: str, page: str, out: Path, width: int) -> Shot:
    """Open a page in a tab, save a screenshot and look for problems."""
    shot = Shot(page, width, f"{page.removesuffix('.html').replace('/', '-')}-{width}.png")
    listeners = {
        "console": lambda message: (
            shot.problems.append(f"console: {message.text}") if message.type == "error" else None
        ),
        "pageerror": lambda error: shot.problems.append(f"script: {error}"),
        "request": lambda request: (
            None
            if request.url.startswith((root, "data:", "blob:"))
            else shot.problems.append(f"request to another server: {request.url}")
        ),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    tab.goto(root + page, wait_until="load")
    found = tab.evaluate(LOOK)
    if found["width"] > found["window"]:
        shot.problems.append(f"{found['width']} pixels wide in a window of {found['window']}")
    if found["article"] > found["available"] + 1:
        shot.problems.append(f"article {found['article']} pixels wide in {found['available']}")
    shot.problems += [f"picture did not load: {address}" for address in found["missing"]]
    shot.scrolling = found["scrolling"]
    tab.screenshot(path=out / shot.picture, full_page=True)
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    return shot


def write_overview(shots: list[Shot], out: Path) -> None:
    """Write a page with all screenshots, those of a page side by side."""
    rows = []
    for page in dict.fromkeys(shot.page for shot in shots):
        of_page = [shot for shot in shots if shot.page == page]
        problems = "".join(
            f"<li>{shot.width}: {html.escape(problem)}</li>"
            for shot in of_page
            for problem in shot.problems
        )
        pictures = "".join(
            f'<a href="{shot.picture}"><img src="{shot.picture}" loading="lazy" alt=""></a>'
            for shot in of_page
        )
        rows.append(f"<h2>{html.escape(page)}</h2><ul>{problems}</ul><div>{pictures}</div>")
    style = (
        "img{height:480px;max-width:60%;object-fit:cover;object-position:top;"
        "margin:4px;border:1px solid #999}"
    )
    (out / "index.html").write_text(
        f"<!doctype html><meta charset='utf-8'><title>Pictures</title><style>{style}</style>"
        + "\n".join(rows),
        encoding="utf-8",
    )


def find_browser(given: str | None) -> str:
    """Return the path of Chromium, or exit with a message that says what to install."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        sys.exit("playwright is missing. Install it: pip install playwright")
    path = next(filter(None, map(shutil.which, [given] if given else BROWSERS)), None)
    if path is None:
        sys.exit(
            f"{given or 'Chromium'} was not found. Install it (Debian: apt-get install chromium), "
            "or name the program with --browser."
        )
    return path


def main(arguments: list[str] | None = None) -> int:
    """Take all screenshots and report problems."""
    parser = argparse.ArgumentParser(description="Screenshots of all built pages.")
    parser.add_argument("--html", type=Path, default=HERE / "_build" / "html", help="built pages")
    parser.add_argument("--out", type=Path, default=HERE / "_build" / "shots", help="for pictures")
    parser.add_argument("--pages", default="**/*.html", help="which ones, as a pattern")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="in pixels")
    parser.add_argument("--scheme", choices=["light", "dark"], default="light", help="of colours")
    parser.add_argument("--browser", help="Chromium, if it is not found by itself")
    options = parser.parse_args(arguments)

    executable = find_browser(options.browser)
    folder = options.html.resolve()
    pages = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.glob(options.pages)
        if "_static" not in path.relative_to(folder).parts
    )
    if not pages:
        sys.exit(f"No pages in {folder}. Build them first: make docs")
    options.out.mkdir(parents=True, exist_ok=True)
    shots = []
    with served(folder) as root, opened_browser(executable) as browser:
        for width in options.widths:
            window = {"width": width, "height": HEIGHT}
            tab = browser.new_context(viewport=window, color_scheme=options.scheme).new_page()
            tab.set_default_timeout(120_000)  # in ms; a busy machine may need more than 30 s
            for page in pages:
                shot = take(tab, root, page, options.out, width)
                shots.append(shot)
                for problem in shot.problems:
                    print(f"{page} at {width}: {problem}")
    write_overview(shots, options.out)

    n_scrolling = sum(shot.scrolling for shot in shots if shot.width == max(options.widths))
    n_bad = sum(bool(shot.problems) for shot in shots)
    print(
        f"{len(shots)} pictures of {len(pages)} pages in {options.out}; {n_bad} with problems. "
        f"At {max(options.widths)} pixels {n_scrolling} blocks scroll sideways."
    )
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
