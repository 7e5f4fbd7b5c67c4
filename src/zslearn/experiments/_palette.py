"""How pictures draw a method: one colour for it everywhere, dashed where it is an EXEM.

The first seven colours are told apart with any colour vision (five of them are of Okabe and Ito);
the others as far as so many can be. None is lost on white or on a dark page. Beside the colour a
picture always names the method.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any, Literal

from zslearn.experiments._names import _squeeze

Line = Literal["solid", "dashed", "dotted"]

#: What the paper draws, then the rest in the order of its tables.
_COLORS = {
    "ESZSL": "#0072b2",
    "ConSE": "#009e73",
    "SynC struct": "#d55e00",
    "SynC o-vs-o": "#e69f00",
    "SynC cs": "#cc79a7",
    "1NN": "#56b4e9",
    "1NNs": "#8b3d2f",
    "DAP": "#ae6bf3",
    "IAP": "#4b5a68",
    "HAT": "#79b778",
    "CMT": "#a3563b",
    "CMT*": "#7456e0",
    "DeViSE": "#6d6c80",
    "ALE": "#1949c5",
    "SJE": "#797ec7",
    "LatEm": "#df853d",
    "SSE": "#d790c5",
    "SAE": "#da6e5a",
    "GFZSL": "#3b7759",
    "BiDiLEL": "#8b90db",
    "CCA": "#664689",
    "COSTA": "#bda4a2",
    "Gaussian EXEM": "#822aac",
}
#: For methods of other names.
_FURTHER = ("#7e444f", "#808080", "#7b4fa3", "#5f8a00", "#00868b", "#b0486b")

#: Classes under their own names are drawn as what they are by default.
_DEFAULTS = {"EXEM": "1NN", "SynC": "SynC o-vs-o"}

_BY_FORM = {_squeeze(name): color for name, color in _COLORS.items()}
_BY_FORM |= {_squeeze(name): _COLORS[method] for name, method in _DEFAULTS.items()}


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn.

    Parameters
    ----------
    color : str
        As ``"#rrggbb"``.
    line : {"solid", "dashed", "dotted"}
        Dashed for methods that involve EXEM, as in the paper; dotted for a method in another form,
        such as ``"SAE (original)"``, which has the colour of the method.
    """

    color: str
    line: Line

    @property
    def plot_options(self) -> dict[str, Any]:
        """The same as options of matplotlib's `plot`."""
        return {"color": self.color, "linestyle": self.line}


def method_style(name: str) -> MethodStyle:
    """Say in which colour and line every picture draws a method.

    Parameters
    ----------
    name : str
        The method, as tables name it; capitals, spaces and brackets do not matter.

    Returns
    -------
    MethodStyle
        It depends on the name alone, so that a method looks the same whatever is drawn beside it.

    Examples
    --------
    >>> from zslearn.experiments import method_style
    >>> method_style("ESZSL")
    MethodStyle(color='#0072b2', line='solid')
    >>> method_style("EXEM (ESZSL)")
    MethodStyle(color='#0072b2', line='dashed')
    """
    found = re.fullmatch(r"\s*(.*?)\s*\((.*)\)\s*", name)
    outer, inner = (_squeeze(found[1]), _squeeze(found[2])) if found else ("", "")
    if outer == "exem":
        return MethodStyle(_BY_FORM.get(inner) or _own_color(inner), "dashed")
    whole = _squeeze(name)
    if whole in _BY_FORM:
        return MethodStyle(_BY_FORM[whole], "dashed" if "exem" in whole else "solid")
    if outer in _BY_FORM:
        return MethodStyle(_BY_FORM[outer], "dotted")
    return MethodStyle(_own_color(whole), "dashed" if "exem" in whole else "solid")


def _own_color(form: str) -> str:
    """A colour that follows from the name: the same in every picture and on every machine."""
    return _FURTHER[zlib.crc32(form.encode("utf-8")) % len(_FURTHER)]
