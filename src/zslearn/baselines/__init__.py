"""The systems that the paper compares with, one class a method."""

from zslearn.baselines._eszsl import ESZSL

__all__ = ["ESZSL"]
