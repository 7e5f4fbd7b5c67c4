"""
How good predicted exemplars are
================================

EXEM predicts from a signature where the images of a class lie. Three analyses of the paper's
appendix ask how well it does so, here on letters: `exemplars`, `exemplar-map` and `regressors`.
Each keeps records of what it computed and returns a table;
:class:`~zslearn.experiments.analyses.AnalysisDisplay` draws it.
"""

# %%
# Which classes look similar
# --------------------------
#
# Distances between unseen classes, from signatures and from predicted exemplars, are compared with
# those of real exemplars: by the correlation of the distance matrices, and by the share of common
# nearest classes.

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
AnalysisDisplay(frame).plot(right, panel="correlation")

# %%
# Predicted exemplars agree with real ones far better than signatures do: two letters with the same
# mark have much of their description in common and look different.
#
# Images and exemplars in one picture
# -----------------------------------
#
# A line joins the predicted and the real exemplar of a class, among its images.

frame, _ = run_analysis("exemplar-map", data, out, n_classes=8, n_images=20)
AnalysisDisplay(frame).plot()

# %%
# What predicts exemplars, in how many dimensions
# -----------------------------------------------
#
# Kernel ridge is quick. The paper compares ν-SVR (``"svr"``) with a network (``"mlp"``).

dimensions = [10, 50, 200, None]
frame, _ = run_analysis("regressors", data, out, methods=["krr"], dimensions=dimensions)
AnalysisDisplay(frame).plot()

# %%
# The same from a shell: ``zslearn analyze exemplars glyphs --out analysis``, and
# ``zslearn table analysis --like knn_overlap`` for the numbers in the layout of the paper's table.
