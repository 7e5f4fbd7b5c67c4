"""
None of these
=============

A classifier names the best of its classes for every image, also for one of something else. How many
such images are rejected, and how many good ones with them, is a matter of one threshold. It can be
found without any foreign image, by leaving out classes.
"""

# %%
# Classes that nobody described
# -----------------------------
#
# Half of the unseen classes are described; nothing is known of the others. False alarms, images of
# described classes that are rejected, shall be one in ten.

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
# On test images
# --------------
#
# None of these images, and none of these unseen classes, was used to find the threshold.

foreign = np.isin(data.y_test_unseen, hidden)
rejected = model.is_none(data.X_test_unseen)
print(f"rejected of seen classes:      {model.is_none(data.X_test_seen).mean():.3f}")
print(f"rejected of described classes: {rejected[~foreign].mean():.3f}")
print(f"rejected of foreign classes:   {rejected[foreign].mean():.3f}")

# %%
# All thresholds at once
# ----------------------
#
# Both rates, on images that were held out in the folds, and the chosen threshold.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
axes.plot(model.false_alarm_curve_, model.detection_curve_, label=f"AUROC {model.auroc_:.2f}")
axes.plot([0, 1], [0, 1], color="0.7", linestyle=":", label="chance")
axes.scatter(model.false_alarm_rate_, model.detection_rate_, color="C3", zorder=3, label="chosen")
axes.set(xlabel="false alarms", ylabel="detected", title="None of these")
axes.legend()
plt.show()

# %%
# Why it was taken for that class
# -------------------------------
#
# The attributes are those whose exchange for the runner-up's would cost the most.

for why in explain(model, data.X_test_unseen[rejected][:2], k=2):
    print(why)

# %%
# What can be said all the same
# -----------------------------
#
# In a hierarchy of classes the deepest node is named that is sure enough: here in nine of ten cases
# the class shall lie below it.

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
