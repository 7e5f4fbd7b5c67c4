"""What a fitted method tells of the classes it describes."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Self

from sklearn.utils.validation import check_is_fitted

from zslearn.signatures import SignatureTable
from zslearn.utils import Array, Floats, saved_part


@saved_part
class _Described(NamedTuple):
    """Classes and their parameters, replaced together."""

    table: SignatureTable
    parameters: Array


class Describing:
    """The part of a method that looks at, or exchanges, what is described."""

    _described: Any

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of every described class, as given."""
        table: SignatureTable = self._described.table
        return table

    def describing(self, table: SignatureTable) -> Self:
        """A copy that describes other classes; what was learned is shared, and nothing is changed.

        Parameters
        ----------
        table : SignatureTable
            Every class that the copy describes, with the attributes given to `fit`.

        Returns
        -------
        estimator
            The copy.
        """
        check_is_fitted(self, "signature_table_")
        other: Any = copy.copy(self)
        other._describe(table)
        return other

    def seen_shares(self, signatures: Any) -> Floats | None:
        """How much each seen class counts where the parameters of classes are made of theirs.

        A method that makes a class from seen ones by weights overrides it, for
        :func:`zslearn.inspection.explain`.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_seen) or None
            Not negative, columns in the order of `seen_classes_`; here None.
        """
        return None
