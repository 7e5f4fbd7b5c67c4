"""The small problem that the authors' program was run on, from the golden files."""

from __future__ import annotations

import numpy as np
import pandas as pd


class GoldenProblem:
    """Samples, labels, rows of the parts (from 0) and signatures; `load` reads other files."""

    def __init__(self, load):
        data, self.sig, self.load = load("tiny_ps_data"), load("tiny_ps_sig"), load
        self.X, self.Y = data["X"].astype(np.float64), data["Y"]
        self.signatures = pd.DataFrame(data["attr2"] / 100, index=np.arange(1, 21))
        names = ("tr_loc", "te_loc", "te_loc_seen", "class_order", "CV_hold_ind")
        counted = [data[name].astype(int) - 1 for name in names]
        self.train, self.unseen, self.test_seen, self.class_order, self.held_out = counted
        self.median = float(self.sig["median_L2"])
