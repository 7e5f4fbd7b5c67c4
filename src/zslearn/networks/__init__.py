"""Methods that train a network, and classification with generated features.

Graph methods (GCNZ, SGCN, DGP) predict classifiers from a graph of classes, Class-Norm predicts
prototypes from signatures. CADA-VAE draws latent vectors and the generators draw features of unseen
classes, on which a classifier is trained. Networks need the extra ``torch``.
"""

from zslearn.networks._adversarial import VAEGANGenerator, WGANGenerator
from zslearn.networks._cada_vae import CADAVAE
from zslearn.networks._class_norm import ClassNorm
from zslearn.networks._generation import GaussianGenerator, GeneratedFeatures
from zslearn.networks._graph_methods import DGP, GCNZ, SGCN

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
