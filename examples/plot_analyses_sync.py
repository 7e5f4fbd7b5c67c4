"""
Phantom classes and penalties of SynC
=====================================

Analyses of SynC from Appendix D of the paper, on letters. To save time, this example uses 60 of the
175 seen letters and 100 principal components of the features.
"""

# %%
# How many phantom classes SynC needs
# -----------------------------------
#
# Below 100 %, phantoms are centroids of the seen classes; above, random combinations are added. λ
# and σ are tuned for 100 %; ``retune=True`` tunes them for each share. Error bars are standard
# deviations over three seeds.
#
# The right plot shows the share of principal components that explain 95 % of the variance of the
# classifiers: if it is small, classifiers are similar and few phantoms suffice.

from tempfile import mkdtemp

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import (
    AnalysisDisplay,
    run_analysis,
    summarize_analysis,
    with_fewer_seen,
)

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
# Penalties on w and on v, fixed and learned phantoms
# ---------------------------------------------------
#
# Each form is tuned separately on the grid ``"quick"``; learned phantoms in the paper's two steps,
# λ and σ and then η and γ.

frame, _ = run_analysis("penalties", data, out)
print(summarize_analysis(frame)[["form", "per_class_accuracy"]].to_string())
AnalysisDisplay(frame).plot()
