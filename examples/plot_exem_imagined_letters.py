"""
Exemplars predicted by EXEM
===========================

EXEM predicts the exemplar of a class, the mean of its images, from the description of the class.
If the features are pixels, an exemplar is a picture, also for a letter that the model has never
seen.
"""

# %%
# Pixels as features
# ------------------
#
# Images are slightly smoothed, so that strokes of different typefaces overlap. Each image is
# normalised to unit length and projected on 200 principal components, and images are averaged over
# each class.

import numpy as np
from scipy.ndimage import gaussian_filter

from zslearn.datasets import load_glyphs
from zslearn.synthesis import EXEM

data = load_glyphs()
pixels = gaussian_filter(data.images.astype(np.float32), (0, 1, 1)).reshape(len(data.y), -1)
train, test = data.active_split.train, data.active_split.test_unseen

model = EXEM(n_components=200, C=4.0, gamma=0.5)
model.fit(pixels[train], data.y[train], signatures=data.signatures)
accuracy = model.score(pixels[test], data.y[test], classes=data.unseen_classes)
print(f"accuracy on {len(data.unseen_classes)} unseen letters: {accuracy:.3f}")

# %%
# From exemplars back to pictures
# -------------------------------
#
# `predict_exemplars` returns points in the projected space, and `inverse_transform` maps them back
# to pixels. The first row is predicted from descriptions alone; below it are the mean of the real
# images of that letter, and one of them. None of these images was used for training.

import matplotlib.pyplot as plt

letters = ["À", "Ê", "Õ", "å", "é", "î", "ù", "Ć", "Ď", "ý"]
imagined = model.inverse_transform(model.predict_exemplars(data.signatures.loc[letters]))

figure, axes = plt.subplots(3, len(letters), figsize=(9, 3.1), layout="constrained")
for column, (letter, picture) in enumerate(zip(letters, imagined, strict=True)):
    real = pixels[test][data.y[test] == letter]
    mean = (real / np.linalg.norm(real, axis=1, keepdims=True)).mean(axis=0)
    for row, image in enumerate((picture, mean, real[0])):
        axis = axes[row, column]
        axis.imshow(image.reshape(32, 32), cmap="gray_r", vmin=0)
        axis.set(xticks=[], yticks=[])
for axis, name in zip(axes[:, 0], ("imagined", "real mean", "real image"), strict=True):
    axis.set_ylabel(name, fontsize=11)

# %%
# Errors of predicted exemplars
# -----------------------------
#
# The plot compares the distance between the real and the predicted exemplar of each letter with
# the distance from the real one to the nearest predicted exemplar of another unseen letter. Where
# the first is shorter, the mean image of the letter is classified correctly.

unseen = data.unseen_classes
predicted = model.predict_exemplars(data.signatures.loc[unseen])
real = model.embed(pixels[test] / np.linalg.norm(pixels[test], axis=1, keepdims=True))
means = np.stack([real[data.y[test] == label].mean(axis=0) for label in unseen])
own = np.linalg.norm(predicted - means, axis=1)
others = np.linalg.norm(predicted[None] - means[:, None], axis=2)
others[np.diag_indices_from(others)] = np.inf
nearest = others.min(axis=1)

order = np.argsort(own - nearest)
places = np.arange(len(unseen))
figure, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
axis.vlines(places, own[order], nearest[order], color="0.75", linewidth=2)
axis.plot(places, own[order], "o", label="to its own predicted exemplar")
axis.plot(places, nearest[order], "o", mfc="white", label="to the nearest other one")
labels = ["\n" * (place % 2) + letter for place, letter in enumerate(unseen[order])]
axis.set_xticks(places, labels, fontsize=12)  # in two rows: they are too many for one
axis.tick_params(axis="x", length=0)
axis.set(ylabel="distance of the real exemplar", ylim=(0, None), xlim=(-1, len(unseen)))
axis.legend(loc="lower right")
plt.show()
