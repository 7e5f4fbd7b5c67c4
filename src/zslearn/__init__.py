"""Zero-shot learning in scikit-learn's manners."""

from zslearn._version import __version__

__all__ = ["__version__"]
