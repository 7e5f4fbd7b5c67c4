"""
From records: curves and protocols
==================================

Two analyses need nothing but the records of a benchmark; where there are none, they run it, here
on letters with small grids and, to be quick, 100 principal components of the features.
"""

# %%
# Curves
# ------
#
# The accuracy on images of seen and of unseen letters for every calibration factor, with the areas
# in the legend; and the harmonic mean along the same curves.

from tempfile import mkdtemp

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments import Protocol
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis

letters = load_glyphs()
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
out = mkdtemp()
methods = ["ESZSL", "EXEM (1NN)", "Gaussian EXEM"]
frame, _ = run_analysis("curves", data, out, methods=methods)
display = AnalysisDisplay(frame)
_, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for ax, panel in zip(axes, display.panels, strict=True):
    display.plot(ax, panel=panel)

# %%
# What a protocol is worth
# ------------------------
#
# One part of the protocol is changed at a time, and compared seed by seed. The records of the
# default protocol are there from above; only what is missing is run.

protocols = [Protocol("three folds", 3), Protocol("scale of all classes", signature_scale="all")]
options = {"methods": "COSTA", "seeds": [0, 1, 2], "protocols": protocols}
frame, _ = run_analysis("protocol", data, out, **options)
AnalysisDisplay(frame).plot(panel="calibrated_harmonic")
