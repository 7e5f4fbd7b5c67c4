"""
Which classes go wrong, and why
===============================

Single unseen classes, groups of them by their distance from the seen ones, and how much better a
method would be with perfect signatures; on letters. To be quick, there are 60 of the 175 seen
letters and 100 principal components of the features.
"""

# %%
# Single classes
# --------------
#
# The table has a row per unseen class: its accuracy, what it is most often taken for, and the
# attributes that tell the two apart. The worst five:

from tempfile import mkdtemp

from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses._classes import (
    DistanceDisplay,
    PerClassDisplay,
    analyze_distance,
    analyze_per_class,
    with_fewer_seen,
)
from zslearn.experiments.analyses._ideal import IdealDisplay, analyze_ideal

letters = with_fewer_seen(load_glyphs(), 60, seed=0)
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
out = mkdtemp()
frame = analyze_per_class(data, out, methods="Gaussian EXEM")
columns = ["class", "accuracy", "taken_for", "share", "differ_in", "nearest"]
print(frame.sort_values("accuracy")[columns].head().to_string(index=False))

# %%
# Images of the worst pairs, and accuracy against the distance to the nearest seen class:

PerClassDisplay(frame).plot_pairs(data)

# %%

PerClassDisplay.from_frame(frame)

# %%
# Near and far classes
# --------------------
#
# The unseen classes in thirds, by the distance of their signatures from the nearest seen one. Any
# other distance may be given, such as hops in a hierarchy, with ``edges=[2, 3]`` for the paper's
# groups.

DistanceDisplay.from_frame(
    analyze_distance(data, out, methods=["ESZSL", "EXEM (1NN)", "Gaussian EXEM"])
)

# %%
# Perfect signatures
# ------------------
#
# An ideal signature is the mean of a class's images: for an unseen class of one half, while the
# other half tests. It is an upper bound, not zero-shot learning.

IdealDisplay.from_frame(analyze_ideal(data, out, methods=["ESZSL", "EXEM (1NN)"], seeds=[0, 1]))
