"""
Recognise unseen birds
======================

The data set CUB contains photographs of 200 species of birds, described by 312 attributes such as
the colour of the crown or the shape of the bill. Fifty species have no training images. The files
are not part of the library (:ref:`reproducing`). If they are not found, this example uses synthetic
data of a similar shape.
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
# Both have their defaults. :ref:`reproducing` lists all methods, tuned.

from zslearn import EXEM
from zslearn.baselines import ESZSL
from zslearn.metrics import per_class_accuracy

X, y, unseen = data.X_test_unseen, data.y_test_unseen, data.unseen_classes
for model in (ESZSL(), EXEM(distance="standardized")):
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    predicted = model.predict(X, classes=unseen)
    print(f"{model}: {per_class_accuracy(y, predicted):.1%}, chance {1 / len(unseen):.1%}")

# %%
# Accuracy per class
# ------------------
#
# A mean hides differences between classes. These are the ten species that the second model
# recognises best, and the ten worst:

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
axes.set(xlabel="accuracy", xlim=(0, 1.08))
axes.margins(y=0.02)
plt.show()

# %%
# Confusions of the worst classes
# -------------------------------
#
# The table shows the most frequent wrong prediction. `rank by description` is its rank among the
# other 49 species by the similarity of the descriptions: 1 is the most similar one.

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
