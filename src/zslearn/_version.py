"""The version of zslearn."""

__version__ = "0.1.0.dev0"
