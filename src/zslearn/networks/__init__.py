"""Methods since the paper that train a network, and features generated for described classes."""

from zslearn.networks._adgpm import DGP, SGCN
from zslearn.networks._adversarial import VAEGANGenerator, WGANGenerator
from zslearn.networks._cada_vae import CADAVAE
from zslearn.networks._class_norm import ClassNorm
from zslearn.networks._gcnz import GCNZ
from zslearn.networks._generation import GaussianGenerator, GeneratedFeatures

__all__ = [
    "CADAVAE",
    "DGP",
    "GCNZ",
    "SGCN",
    "ClassNorm",
    "GaussianGenerator",
    "GeneratedFeatures",
    "VAEGANGenerator",
    "WGANGenerator",
]
