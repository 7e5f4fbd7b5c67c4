"""
Phantom classes
===============

SynC builds the classifier of any class as a convex combination of base classifiers, one for each
phantom class. The weights depend on the signatures only. This example plots them.
"""

# %%
# Training
# --------
#
# By default the phantom classes are the seen classes. Here `gamma` is chosen so that a class
# depends on few of them.

from zslearn.datasets import load_glyphs
from zslearn.synthesis import SynC

data = load_glyphs()
model = SynC(gamma=4.0).fit(data.X_train, data.y_train, signatures=data.signatures)
accuracy = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
print(f"{accuracy:.0%} of the images of 50 unseen letters are recognised; chance is 2 %")
print(f"objective {model.objective_:.5f}, at most {model.dual_gap_:.1e} above its minimum")

# %%
# The bipartite graph
# -------------------
#
# On the left are some unseen letters, on the right the phantoms with the largest weights for them.
# The thickness of a line is the weight :math:`s_{cr}`; the weights of a letter sum to one. A
# signature consists of letter, mark and case, and two classes are close if they share two of these.

import matplotlib.pyplot as plt
import numpy as np

from zslearn.signatures import normalize_signatures

letters = list(data.unseen_classes[[3, 14, 25, 36]])
signatures = normalize_signatures(data.signatures.loc[letters], scale=model.signature_scale_[0])
weights = model.similarities(signatures)

shown = np.unique(np.argsort(-weights, axis=1)[:, :5])
shown = shown[np.argsort(weights[:, shown].argmax(axis=0), kind="stable")]
left = np.linspace(0, 1, len(letters) + 2)[1:-1]
right = np.linspace(0, 1, len(shown))

figure, axes = plt.subplots(figsize=(8, 8), layout="constrained")
for i, (letter, height) in enumerate(zip(letters, left, strict=True)):
    color = f"C{i}"
    axes.text(-0.06, height, letter, fontsize=22, ha="right", va="center", color=color)
    for r, other in zip(shown, right, strict=True):
        if weights[i, r] > 0.01:
            width = 60 * weights[i, r]
            axes.plot([0, 1], [height, other], color=color, linewidth=width, alpha=0.6)
for r, height in zip(shown, right, strict=True):
    axes.text(1.06, height, model.seen_classes_[r], fontsize=16, ha="left", va="center")
axes.text(-0.06, 1.06, "unseen classes", ha="right", fontsize=12)
axes.text(1.06, 1.06, "phantom classes", ha="left", fontsize=12)
axes.set(xlim=(-0.5, 1.5), ylim=(-0.05, 1.12))
axes.set_axis_off()

# %%
# Fewer phantoms
# --------------
#
# If there are fewer phantoms than seen classes, they are cluster centroids. There are fewer base
# classifiers to learn, and the classifiers of the seen classes are constrained. A float is a share
# of the seen classes.

for share in (0.2, 0.6):
    fewer = SynC(gamma=4.0, n_phantoms=share, random_state=0)
    fewer.fit(data.X_train, data.y_train, signatures=data.signatures)
    accuracy = fewer.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    n_phantoms = len(fewer.phantoms_)
    print(f"{n_phantoms} phantoms: objective {fewer.objective_:.5f}, accuracy {accuracy:.0%}")
