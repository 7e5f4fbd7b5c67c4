"""
Fewer and fewer seen classes
============================

How methods fare with fewer seen classes (section 4.2 of the paper), on letters: nested random
subsets of the seen classes, while the unseen ones stay as they are. To be quick, features are 100
principal components of the usual ones.
"""

# %%
# Bars are standard deviations over two draws of subsets. Methods are tuned once, by leaving out
# some of all seen classes; ``retune=True`` tunes them on each subset, as in the paper.

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
# The same from a shell: ``zslearn analyze seen-classes glyphs --seeds 0 1``.
