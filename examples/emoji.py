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

from pathlib import Path

import numpy as np

from zslearn.baselines import ESZSL
from zslearn.datasets import load_emoji, save_emoji_images
from zslearn.images import extract_features
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

model = ZeroShotSearchCV(ESZSL(), "fast")
model.fit(data.X_train, data.y_train, signatures=data.signatures)
best, _ = model.predict_top_k(data.X_test_unseen, 5, classes=data.unseen_classes)
for k in (1, 5):
    print(f"right among the best {k}: {flat_hit_at_k(data.y_test_unseen, best, k):.1%}")

# %%
# Asking in words
# ---------------
#
# Cats with a face are no classes of the data set, since one style calls them otherwise. Their
# pictures join those of the unseen classes; then a class is described in words, and the pictures
# that fit it best come out.

folder = Path("emoji-pictures")
if not folder.exists():
    save_emoji_images(folder, others=True, progress=True)
cats = extract_features(sorted(folder.glob("others/*cat*/*.png")), progress=True)
X = np.concatenate([data.X_test_unseen, cats.X])
names = [*data.y_test_unseen, *cats.images]

words = "a smiling cat"
model.add_classes({words: encode_text([words])[0]})
scores = model.decision_function(X, classes=[words]).ravel()
for row in np.argsort(-scores)[:12]:
    print(f"{scores[row]:.3f}  {names[row]}")
