"""
What goes wrong, and where to search on
=======================================

An accuracy says how often a method is right. Three pictures say more: which unseen classes are
taken for which, whether classes far from everything that was seen are the hard ones, and what a
search for hyper-parameters has found.
"""

# %%
# The landscape of a search
# -------------------------
#
# `ZeroShotSearchCV` leaves out letters and compares settings on these. The picture has the mean
# accuracy of every setting and a frame around the chosen one. Here this sits on the edge of the
# grid: the search warns, and the legend says where better settings may lie.

import warnings

import matplotlib.pyplot as plt
import pandas as pd

from zslearn.baselines import ESZSL
from zslearn.datasets import load_glyphs
from zslearn.model_selection import GridEdgeWarning, SearchLandscapeDisplay, ZeroShotSearchCV
from zslearn.synthesis import EXEM

data = load_glyphs()
grid = {"alpha_features": [1.0, 10.0, 100.0, 1000.0], "alpha_signatures": [0.1, 1.0, 10.0]}
search = ZeroShotSearchCV(ESZSL(), grid)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", GridEdgeWarning)  # the legend reports it
    search.fit(data.X_train, data.y_train, signatures=data.signatures)

SearchLandscapeDisplay.from_search(search, x="alpha_features", y="alpha_signatures")
plt.show()

# %%
# With smaller values in the list it is no longer so. One hyper-parameter gives a line, with the
# spread over the folds; at each of its values the other one is at its best.

grid["alpha_features"] = [0.01, 0.1, 1.0, 10.0, 100.0]
search = ZeroShotSearchCV(ESZSL(), grid)
search.fit(data.X_train, data.y_train, signatures=data.signatures)

SearchLandscapeDisplay.from_search(search, x="alpha_features")
plt.show()

# %%
# Confusions
# ----------
#
# Each row is an unseen letter and each column an answer. Letters with similar descriptions stand
# side by side. The worst pairs have numbers, and their images are on the right, with one of the
# letter that they were taken for in a frame.

from zslearn.metrics import UnseenConfusionDisplay

X, y = data.X_test_unseen, data.y_test_unseen
display = UnseenConfusionDisplay.from_estimator(
    search,
    X,
    y,
    signatures=data.signatures,
    images=data.images_test_unseen,
    image_kwargs={"cmap": "gray_r"},
    name="ESZSL",
)
plt.show()

# %%
# The pairs are also there as data:

for pair in display.worst_pairs(3):
    print(f"{pair.true} taken for {pair.predicted}: {pair.n_confused} of {pair.n_samples}")

# %%
# Distance from what was seen
# ---------------------------
#
# A letter is described by its base, its case and its mark, and for every unseen letter there is a
# seen one that differs in a single point: by these signatures all are equally far. The exemplars
# that EXEM predicts from them differ by how letters look. With these as signatures the picture
# shows whether letters far from all seen ones are recognised less often: a rank correlation of −1
# would say that distance decides, 0 that it says nothing.

from zslearn.metrics import ClassDistanceDisplay

model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
exemplars = pd.DataFrame(model.predict_exemplars(data.signatures), index=data.signatures.index)

ClassDistanceDisplay.from_estimator(search, X, y, signatures=exemplars, name="ESZSL")
plt.show()
