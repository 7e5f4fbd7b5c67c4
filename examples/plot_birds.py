"""
Birds that were never seen
==========================

The data set CUB has photographs of 200 kinds of birds, described by 312 attributes such as the
colour of the crown or the shape of the bill. Fifty kinds have no training image. Its files are not
part of the library: :ref:`reproducing` says where to put them. Where they are not found, invented
data of a similar shape take their place, so that this program runs everywhere.
"""

# %%
# The data
# --------

from zslearn.datasets import load_xlsa17, make_zero_shot


def load_birds():
    """CUB, with the first of these files of features that is there."""
    for features in ("res101.mat", "efficientnet_lite0.mat"):
        try:
            return load_xlsa17("CUB", features=features)
        except FileNotFoundError:
            continue
    return make_zero_shot(n_seen=150, n_unseen=50, noise=0.2, random_state=0)


data = load_birds()
data

# %%
# Two methods
# -----------
#
# Both at their defaults. :ref:`reproducing` has all methods, tuned.

from zslearn import EXEM
from zslearn.baselines import ESZSL
from zslearn.metrics import per_class_accuracy

X, y, unseen = data.X_test_unseen, data.y_test_unseen, data.unseen_classes
for model in (ESZSL(), EXEM(distance="standardized")):
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    predicted = model.predict(X, classes=unseen)
    print(f"{model}: {per_class_accuracy(y, predicted):.1%}, chance {1 / len(unseen):.1%}")

# %%
# Class by class
# --------------
#
# A mean hides much. The ten kinds that the second model recognises best, and the ten worst:

import matplotlib.pyplot as plt
import numpy as np

accuracy = per_class_accuracy(y, predicted, classes=unseen, average=None)
names = np.array([name.split(".")[-1].replace("_", " ") for name in unseen])
order = np.argsort(accuracy)
ends = np.concatenate([order[:10], order[-10:]])

figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
colors = ["tab:red"] * 10 + ["tab:green"] * 10
bars = axes.barh(names[ends], accuracy[ends], color=colors)
axes.bar_label(bars, fmt="{:.0%}", padding=4)
axes.set(xlabel="share of its images that are named rightly", xlim=(0, 1.08))
axes.margins(y=0.02)
plt.show()

# %%
# What the worst are taken for
# ----------------------------
#
# The commonest wrong answer. `rank by description` says where that answer stands among the other
# 49 kinds when they are ordered by how similar the descriptions are: 1 is the most similar one.

import pandas as pd

from zslearn.signatures import normalize_signatures

described = normalize_signatures(data.signatures.loc[unseen])
distance = np.linalg.norm(described[:, None] - described[None], axis=2)
rows = []
for c in order[:10]:
    wrong = predicted[(y == unseen[c]) & (predicted != unseen[c])]
    if len(wrong) == 0:
        continue
    answers, counts = np.unique(wrong, return_counts=True)
    other = np.flatnonzero(unseen == answers[counts.argmax()])[0]
    rows.append(
        {
            "class": names[c],
            "right": f"{accuracy[c]:.0%}",
            "taken for": names[other],
            "share": f"{counts.max() / (y == unseen[c]).sum():.0%}",
            "rank by description": int((distance[c] < distance[c, other]).sum()),
        }
    )
pd.DataFrame(rows).set_index("class")
