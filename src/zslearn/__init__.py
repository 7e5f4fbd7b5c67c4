"""Zero-shot learning in scikit-learn's manners."""

from zslearn._version import __version__
from zslearn.synthesis import EXEM, SynC

__all__ = ["EXEM", "SynC", "__version__"]
