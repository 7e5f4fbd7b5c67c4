"""
Seen–unseen curves and protocols from records
=============================================

Two analyses only need the records of a benchmark, and run it if there are none. This example uses
letters with small grids and, to save time, 100 principal components of the features.
"""

# %%
# Curves
# ------
#
# Accuracies on images of seen and unseen letters for every calibration factor, with the areas under
# the curves (AUSUC) in the legend, and the harmonic mean along the curves.

from tempfile import mkdtemp

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
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
# The effect of the protocol
# --------------------------
#
# One part of the protocol changes at a time, and results are compared seed by seed. Records of the
# default protocol exist from above, so only the other runs are computed.

frame, _ = run_analysis("protocol", data, out, methods="COSTA", seeds=[0, 1, 2])
AnalysisDisplay(frame).plot(panel="calibrated_harmonic")
