"""
Fewer and fewer seen classes
============================

How methods fare with fewer seen classes (section 4.2 of the paper), on letters: nested random
subsets of the seen classes, while the unseen ones stay as they are.
"""

# %%
# Bars are standard deviations over two draws of subsets. Methods are tuned once, by leaving out
# some of all seen classes; ``retune=True`` tunes them on each subset, as in the paper.

from tempfile import mkdtemp

from zslearn.datasets import load_glyphs
from zslearn.experiments.analyses import (
    SeenClassesDisplay,
    analyze_seen_classes,
    summarize_analysis,
)

frame = analyze_seen_classes(
    load_glyphs(), mkdtemp(), methods=["ESZSL", "Gaussian EXEM"], seeds=[0, 1]
)
print(summarize_analysis(frame).to_string())
SeenClassesDisplay.from_frame(frame)

# %%
# The same from a shell: ``zslearn analyze seen-classes glyphs --seeds 0 1``.
