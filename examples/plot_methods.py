"""
Many methods, one interface
===========================

Every method of the library is fitted by the same call and scored in the same way. Here all methods,
with their defaults and without tuning, recognise unseen letters. Use `zslearn bench` for tuned
results on this and other data.
"""

# %%
# Fit them all
# ------------
#
# A third of the training images is enough for a first look.

import time
import warnings

import numpy as np
import pandas as pd

from zslearn import EXEM, SynC, baselines
from zslearn.datasets import load_glyphs

data = load_glyphs()
unseen = data.unseen_classes
rows = np.arange(len(data.y_train)) % 3 == 0
X, y = data.X_train[rows], data.y_train[rows]
methods = {name: getattr(baselines, name)() for name in baselines.__all__}
methods |= {
    "SynC": SynC(loss="struct", tol=1e-2),
    "EXEM": EXEM(),
    "EXEM (SynC)": EXEM(estimator=SynC()),
}
found = []
for name, method in methods.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # HAT tells that it was given no hierarchy
        start = time.perf_counter()
        method.fit(X, y, signatures=data.signatures)
        seconds = time.perf_counter() - start
    accuracy = method.score(data.X_test_unseen, data.y_test_unseen, classes=unseen)
    found.append({"method": name, "accuracy": accuracy, "seconds": seconds})
table = pd.DataFrame(found).set_index("method").sort_values("accuracy")
table[::-1].round({"accuracy": 3, "seconds": 1})

# %%
# Accuracy and time
# -----------------

import matplotlib.pyplot as plt

colors = ["C1" if name.startswith(("EXEM", "SynC")) else "C0" for name in table.index]
figure, (left, right) = plt.subplots(
    ncols=2, sharey=True, figsize=(9, 6), width_ratios=[3, 2], layout="constrained"
)
left.barh(table.index, table["accuracy"], color=colors)
left.axvline(1 / len(unseen), color="0.3", linestyle=":", label="chance")
left.set_xlabel("per-class accuracy, 50 unseen letters")
left.legend(loc="lower right")
right.hlines(table.index, table["seconds"].min() / 2, table["seconds"], color="0.8")
right.scatter(table["seconds"], table.index, color=colors, zorder=3)
right.set(xscale="log", xlabel="seconds to fit", xlim=(table["seconds"].min() / 2, None))
left.margins(y=0.02)
plt.show()
