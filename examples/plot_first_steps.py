"""
Recognise unseen letters
========================

A zero-shot method learns from images of some classes and then recognises other classes, of which it
only has a description. Here the classes are letters with marks (é, Š, ơ), and a description
consists of the base letter, the mark and the case.
"""

# %%
# The data
# --------
#
# The glyphs are rendered from matplotlib's fonts, so nothing is downloaded. 175 classes have
# training images; 50 have none.

from zslearn.datasets import load_glyphs

data = load_glyphs()
data

# %%
# A description, called a *signature*, is a row of a table. This is the signature of é:

facts = data.signatures.loc["é"]
facts[facts > 0].to_frame()

# %%
# The class é is unseen: it has no training images. The training images do show the letter e with
# other marks, and the acute accent on other letters.

print("é is unseen:", "é" in data.unseen_classes)
print("seen with e:", *[c for c in data.seen_classes if data.signatures.loc[c, "letter e"]])
print("seen with ´:", *[c for c in data.seen_classes if data.signatures.loc[c, "mark acute"]])

# %%
# Fit and predict
# ---------------
#
# `fit` takes the features of the images, their labels and the signatures of all classes. `predict`
# chooses among the classes that you pass: here the unseen ones.

from zslearn.baselines import ESZSL

model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)

# %%
# The accuracy is averaged over the classes. Chance is one in fifty.

from zslearn.metrics import per_class_accuracy

accuracy = per_class_accuracy(data.y_test_unseen, predicted)
print(f"{accuracy:.0%} right; chance is {1 / len(data.unseen_classes):.0%}")

# %%
# Predictions
# -----------
#
# These are forty random test images with their predicted letters, and the true letter if the
# prediction is wrong.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
chosen = rng.choice(len(predicted), size=40, replace=False)
images, truth = data.images_test_unseen, data.y_test_unseen

figure, grid = plt.subplots(4, 10, figsize=(9, 4.8), layout="constrained")
for axes, i in zip(grid.flat, chosen, strict=True):
    right = predicted[i] == truth[i]
    axes.imshow(images[i], cmap="gray_r")
    axes.set_axis_off()
    axes.set_title(
        predicted[i] if right else f"{predicted[i]} (is {truth[i]})",
        color="tab:green" if right else "tab:red",
        fontsize=12,
    )

# %%
# A wrong prediction may be partly right. The signatures show how many of the three attributes,
# letter, mark and case, are predicted correctly.

facts_predicted = data.signatures.loc[predicted].to_numpy()
facts_true = data.signatures.loc[truth].to_numpy()
n_right = (facts_predicted * facts_true).sum(axis=1).astype(int)
for n in (3, 2, 1, 0):
    print(f"{n} of the 3 facts right: {np.mean(n_right == n):.0%}")
