"""The version of zslearn."""

__version__ = "1.0.0"
