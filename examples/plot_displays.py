"""
Inspect errors and searches
===========================

Three plots say more than an accuracy: which unseen classes are confused, whether classes far from
all seen ones are harder, and how the score of a search depends on hyper-parameters.
"""

# %%
# The landscape of a search
# -------------------------
#
# `ZeroShotSearchCV` compares settings on held-out letters. The plot shows the mean accuracy of
# every setting, with a frame around the chosen one. Here this is at the edge of the grid: the
# search warns, and the legend says where better settings may lie.

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
# With smaller values in the grid it is not at the edge. For one hyper-parameter the plot is a line
# with the spread over the folds; at each value the other hyper-parameter has its best value.

grid["alpha_features"] = [0.01, 0.1, 1.0, 10.0, 100.0]
search = ZeroShotSearchCV(ESZSL(), grid)
search.fit(data.X_train, data.y_train, signatures=data.signatures)

SearchLandscapeDisplay.from_search(search, x="alpha_features")
plt.show()

# %%
# Confusions
# ----------
#
# Each row is an unseen letter and each column a prediction. Letters with similar descriptions are
# adjacent. The worst pairs are numbered, and their images are on the right, next to a framed image
# of the predicted letter.

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
# The pairs are also available as data:

for pair in display.worst_pairs(3):
    print(f"{pair.true} taken for {pair.predicted}: {pair.n_confused} of {pair.n_samples}")

# %%
# Distance from seen classes
# --------------------------
#
# A letter is described by its base, case and mark, and for every unseen letter there is a seen one
# that differs in only one of them: by their signatures all are equally far. Exemplars predicted by
# EXEM reflect how letters look. With these as signatures the plot shows whether letters far from
# all seen ones are recognised less often: a rank correlation of −1 means that distance decides, 0
# that it has no influence.

from zslearn.metrics import ClassDistanceDisplay

model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
exemplars = pd.DataFrame(model.predict_exemplars(data.signatures), index=data.signatures.index)

ClassDistanceDisplay.from_estimator(search, X, y, signatures=exemplars, name="ESZSL")
plt.show()
