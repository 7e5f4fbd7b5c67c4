"""Model files of each version of the format, which later versions of the library must read.

``python tests/persistence/examples.py`` writes those of the present format that are not there. Run
it when the number of the format has risen, and for a new estimator. Files that are there stay: they
are what users have.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent))
    from sklearn.base import clone
    from sklearn.preprocessing import StandardScaler

    from estimators import all_estimators, instances
    from zslearn import persistence
    from zslearn.baselines import ESZSL
    from zslearn.datasets import make_zero_shot
    from zslearn.model_selection import ZeroShotPipeline
    from zslearn.persistence._model_files import FORMAT_VERSION

    warnings.simplefilter("ignore")
    data = make_zero_shot(
        n_seen=6, n_unseen=3, n_features=7, n_attributes=5, samples_per_class=8, random_state=2
    )
    models = {}
    for parameter in instances():
        estimator = parameter.values[0]
        # The first setting of each.
        models.setdefault(type(estimator).__name__, clone(estimator))
    assert set(models) == set(all_estimators())
    models["ZeroShotPipeline"] = ZeroShotPipeline([("a", StandardScaler()), ("b", ESZSL())])
    folder = FOLDER / f"format_{FORMAT_VERSION}"
    for name, model in models.items():
        if (folder / f"{name}.zsl").exists():
            continue
        model.fit(data.X_train, data.y_train, signatures=data.signatures)
        rows = data.X_test_unseen[:5]
        added = data.signatures.iloc[[0]] + 0.1
        added.index = ["zz-new"]
        extras = {"rows": rows, "scores": model.decision_function(rows)}
        extras["new"] = added.to_numpy()
        persistence.save(model, folder / f"{name}.zsl", extras=extras)
