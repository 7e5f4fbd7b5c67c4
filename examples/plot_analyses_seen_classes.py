"""
Fewer seen classes
==================

Accuracy with fewer seen classes (Section 4.2 of the paper), on letters: methods are trained on
nested random subsets of the seen classes, with the same unseen classes. To save time, features are
100 principal components.
"""

# %%
# Error bars are standard deviations over two draws of subsets. Methods are tuned once on all seen
# classes; ``retune=True`` tunes them on each subset, as in the paper.

from tempfile import mkdtemp

from sklearn.decomposition import PCA

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis, summarize_analysis

letters = load_glyphs()
components = PCA(100, random_state=0).fit(letters.X_train)
data = letters.with_features(components.transform(letters.X), "100 components")
methods = ["ESZSL", "EXEM (1NN)", "EXEM (ESZSL)", "Gaussian EXEM"]
frame, _ = run_analysis("seen-classes", data, mkdtemp(), methods=methods, seeds=[0, 1])
print(summarize_analysis(frame).to_string())
AnalysisDisplay(frame).plot()

# %%
# On the command line: ``zslearn analyze seen-classes glyphs --seeds 0 1``.
