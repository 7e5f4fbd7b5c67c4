"""Methods that train a network, and features generated for classes without samples."""

from zslearn.networks._gaussian import GaussianGenerator
from zslearn.networks._generation import GeneratedFeatures
from zslearn.networks._vaegan import VAEGANGenerator
from zslearn.networks._wgan import WGANGenerator

__all__ = [
    "GaussianGenerator",
    "GeneratedFeatures",
    "VAEGANGenerator",
    "WGANGenerator",
]
