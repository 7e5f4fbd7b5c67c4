"""
Fewer phantoms, other penalties
===============================

What the parts of SynC are worth: analyses of the paper's appendix D, on letters. To be quick, there
are 60 of the 175 seen letters and 100 principal components of the features.
"""

# %%
# How many phantom classes SynC needs
# -----------------------------------
#
# Below 100 % phantoms are centroids of the seen classes, above it random combinations are added. λ
# and σ are those for 100 %; ``retune=True`` chooses them for each share. Bars are standard
# deviations over three seeds.
#
# To the right the share of principal components that hold 95 % of the variance of the classifiers:
# where it is low, classifiers are similar and few phantoms do.

from tempfile import mkdtemp

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis, summarize_analysis
from zslearn.experiments.analyses._classes import with_fewer_seen

letters = with_fewer_seen(load_glyphs(), 60, seed=0)
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
out = mkdtemp()
shares = [0.2, 0.4, 0.6, 0.8, 1.0, 1.4]
_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
phantoms, _ = run_analysis("phantoms", data, out, shares=shares, seeds=[0, 1, 2])
AnalysisDisplay(phantoms).plot(left)
components, _ = run_analysis("components", data, out)
AnalysisDisplay(components).plot(right)

# %%
# The penalty on w or on v, fixed and learned phantoms
# ----------------------------------------------------
#
# Each is tuned for itself with the grid ``"quick"``, learned phantoms in the paper's two steps: λ
# and σ, then η and γ.

frame, _ = run_analysis("penalties", data, out)
print(summarize_analysis(frame)[["form", "per_class_accuracy"]].to_string())
AnalysisDisplay(frame).plot()
