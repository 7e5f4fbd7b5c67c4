"""
Which classes are difficult
===========================

Accuracies of single unseen classes, of groups by their distance from the seen ones, and with ideal
signatures, on letters. To save time, this example uses 60 of the 175 seen letters and 100 principal
components of the features.
"""

# %%
# Single classes
# --------------
#
# Images of the worst confusions: an image of each letter, and the letter it is taken for.

from tempfile import mkdtemp

from sklearn.decomposition import PCA

from zslearn import GaussianEXEM
from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis, with_fewer_seen
from zslearn.metrics import ClassDistanceDisplay, UnseenConfusionDisplay

letters = with_fewer_seen(load_glyphs(), 60, seed=0)
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
UnseenConfusionDisplay.from_predictions(
    data.y_test_unseen,
    predicted,
    classes=data.unseen_classes,
    images=data.images_test_unseen,
    n_pairs=4,
    n_examples=5,
    name="Gaussian EXEM",
    image_kwargs={"cmap": "gray_r"},
)

# %%
# Accuracy against the distance of a signature from the nearest one of a seen class:

ClassDistanceDisplay.from_predictions(
    data.y_test_unseen,
    predicted,
    signatures=data.signatures,
    seen_classes=data.seen_classes,
    name="Gaussian EXEM",
)

# %%
# Near and far classes
# --------------------
#
# The unseen classes in thirds, by the distance of their signatures from the nearest seen one.

out = mkdtemp()
methods = ["ESZSL", "EXEM (1NN)", "Gaussian EXEM"]
frame, _ = run_analysis("distance", data, out, methods=methods)
AnalysisDisplay(frame).plot()

# %%
# Ideal signatures
# ----------------
#
# The ideal signature of a class is the mean of its image features. For an unseen class it comes
# from half of its images, and the other half is tested. This is an upper bound, not zero-shot
# learning.

frame, _ = run_analysis("ideal", data, out, methods=["ESZSL", "EXEM (1NN)"], seeds=[0, 1])
AnalysisDisplay(frame).plot()
