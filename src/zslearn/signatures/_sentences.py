"""Sentences of a class kept apart: counts of the kinds of sentences that are said of it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._messages import name_some
from zslearn._utils._validation import checks_parameters
from zslearn.signatures._text import column_names


class SentenceKinds(TransformerMixin, BaseEstimator):
    r"""Describe classes by the kinds of sentences that are said of them.

    The mean of the vectors of sixty sentences says little of any. Here all sentences are clustered
    by k-means; a class is described by how often each kind is said of it, n, as

    .. math:: \log(1 + n_{ck}) \left(1 + \log \frac{1 + C}{1 + C_k}\right),

    with :math:`C_k` of the C classes having a sentence of kind k. Only texts are looked at, no
    images, so that described classes may take part. What a kind says of the look of a class is
    learned next, by a method such as :class:`~zslearn.synthesis.GaussianEXEM`.

    Parameters
    ----------
    n_kinds : int, default=1200
        The number of kinds; at most a third of the number of sentences.
    random_state : int, RandomState instance or None, default=0
        Of k-means.

    Attributes
    ----------
    centers_ : ndarray of shape (n_kinds, n_dimensions)
        Mean vector of each kind.
    rarity_ : ndarray of shape (n_kinds,)
        What counts are multiplied by.

    See Also
    --------
    text_signatures : With ``pool=None`` it keeps sentences apart.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import SentenceKinds
    >>> sentences = {"zebra": [[1, 0], [1, 0.1], [0, 1]], "okapi": [[1, 0], [-1, 0.1], [-1, 0]]}
    >>> kinds = SentenceKinds(n_kinds=2).fit(sentences)
    >>> kinds.transform(sentences).shape
    (2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_kinds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_kinds: int = 1200, *, random_state: Any = 0) -> None:
        self.n_kinds = n_kinds
        self.random_state = random_state

    @checks_parameters()
    def fit(self, sentences: Any, y: Any = None) -> Self:
        """Find the kinds.

        Parameters
        ----------
        sentences : DataFrame or mapping
            Vectors of the sentences of each class: a table whose index has the label first, one row
            per sentence, or label → array of shape (n_sentences, n_dimensions).
        y : None
            Not used.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels, rows = _apart(sentences)
        n_kinds = max(1, min(self.n_kinds, len(rows) // 3))
        means = MiniBatchKMeans(
            n_kinds, batch_size=4096, n_init=1, max_iter=20, random_state=self.random_state
        ).fit(rows)
        self.centers_ = means.cluster_centers_
        counts = self._counts(labels, rows)
        self.rarity_ = 1 + np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0).to_numpy()))
        return self

    def transform(self, sentences: Any) -> pd.DataFrame:
        """Count the kinds of each class's sentences.

        Parameters
        ----------
        sentences : DataFrame or mapping
            As of :meth:`fit`, of these classes or of others.

        Returns
        -------
        DataFrame
            One row per class, in the order of `sentences`; one column per kind.
        """
        check_is_fitted(self)
        return np.log1p(self._counts(*_apart(sentences))) * self.rarity_

    def _counts(self, labels: pd.Index, rows: Floats) -> pd.DataFrame:
        if rows.shape[1] != self.centers_.shape[1]:
            raise ValueError(
                f"The sentences have vectors of {rows.shape[1]} numbers; those given to fit have "
                f"{self.centers_.shape[1]}: use the same encoder."
            )
        nearest = rows @ self.centers_.T - 0.5 * (self.centers_**2).sum(axis=1)
        codes, classes = pd.factorize(labels)
        counts = np.zeros((len(classes), len(self.centers_)))
        np.add.at(counts, (codes, nearest.argmax(axis=1)), 1.0)
        index = pd.Index(classes, name="class", tupleize_cols=False)
        return pd.DataFrame(counts, index=index, columns=column_names("kind", len(self.centers_)))


def _apart(sentences: Any) -> tuple[pd.Index, Floats]:
    """The label of each sentence, and its vector as a unit row."""
    if isinstance(sentences, Mapping):
        none = [label for label, rows in sentences.items() if not len(rows)]
        if none or not sentences:
            raise ValueError(f"There are no sentences of {name_some(none) if none else 'classes'}.")
        frames = {label: pd.DataFrame(np.asarray(rows)) for label, rows in sentences.items()}
        sentences = pd.concat(frames)
    if not isinstance(sentences, pd.DataFrame):
        raise ValueError(
            "sentences must be a table whose index has the label of each sentence, as "
            "text_signatures(…, pool=None) gives it, or map labels to arrays; got "
            f"{type(sentences).__name__}."
        )
    rows = check_array(sentences, dtype=np.float64, input_name="sentences")
    return sentences.index.get_level_values(0), unit_rows(rows)
