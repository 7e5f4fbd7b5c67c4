"""
From records: curves, ranks and protocols
=========================================

Three analyses need nothing but the records of a benchmark; where there are none, they run it. Here
on letters, with small grids.
"""

# %%
# Curves
# ------
#
# The accuracy on images of seen and of unseen classes for every calibration factor, with the areas
# in the legend; and the harmonic mean along the same curves.

from tempfile import mkdtemp

import matplotlib.pyplot as plt

from zslearn.datasets import load_glyphs
from zslearn.experiments import Protocol
from zslearn.experiments.analyses import (
    CurvesDisplay,
    ProtocolDisplay,
    RanksDisplay,
    analyze_curves,
    analyze_protocol,
    analyze_ranks,
)

data = load_glyphs()
out = mkdtemp()
frame = analyze_curves(data, out, methods=["ESZSL", "CCA", "COSTA"], seeds=[0, 1], n_splits=3)
_, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for ax, panel in zip(axes, CurvesDisplay.panels, strict=True):
    CurvesDisplay.from_frame(frame, ax=ax, panel=panel)

# %%
# Ranks
# -----
#
# The records of the curves are there already; nothing is run again. Ranks go over data sets, splits
# and seeds. Two seeds of one split say little: the critical difference is as wide as the line.

frame = analyze_ranks(None, out, runs=out, metric="ausuc")
print(frame[["method", "mean_rank", "mean", "pvalue"]].to_string(index=False))
RanksDisplay.from_frame(frame)

# %%
# What a protocol is worth
# ------------------------
#
# One part of the protocol is changed at a time, and compared seed by seed.

protocols = [Protocol("two folds", 2), Protocol("scale of all classes", 3, signature_scale="all")]
frame = analyze_protocol(data, out, methods="COSTA", seeds=[0, 1], protocols=protocols, n_splits=3)
ProtocolDisplay.from_frame(frame)
