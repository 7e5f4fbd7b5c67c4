"""From a drawing to a picture. Drawings come from outside: what could do harm is refused.

The renderer would follow ``<image href="…">`` to any file that it can read, and it repeats what is
referred to as often as it is referred to. So only shapes, gradients, masks and simple filters are
let through, which refer to each other within the drawing, and what they unfold to is counted.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._emoji_classes import Drawing
from zslearn.utils import import_optional, plain

#: Side of a picture in pixels, and of the square in its middle that is drawn into. Networks cut the
#: border away: they look at 7/8 of a picture.
SIDE, INNER = 128, 112
_SVG = "http://www.w3.org/2000/svg"
_SHAPES = ("path", "circle", "ellipse", "rect", "line", "polyline", "polygon")
_PARTS = ("svg", "g", "defs", "use", "clipPath", "mask", "title", "desc")
_PAINTS = ("linearGradient", "radialGradient", "stop")
_FILTERS = ("feBlend", "feColorMatrix", "feComposite", "feFlood", "feGaussianBlur", "feOffset")
_ELEMENTS = frozenset((*_SHAPES, *_PARTS, *_PAINTS, "filter", *_FILTERS))
_MAX_BODY = 1 << 20  # characters; the longest has 173,000
_MAX_ELEMENTS, _MAX_DEPTH = 10_000, 32
#: How many elements there may be once every reference is replaced by what it refers to.
_MAX_UNFOLDED = 200_000
_MAX_NUMBER = 1e5
_REFERENCE = re.compile(r"url\(\s*['\"]?([^)'\"]*)", re.IGNORECASE)


class DrawingError(ValueError):
    """A drawing is damaged, or holds what is not rendered."""


def checked_svg(drawing: Drawing) -> str:
    """A drawing as a document that refers to nothing outside of it.

    Parameters
    ----------
    drawing : Drawing
        What a package holds.

    Returns
    -------
    str
        The document.

    Raises
    ------
    DrawingError
        It is no XML, or holds other elements than shapes, refers to a file or an address, or
        is too large or too deep.
    """
    body = drawing.body
    if len(body) > _MAX_BODY:
        raise DrawingError(f"it has {len(body)} characters; at most {_MAX_BODY} are read")
    if "<!" in body or "<?" in body:
        raise DrawingError("it holds declarations, comments or instructions")
    box = f"{drawing.left:g} {drawing.top:g} {drawing.width:g} {drawing.height:g}"
    text = (
        f'<svg xmlns="{_SVG}" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{INNER}" height="{INNER}" viewBox="{box}">{body}</svg>'
    )
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise DrawingError(f"it is no XML ({plain(error, 100)})") from None
    _check_elements(root)
    return text


def _check_elements(root: ElementTree.Element) -> None:
    """Look at every element, from the outside in."""
    elements: list[ElementTree.Element] = []
    level = [root]
    for _ in range(_MAX_DEPTH):
        elements += level
        level = [child for element in level for child in element]
    if level or len(elements) > _MAX_ELEMENTS:
        raise DrawingError("it is too deep, or has too many elements")
    references = {}
    for element in elements:
        name = element.tag.removeprefix(f"{{{_SVG}}}")
        if name not in _ELEMENTS:
            raise DrawingError(f"it holds an element {plain(element.tag, 80)!r}")
        references[element] = _references(element)
    _check_unfolded(elements, references)


def _references(element: ElementTree.Element) -> list[str]:
    """Which elements of the drawing an element refers to; others are refused."""
    found = []
    for key, value in element.attrib.items():
        # A backslash hides letters in a style.
        if "\\" in value or "@" in value:
            raise DrawingError(f"its {plain(key, 40)!r} holds signs that hide what it says")
        targets = _REFERENCE.findall(value)
        if key.rpartition("}")[2].lower() == "href":
            targets.append(value)
        for target in targets:
            if not target.strip().startswith("#"):
                raise DrawingError(f"it refers to {plain(target, 80)!r}, outside of the drawing")
            found.append(target.strip()[1:])
        if key == "stdDeviation" and any(abs(x) > _MAX_NUMBER for x in _numbers(value)):
            raise DrawingError("it blurs over an impossible distance")
    return found


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise DrawingError(f"{plain(text, 40)!r} are no numbers") from None


def _check_unfolded(
    elements: list[ElementTree.Element], references: dict[ElementTree.Element, list[str]]
) -> None:
    """Count the elements that are left when references are replaced, and refuse circles."""
    by_id = {element.get("id"): element for element in elements if element.get("id")}
    sizes: dict[ElementTree.Element, int] = {}
    open_now: set[ElementTree.Element] = set()

    def size(element: ElementTree.Element) -> int:
        if element in sizes:
            return sizes[element]
        if element in open_now or len(open_now) > 4 * _MAX_DEPTH:
            raise DrawingError("its parts refer to each other in a circle, or too often")
        open_now.add(element)
        total = 1 + sum(size(child) for child in element)
        for target in references[element]:
            if target in by_id:
                total += size(by_id[target])
        open_now.discard(element)
        if total > _MAX_UNFOLDED:
            raise DrawingError(f"it unfolds to more than {_MAX_UNFOLDED} elements")
        sizes[element] = total
        return total

    size(elements[0])


def render(drawing: Drawing) -> NDArray[np.uint8]:
    """Draw on white.

    Parameters
    ----------
    drawing : Drawing
        What a package holds.

    Returns
    -------
    ndarray of uint8 of shape (128, 128, 3)
        The drawing within the inner 112 × 112 pixels.

    Raises
    ------
    DrawingError
        The drawing is refused, or cannot be rendered.
    """
    renderer = import_optional("resvg_py", "Drawing emoji")
    image = import_optional("PIL.Image", "Drawing emoji")
    text = checked_svg(drawing)
    try:
        # Without fonts of the system: no text is let through.
        data = bytes(renderer.svg_to_bytes(svg_string=text, skip_system_fonts=True))
    except ValueError as error:
        raise DrawingError(f"it cannot be rendered ({plain(error, 100)})") from None
    with image.open(io.BytesIO(data), formats=["PNG"]) as opened:
        drawn = opened.convert("RGBA")
    if drawn.size != (INNER, INNER):
        raise DrawingError(f"it came out with {drawn.size} pixels")
    page = image.new("RGBA", (SIDE, SIDE), "white")
    border = (SIDE - INNER) // 2
    page.alpha_composite(drawn, (border, border))
    return np.asarray(page.convert("RGB"))


def renderer_version() -> str:
    """What decides the pixels of a drawing, beside the drawing."""
    renderer: Any = import_optional("resvg_py", "Drawing emoji")
    return f"resvg-{getattr(renderer, '__resvg_version__', renderer.__version__)}"
