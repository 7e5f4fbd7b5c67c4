"""Methods since the paper that train a network, and features generated for described classes.

Methods over a graph of classes (GCNZ, SGCN, DGP) predict classifiers; CADA-VAE and the generators
draw features of unseen classes, from which a classifier learns; Class-Norm makes classifiers of
attributes. Networks need the extra ``torch``; how they are trained is in ``_torch_training.py``.
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
