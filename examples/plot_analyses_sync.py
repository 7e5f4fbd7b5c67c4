"""
Fewer classes, fewer phantoms, other penalties
==============================================

What happens with fewer seen classes, and what the parts of SynC are worth: analyses of the paper's
section 4.2 and appendix D, on letters.
"""

# %%
# Fewer seen classes
# ------------------
#
# Nested random subsets of the seen classes; the unseen ones stay. Bars are standard deviations over
# two draws.

from tempfile import mkdtemp

import matplotlib.pyplot as plt

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import (
    ComponentsDisplay,
    PenaltiesDisplay,
    PhantomsDisplay,
    SeenClassesDisplay,
    analyze_components,
    analyze_penalties,
    analyze_phantoms,
    analyze_seen_classes,
    summarize_analysis,
)

data = load_glyphs()
out = mkdtemp()
frame = analyze_seen_classes(data, out, methods=["ESZSL", "Gaussian EXEM"], seeds=[0, 1])
SeenClassesDisplay.from_frame(frame)

# %%
# How many phantom classes SynC needs
# -----------------------------------
#
# Below 100 % phantoms are centroids of the seen classes, above it random combinations are added. λ
# and σ are those for 100 %; ``retune=True`` chooses them for each share.
#
# To the right the share of principal components that hold 95 % of the variance of the classifiers:
# where it is low, classifiers are alike and few phantoms do.

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
shares = analyze_phantoms(data, out, shares=[0.3, 0.6, 1.0])
PhantomsDisplay.from_frame(shares, ax=left)
ComponentsDisplay.from_frame(analyze_components(data, out, alphas=[2**-20, 2**-12]), ax=right)

# %%
# The penalty on w or on v
# ------------------------

frame = analyze_penalties(data, out, forms=["penalize=w", "penalize=v"])
print(summarize_analysis(frame).to_string())
PenaltiesDisplay.from_frame(frame)
