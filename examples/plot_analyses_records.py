"""
From records: curves, ranks and protocols
=========================================

Three analyses need nothing but the records of a benchmark; where there are none, they run it, here
with small grids.
"""

# %%
# Curves
# ------
#
# The accuracy on images of seen and of unseen letters for every calibration factor, with the areas
# in the legend; and the harmonic mean along the same curves.

from tempfile import mkdtemp

import matplotlib.pyplot as plt

from zslearn.datasets import load_glyphs, make_zero_shot
from zslearn.experiments import Protocol
from zslearn.experiments.analyses import (
    CurvesDisplay,
    ProtocolDisplay,
    RanksDisplay,
    analyze_curves,
    analyze_protocol,
    analyze_ranks,
)

frame = analyze_curves(load_glyphs(), mkdtemp(), methods=["ESZSL", "CCA"], n_splits=2)
_, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for ax, panel in zip(axes, CurvesDisplay.panels, strict=True):
    CurvesDisplay.from_frame(frame, ax=ax, panel=panel)

# %%
# Ranks
# -----
#
# Ranks go over data sets, splits and seeds; here, to be quick, over three seeds of a small random
# problem, which say little: the critical difference is nearly as wide as the line.

small = make_zero_shot(random_state=0)
out = mkdtemp()
frame = analyze_ranks(small, out, methods=["ESZSL", "CCA", "COSTA"], seeds=[0, 1, 2])
print(frame[["method", "mean_rank", "mean", "pvalue"]].to_string(index=False))
RanksDisplay.from_frame(frame)

# %%
# What a protocol is worth
# ------------------------
#
# One part of the protocol is changed at a time, and compared seed by seed. The records of the
# default protocol are there from above; only what is missing is run.

protocols = [Protocol("three folds", 3), Protocol("scale of all classes", signature_scale="all")]
frame = analyze_protocol(small, out, methods="COSTA", seeds=[0, 1, 2], protocols=protocols)
ProtocolDisplay.from_frame(frame)
