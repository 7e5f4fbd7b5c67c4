"""
How accurate predicted exemplars are
====================================

EXEM predicts the mean image features of a class from its signature. Three analyses of the paper
measure how well: `exemplars`, `exemplar-map` and `regressors`, here on letters. Each keeps records,
and returns a table that :class:`~zslearn.experiments.analyses.AnalysisDisplay` plots.
"""

# %%
# Which classes look similar
# --------------------------
#
# Distances between unseen classes, from signatures and from predicted exemplars, are compared with
# those between real exemplars by their correlation and by the share of common nearest classes.

from tempfile import mkdtemp

import matplotlib.pyplot as plt

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis, summarize_analysis

data = load_glyphs()
out = mkdtemp()
frame, _ = run_analysis("exemplars", data, out)
print(summarize_analysis(frame).to_string())

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
AnalysisDisplay(frame).plot(left)
AnalysisDisplay(frame).plot(right, panel="difference")

# %%
# Predicted exemplars agree with real ones far better than signatures do: two letters with the same
# mark share much of their description, but look different.
#
# A map of images and exemplars
# -----------------------------
#
# A line joins the predicted and the real exemplar of a class.

frame, _ = run_analysis("exemplar-map", data, out, n_classes=8, n_images=20)
AnalysisDisplay(frame).plot()

# %%
# Regressors and dimensions
# -------------------------
#
# Kernel ridge regression is fast. The paper compares ν-SVR (``"svr"``) with a perceptron
# (``"mlp"``).

dimensions = [10, 50, 200, None]
frame, _ = run_analysis("regressors", data, out, methods=["krr"], dimensions=dimensions)
AnalysisDisplay(frame).plot()

# %%
# On the command line: ``zslearn analyze exemplars glyphs --out analysis``, and
# ``zslearn table analysis --like knn_overlap`` for the layout of the paper's table.
