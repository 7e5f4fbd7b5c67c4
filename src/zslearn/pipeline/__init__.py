"""What stands around a method: steps before it, and the weights of several views of a class."""

from zslearn.pipeline._pipeline import ZeroShotPipeline, as_zero_shot, fitted_as_zero_shot
from zslearn.pipeline._weighted_views import WeightedViews

__all__ = ["WeightedViews", "ZeroShotPipeline", "as_zero_shot", "fitted_as_zero_shot"]
