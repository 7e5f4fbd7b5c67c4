"""The systems that the paper compares with, and few-image ones since: one file per method.

What families share is in ``_base_….py``: attributes predicted one by one (DAP, IAP),
probabilities of the seen classes, ranking losses (ALE, DeViSE, SJE, LatEm), a description beside
few images (GDA, Tip-Adapter). The classes are public; all else may change, within the equation that
each module states.
"""

from zslearn.baselines._ale import ALE
from zslearn.baselines._bidilel import BiDiLEL
from zslearn.baselines._cca import CCA
from zslearn.baselines._cmt import CMT
from zslearn.baselines._cmt_star import CMTStar
from zslearn.baselines._conse import ConSE
from zslearn.baselines._costa import COSTA
from zslearn.baselines._dap import DAP
from zslearn.baselines._devise import DeViSE
from zslearn.baselines._eszsl import ESZSL
from zslearn.baselines._gda import GDA
from zslearn.baselines._gfzsl import GFZSL
from zslearn.baselines._hat import HAT
from zslearn.baselines._iap import IAP
from zslearn.baselines._latem import LatEm
from zslearn.baselines._sae import SAE
from zslearn.baselines._sje import SJE
from zslearn.baselines._sse import SSE
from zslearn.baselines._tip_adapter import TipAdapter

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
