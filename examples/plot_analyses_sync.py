"""
Fewer phantoms, other penalties
===============================

What the parts of SynC are worth: analyses of the paper's appendix D, on letters.
"""

# %%
# How many phantom classes SynC needs
# -----------------------------------
#
# Below 100 % phantoms are centroids of the seen classes, above it random combinations are added. λ
# and σ are those for 100 %; ``retune=True`` chooses them for each share.
#
# To the right the share of principal components that hold 95 % of the variance of the classifiers:
# where it is low, classifiers are alike and few phantoms do.

from tempfile import mkdtemp

import matplotlib.pyplot as plt

from zslearn.datasets import load_glyphs, make_zero_shot
from zslearn.experiments.analyses import (
    ComponentsDisplay,
    PenaltiesDisplay,
    PhantomsDisplay,
    analyze_components,
    analyze_penalties,
    analyze_phantoms,
    summarize_analysis,
)

data = load_glyphs()
out = mkdtemp()
_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
PhantomsDisplay.from_frame(analyze_phantoms(data, out, shares=[0.5, 1.0]), ax=left)
ComponentsDisplay.from_frame(analyze_components(data, out, alphas=[2**-20, 2**-12]), ax=right)

# %%
# The penalty on w or on v, fixed and learned phantoms
# ----------------------------------------------------
#
# These searches take minutes on the letters; here they are on a small random problem.

small = make_zero_shot(random_state=0)
frame = analyze_penalties(small, out)
print(summarize_analysis(frame)[["form", "per_class_accuracy"]].to_string())
PenaltiesDisplay.from_frame(frame)
