"""Methods since the paper that train a network; they need the `torch` extra."""

from zslearn.networks._cada_vae import CADAVAE
from zslearn.networks._class_norm import ClassNorm

__all__ = ["CADAVAE", "ClassNorm"]
