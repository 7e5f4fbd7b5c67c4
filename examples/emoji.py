"""
Emoji that nobody showed
========================

A model learns from 755 emoji in seven styles, and then names 189 others, of which it only knows the
name and some keywords. The drawings come from packages of npm: ``zslearn data fetch emoji`` brings
them. This example is shown as it is; run it where the packages are.
"""

# %%
# The data
# --------
#
# At the first call the drawings are rendered and a small network looks at them, some minutes on one
# core. Both are kept for later.

import numpy as np

from zslearn.baselines import ESZSL
from zslearn.datasets import load_emoji
from zslearn.metrics import flat_hit_at_k
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import encode_text

try:
    data = load_emoji(progress=True)
except FileNotFoundError as error:
    raise SystemExit(str(error)) from None
print(data)

# %%
# Learning
# --------
#
# The hyper-parameters are found by leaving out seen classes in turn.

search = ZeroShotSearchCV(ESZSL(), "fast")
search.fit(data.X_train, data.y_train, signatures=data.signatures)
best, _ = search.predict_top_k(data.X_test_unseen, 5, classes=data.unseen_classes)
for k in (1, 5):
    print(f"right among the best {k}: {flat_hit_at_k(data.y_test_unseen, best, k):.1%}")

# %%
# Asking in words
# ---------------
#
# A description that is in no list becomes a class, and the pictures of unseen classes that fit it
# best come out. What the data set says of them is not asked for this.

words = "a smiling cat"
search.add_classes({words: encode_text([words])[0]})
scores = search.decision_function(data.X_test_unseen, classes=[words]).ravel()
for row in np.argsort(-scores)[:7]:
    print(f"{data.y_test_unseen[row]:40} {scores[row]:.3f}")
