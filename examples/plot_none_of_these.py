"""
Reject unknown images
=====================

A classifier picks one of its classes even for an image of something else. A threshold decides how
many such images are rejected, and how many valid ones with them. It can be estimated without any
foreign image, on held-out classes.
"""

# %%
# Classes without descriptions
# ----------------------------
#
# Half of the unseen classes are described; the model does not know the others. The acceptable rate
# of false alarms, rejected images of described classes, is one in ten.

import numpy as np

from zslearn.baselines import ESZSL
from zslearn.calibration import NoneOfThese, RankPredictor
from zslearn.datasets import make_zero_shot
from zslearn.inspection import explain
from zslearn.signatures import cluster_hierarchy

data = make_zero_shot(n_seen=60, n_unseen=20, n_features=64, n_attributes=24, random_state=0)
hidden = data.unseen_classes[::2]
described = data.signatures.drop(index=hidden)

model = NoneOfThese(ESZSL(), false_alarm_rate=0.1)
model.fit(data.X_train, data.y_train, signatures=described)

low, high = model.false_alarm_interval_
print(f"false alarms: {model.false_alarm_rate_:.3f} (95 % interval {low:.3f} to {high:.3f})")
print(f"detected:     {model.detection_rate_:.3f}, AUROC {model.auroc_:.3f}")

# %%
# Test images
# -----------
#
# Neither these images nor these unseen classes were used to find the threshold.

foreign = np.isin(data.y_test_unseen, hidden)
rejected = model.is_none(data.X_test_unseen)
print(f"rejected of seen classes:      {model.is_none(data.X_test_seen).mean():.3f}")
print(f"rejected of described classes: {rejected[~foreign].mean():.3f}")
print(f"rejected of foreign classes:   {rejected[foreign].mean():.3f}")

# %%
# All thresholds
# --------------
#
# The plot shows both rates on the held-out images of the folds, and the chosen threshold.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot(model.false_alarm_curve_, model.detection_curve_, label=f"AUROC {model.auroc_:.2f}")
axes.plot([0, 1], [0, 1], color="0.7", linestyle=":", label="chance")
axes.scatter(model.false_alarm_rate_, model.detection_rate_, color="C3", zorder=3, label="chosen")
axes.set(xlabel="false alarms", ylabel="detected", title="None of these")
axes.legend()
plt.show()

# %%
# Explain a prediction
# --------------------
#
# The listed attributes are those for which the runner-up's value would lower the score most.

for why in explain(model, data.X_test_unseen[rejected][:2], k=2):
    print(why)

# %%
# Predict a rank instead
# ----------------------
#
# In a hierarchy of classes, the model predicts the deepest node that is certain enough: here the
# class should lie below it in nine of ten cases.

tree = cluster_hierarchy(data.signatures)
ranks = RankPredictor(ESZSL(), tree, confidence=0.9)
ranks.fit(data.X_train, data.y_train, signatures=data.signatures)
nodes, depths, _ = ranks.predict_rank(data.X_test_unseen)


def lies_below(label, node):
    while label not in (node, None):
        label = ranks.parents_.get(label)
    return label == node


right = list(map(lies_below, data.y_test_unseen, nodes))
exact = ranks.predict(data.X_test_unseen) == data.y_test_unseen
print(f"the exact class is right for {np.mean(exact):.2f} of the images of unseen classes")
print(f"the node is right for        {np.mean(right):.2f}")
for depth in range(depths.max() + 1):
    print(f"  at depth {depth}: {np.mean(depths == depth):.2f} of the images")
