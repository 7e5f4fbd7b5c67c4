"""
Seen and unseen classes together
================================

In the *generalized* setting an image may show any class, seen or unseen. A method that was trained
on images of the seen classes prefers these. Calibrated stacking subtracts a factor from their
scores, and the seen–unseen accuracy curve shows the result of every factor.
"""

# %%
# Without calibration
# -------------------
#
# Test images show seen and unseen classes, and all classes are candidates, as in `predict` without
# `classes`.

import numpy as np

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import load_glyphs
from zslearn.metrics import ausuc, generalized_accuracy, harmonic_mean

data = load_glyphs()
X = np.concatenate([data.X_test_seen, data.X_test_unseen])
y = np.concatenate([data.y_test_seen, data.y_test_unseen])

calibrated = CalibratedStacking(ESZSL())
calibrated.fit(data.X_train, data.y_train, signatures=data.signatures)
model = calibrated.estimator_  # the method itself, fitted on all of the training data

scores = model.decision_function(X, classes=model.classes_)
space = {"classes": model.classes_, "seen_classes": model.seen_classes_}
before = generalized_accuracy(y, scores, **space)
print(f"before: {before[0]:.3f} on seen, {before[1]:.3f} on unseen classes")

# %%
# With calibration
# ----------------
#
# The factor is estimated on the training data: groups of seen classes are held out in turn and
# stand in for the unseen ones. No test image is used.

print(f"factor: {calibrated.bias_:.4f}, from folds {calibrated.fold_biases_.round(4)}")
after = generalized_accuracy(y, scores, bias=calibrated.bias_, **space)
print(f"after:  {after[0]:.3f} on seen, {after[1]:.3f} on unseen classes")
print(f"harmonic mean: {harmonic_mean(*before):.3f} before, {harmonic_mean(*after):.3f} after")

# %%
# The calibrated estimator predicts with the factor, like any other estimator:

predicted = calibrated.predict(X)
to_unseen = np.isin(predicted, calibrated.unseen_classes_).mean()
print(f"{to_unseen:.0%} of the test images are given to an unseen class")

# %%
# The curve of all factors
# ------------------------
#
# Each point of the curve belongs to one factor. On the left every image is assigned to a seen
# class, on the right to an unseen one. The area under the curve, AUSUC, does not depend on the
# choice of a factor.

import matplotlib.pyplot as plt

from zslearn.metrics import SeenUnseenCurveDisplay

display = SeenUnseenCurveDisplay.from_estimator(calibrated, X, y, name="ESZSL")
display.point_.set_label("without calibration")
display.calibrated_point_.set(color="tab:red", label="with the estimated factor")
display.ax_.set(xlim=(0, None), ylim=(0, None))
display.ax_.legend(loc="lower left")
display.ax_.set_title(f"AUSUC = {ausuc(y, scores, **space):.3f}")
plt.show()
