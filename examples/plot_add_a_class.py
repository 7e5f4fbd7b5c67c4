"""
Describing a class later
========================

A further class can be described to a fitted model at any time. Nothing is learned again: the
parameters of the class are made from its signature.
"""

# %%
# A model that does not know ž
# ----------------------------

from zslearn.baselines import ESZSL
from zslearn.datasets import load_glyphs

data = load_glyphs()
known = data.signatures.drop(index="ž")
model = ESZSL().fit(data.X_train, data.y_train, signatures=known)
print(f"{len(model.classes_)} classes are described; ž among them: {'ž' in model.classes_}")

# %%
# Images of ž can only get a wrong answer. These are the classes that it names instead, when it may
# choose among the unseen ones:

import numpy as np

images_of_z = data.X_test_unseen[data.y_test_unseen == "ž"]
labels, counts = np.unique(
    model.predict(images_of_z, classes=model.unseen_classes_), return_counts=True
)
order = counts.argsort()[::-1]
print(", ".join(f"{labels[i]} {counts[i]} times" for i in order))

# %%
# Describing it
# -------------
#
# The new signature has the attributes that were given to `fit`; named columns may come in any
# order. Here it is written by hand: a small z with a caron.

import pandas as pd

new = pd.DataFrame(0.0, index=["ž"], columns=known.columns)
new.loc["ž", ["letter z", "mark caron", "lower case"]] = 1.0

seen_scores = model.decision_function(data.X_test_seen, classes=data.seen_classes)
model.add_classes(new)
print(f"{len(model.classes_)} classes are described; ž among them: {'ž' in model.classes_}")

# %%
# The scores of the classes that were there before have not changed, and ž is now found.

same = model.decision_function(data.X_test_seen, classes=data.seen_classes)
print("other scores unchanged:", np.allclose(same, seen_scores))
predicted = model.predict(images_of_z, classes=model.unseen_classes_)
print(f"{np.mean(predicted == 'ž'):.0%} of the images of ž are named ž")

# %%
# What the model thinks ž looks like
# ----------------------------------
#
# The score of this method is an inner product, so that the parameters of a class weigh the
# features. Images that score highest for ž, among all test images:

import matplotlib.pyplot as plt

X = np.concatenate([data.X_test_seen, data.X_test_unseen])
images = np.concatenate([data.images_test_seen, data.images_test_unseen])
truth = np.concatenate([data.y_test_seen, data.y_test_unseen])
score = model.decision_function(X, classes=["ž"])[:, 0]

figure, grid = plt.subplots(2, 8, figsize=(9, 2.9), layout="constrained")
for axes, i in zip(grid.flat, score.argsort()[::-1], strict=False):
    axes.imshow(images[i], cmap="gray_r")
    axes.set_axis_off()
    axes.set_title(f"is {truth[i]}", fontsize=11)
