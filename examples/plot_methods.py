"""
Many methods, one interface
===========================

Every method of the library is fitted by the same call and scored in the same way. Here all of
them, at their defaults and not tuned, recognise letters that they never saw. For tuned numbers,
on this and other data, there is `zslearn bench`.
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
    accuracy = method.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    found.append({"method": name, "accuracy": accuracy, "seconds": seconds})
table = pd.DataFrame(found).sort_values("accuracy")
print(
    table.to_string(
        index=False, formatters={"accuracy": "{:.3f}".format, "seconds": "{:.1f}".format}
    )
)

# %%
# Accuracy beside time
# --------------------

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7, 5))
ax.scatter(table["seconds"], table["accuracy"], color="tab:blue")
for row in table.itertuples():
    ax.annotate(row.method, (row.seconds, row.accuracy), xytext=(4, 3), textcoords="offset points")
ax.axhline(1 / len(data.unseen_classes), color="0.6", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="seconds to fit", ylabel="per-class accuracy, 50 unseen letters")
ax.legend()
plt.show()
