"""What a header says of a model, to be read without the model."""

from __future__ import annotations

from typing import Any

from zslearn.signatures import SignatureTable


def summary(model: Any) -> dict[str, Any]:
    """Classes, seen classes, features and views of the signatures.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.

    Returns
    -------
    dict
        What JSON can hold.
    """
    return {
        "classes": model.classes_.tolist(),
        "seen_classes": model.seen_classes_.tolist(),
        "n_features": int(model.n_features_in_),
        "signatures": [
            {
                "name": name,
                "n_attributes": int(array.shape[1]),
                "columns": None if columns is None else [str(column) for column in columns],
            }
            for name, array, columns in _views(_table(model))
        ],
    }


def _table(model: Any) -> SignatureTable | None:
    """The signatures as a user gave them, of the estimator that was fitted with them."""
    # Wrappers of wrappers are few; a file cannot make them endless.
    for _ in range(100):
        described = getattr(model, "_described", None)
        if described is not None:
            return described.table
        if isinstance(getattr(model, "steps", None), list):
            model = model.steps[-1][1]
        elif hasattr(model, "estimator_"):
            model = model.estimator_
        else:
            break
    return None


def _views(table: SignatureTable | None) -> list[Any]:
    if table is None:
        return []
    return list(zip(table.names, table.arrays, table.columns, strict=True))
