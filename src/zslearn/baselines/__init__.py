"""Baselines of the paper, and later methods for classes with a few labelled images.

A module contains one method, or a family with the same training: probabilities of attributes or of
seen classes (DAP, IAP, ConSE), ranking losses (ALE, DeViSE, SJE, LatEm), a mapping network (CMT,
CMT*), and a few images in addition to a description (GDA, Tip-Adapter). The classes are public;
everything else may change, within the equations that each module states.
"""

from zslearn.baselines._attributes import DAP, IAP, ConSE
from zslearn.baselines._bidilel import BiDiLEL
from zslearn.baselines._cca import CCA
from zslearn.baselines._cmt import CMT, CMTStar
from zslearn.baselines._costa import COSTA
from zslearn.baselines._eszsl import ESZSL
from zslearn.baselines._few_images import GDA, TipAdapter
from zslearn.baselines._gfzsl import GFZSL
from zslearn.baselines._hat import HAT
from zslearn.baselines._ranking import ALE, SJE, DeViSE, LatEm
from zslearn.baselines._sae import SAE
from zslearn.baselines._sse import SSE

__all__ = [
    "ALE",
    "CCA",
    "CMT",
    "COSTA",
    "DAP",
    "ESZSL",
    "GDA",
    "GFZSL",
    "HAT",
    "IAP",
    "SAE",
    "SJE",
    "SSE",
    "BiDiLEL",
    "CMTStar",
    "ConSE",
    "DeViSE",
    "LatEm",
    "TipAdapter",
]
