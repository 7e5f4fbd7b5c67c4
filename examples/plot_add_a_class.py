"""
Add a class to a model
======================

You can add a class to a fitted model at any time. Adding a class is instant: the model builds it
from its signature, without training.
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
# The model cannot predict ž correctly. These are the unseen classes that it predicts instead:

import numpy as np

images_of_z = data.X_test_unseen[data.y_test_unseen == "ž"]
labels, counts = np.unique(
    model.predict(images_of_z, classes=model.unseen_classes_), return_counts=True
)
order = counts.argsort()[::-1]
print(", ".join(f"{labels[i]} {counts[i]} times" for i in order))

# %%
# Describe the class
# ------------------
#
# The new signature has the attributes that were passed to `fit`; named columns may be in any order.
# Here it is written by hand: a lower-case z with a caron.

import pandas as pd

new = pd.DataFrame(0.0, index=["ž"], columns=known.columns)
new.loc["ž", ["letter z", "mark caron", "lower case"]] = 1.0

seen_scores = model.decision_function(data.X_test_seen, classes=data.seen_classes)
model.add_classes(new)
print(f"{len(model.classes_)} classes are described; ž among them: {'ž' in model.classes_}")

# %%
# The scores of the other classes have not changed, and ž is now recognised.

same = model.decision_function(data.X_test_seen, classes=data.seen_classes)
print("other scores unchanged:", np.allclose(same, seen_scores))
predicted = model.predict(images_of_z, classes=model.unseen_classes_)
print(f"{np.mean(predicted == 'ž'):.0%} of the images of ž are recognised")

# %%
# Which images the model expects
# ------------------------------
#
# These are the test images with the highest scores for ž:

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
