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

import numpy as np
from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis
from zslearn.experiments.analyses._classes import with_fewer_seen
from zslearn.metrics import UnseenConfusionDisplay

letters = with_fewer_seen(load_glyphs(), 60, seed=0)
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
out = mkdtemp()
frame, _ = run_analysis("per-class", data, out, methods="Gaussian EXEM")
columns = ["class", "accuracy", "taken_for", "share", "differ_in", "nearest"]
print(frame.sort_values("accuracy")[columns].head().to_string(index=False))

# %%
# Images of the worst pairs, and accuracy against the distance to the nearest seen class:

UnseenConfusionDisplay.from_predictions(
    data.y_test_unseen,
    np.array(frame.attrs["predictions"]["Gaussian EXEM"]),
    classes=data.unseen_classes,
    images=data.images_test_unseen,
    n_pairs=4,
    n_examples=5,
    name="Gaussian EXEM",
    image_kwargs={"cmap": "gray_r"},
)

# %%

AnalysisDisplay(frame).plot()

# %%
# Near and far classes
# --------------------
#
# The unseen classes in thirds, by the distance of their signatures from the nearest seen one. Any
# other distance may be given, such as hops in a hierarchy, with ``edges=[2, 3]`` for the paper's
# groups.

methods = ["ESZSL", "EXEM (1NN)", "Gaussian EXEM"]
frame, _ = run_analysis("distance", data, out, methods=methods)
AnalysisDisplay(frame).plot()

# %%
# Perfect signatures
# ------------------
#
# An ideal signature is the mean of a class's images: for an unseen class of one half, while the
# other half tests. It is an upper bound, not zero-shot learning.

frame, _ = run_analysis("ideal", data, out, methods=["ESZSL", "EXEM (1NN)"], seeds=[0, 1])
AnalysisDisplay(frame).plot()
