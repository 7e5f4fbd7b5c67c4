"""A taxonomy as a table of ranks: signatures, child–parent pairs, and the classes below a taxon."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._messages import did_you_mean, name_some
from zslearn.signatures._class_graph import ClassTree, read_pairs
from zslearn.signatures._views import MultiSignatures


def filled_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Fill the gaps of a table of ranks with what its other rows say.

    Parameters
    ----------
    table : DataFrame
        As of :func:`taxonomy_hierarchy`.

    Returns
    -------
    DataFrame
        The same table; a rank that no other row tells is None.

    Raises
    ------
    ValueError
        A class or a rank is there twice, nothing is said of a class, or a taxon is in two others.
    """
    if not isinstance(table, pd.DataFrame) or not table.shape[1] or not len(table):
        raise ValueError(
            "A taxonomy is a DataFrame with one row per class and one column per rank, from the "
            "highest rank to the lowest; the index holds the labels."
        )
    for axis, repeated in (("row of", table.index), ("column", table.columns)):
        if repeated.has_duplicates:
            twice = repeated[repeated.duplicated()].unique()
            raise ValueError(f"The taxonomy has more than one {axis} {name_some(twice)}.")
    stripped = table.map(lambda taxon: taxon.strip() if isinstance(taxon, str) else taxon)
    filled = stripped.astype(object).where(stripped.notna() & (stripped != ""), None)
    for low in reversed(range(1, filled.shape[1])):
        for high in reversed(range(low)):
            _fill_from_below(filled, low, high)
    nothing = filled.isna().all(axis=1)
    if nothing.any():
        raise ValueError(f"The taxonomy says nothing of {name_some(filled.index[nothing])}.")
    return filled


def _fill_from_below(table: pd.DataFrame, low: int, high: int) -> None:
    """Fill a rank in from other classes of the same lower taxon; refuse one taxon in two others."""
    known = table.iloc[:, [low, high]].dropna().drop_duplicates()
    torn = known[known.iloc[:, 0].duplicated(keep=False)]
    if len(torn):
        taxon = torn.iloc[0, 0]
        above = torn[torn.iloc[:, 0] == taxon].iloc[:, 1]
        raise ValueError(
            f"The {table.columns[low]} {name_some([taxon])} is in more than one "
            f"{table.columns[high]}: {name_some(above)}. Mend the table."
        )
    above_of: dict[Any, Any] = dict(known.itertuples(index=False))
    higher = table.iloc[:, high]
    filled = higher.where(higher.notna(), table.iloc[:, low].map(above_of))
    table.isetitem(high, filled.to_numpy())


def taxonomy_hierarchy(table: pd.DataFrame) -> pd.DataFrame:
    """Make child–parent pairs of a table of ranks.

    Parameters
    ----------
    table : DataFrame
        One row per class, one column per rank, from the highest to the lowest (order, family,
        genus); the index holds the labels. Ranks may be missing: what another class of the same
        lower taxon says is filled in, else the rank is skipped.

    Returns
    -------
    DataFrame
        Child–parent pairs, in columns of these names, for
        :class:`~zslearn.calibration.RankPredictor` and for the hierarchical metrics. The highest
        taxa have no parent. A class that is the only member of a taxon of its own name, without
        ranks above, has a row without a parent.

    Raises
    ------
    ValueError
        A taxon is in two others (a genus in two families), or lies below itself.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import taxonomy_hierarchy
    >>> ranks = pd.DataFrame({"family": ["Laridae", None], "genus": ["Larus", "Larus"]},
    ...                      index=["Herring Gull", "Ring-billed Gull"])
    >>> taxonomy_hierarchy(ranks)
                  child   parent
    0             Larus  Laridae
    1      Herring Gull    Larus
    2  Ring-billed Gull    Larus
    """
    return _pairs(filled_ranks(table))


def _pairs(filled: pd.DataFrame) -> pd.DataFrame:
    """Child–parent pairs of a table without gaps; a taxon below itself is refused."""
    pairs: dict[tuple[Hashable, Hashable], None] = {}
    paths = [
        # A name that two ranks share, as of a genus and its subgenus, is one node.
        [name for name, _ in groupby([*(taxon for taxon in ranks if pd.notna(taxon)), label])]
        for label, *ranks in filled.itertuples()
    ]
    for depth in range(1, filled.shape[1] + 1):
        for path in paths:
            if depth < len(path):
                pairs.setdefault((path[depth], path[depth - 1]))
    if pairs:
        ClassTree(list(pairs))
    # A class that is its only taxon, of which nothing else is, would otherwise be in no pair.
    linked = {node for pair in pairs for node in pair}
    pairs |= {(path[0], None): None for path in paths if path[0] not in linked}
    return pd.DataFrame(list(pairs), columns=["child", "parent"])


def taxonomy_signatures(
    table: pd.DataFrame, *, like: MultiSignatures | None = None
) -> MultiSignatures:
    """Make signatures of a table of ranks: one view per rank, with one column per taxon.

    As views, ranks have weights: equal ones, those of
    :class:`~zslearn.model_selection.WeightedViews`, or those that
    ``GaussianEXEM(gamma="learned")`` learns. Put other views beside them by their `views`.

    Parameters
    ----------
    table : DataFrame
        As of :func:`taxonomy_hierarchy`. In a rank that stays missing, the row is zero: nothing is
        known of the class there, and a warning of the method names it.
    like : MultiSignatures or None, default=None
        Signatures that a model was fitted with: columns are its own, so that classes can be added
        to it, and taxa that it does not have are as missing.

    Returns
    -------
    MultiSignatures
        One view per rank, named as its column.

    Raises
    ------
    ValueError
        As of :func:`taxonomy_hierarchy`.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import MultiSignatures, taxonomy_signatures
    >>> ranks = pd.DataFrame({"family": ["Laridae", "Laridae", "Alcidae"],
    ...                       "genus": ["Larus", "Rissa", "Aethia"]},
    ...                      index=["Herring Gull", "Kittiwake", "Crested Auklet"])
    >>> signatures = taxonomy_signatures(ranks)
    >>> signatures
    MultiSignatures(family × 0.5, genus × 0.5)
    >>> signatures.views["family"].columns.tolist()
    ['Laridae', 'Alcidae']
    """
    filled = filled_ranks(table)
    _pairs(filled)
    if like is not None:
        unknown = [rank for rank in filled.columns if rank not in like.views]
        if unknown:
            raise ValueError(
                f"The signatures given as like= have no view {name_some(unknown)}; they have "
                f"{name_some(like.views)}."
            )
    views = {}
    for rank in filled.columns:
        taxa = (
            pd.Index(filled[rank].dropna().unique()) if like is None else like.views[rank].columns
        )
        codes = taxa.get_indexer(filled[rank])
        rows = np.zeros((len(filled), len(taxa)))
        rows[codes >= 0, codes[codes >= 0]] = 1.0
        views[rank] = pd.DataFrame(rows, index=filled.index, columns=taxa)
    return MultiSignatures({rank: view for rank, view in views.items() if view.shape[1]})


def classes_below(
    hierarchy: Any,
    taxa: Hashable | Iterable[Hashable],
    *,
    classes: Iterable[Hashable] | None = None,
) -> list[Any]:
    """List the classes below some nodes of a hierarchy, as candidates of a prediction.

    Parameters
    ----------
    hierarchy : DataFrame, mapping or list of pairs
        Child–parent pairs, as :func:`taxonomy_hierarchy` gives them.
    taxa : str or iterable
        Names of nodes: "Passeriformes", or several genera. A class is below itself.
    classes : iterable of labels, optional
        Which nodes are classes, such as the index of the table of ranks; by default those without
        children. Pairs alone do not tell that a taxon is also a class.

    Returns
    -------
    list
        Classes at or below the named nodes, in the order of the pairs.

    Raises
    ------
    ValueError
        A name is not in the hierarchy; the message has the nearest one.

    Examples
    --------
    >>> from zslearn.signatures import classes_below
    >>> pairs = [("Herring Gull", "Laridae"), ("Kittiwake", "Laridae"), ("Auk", "Alcidae")]
    >>> classes_below(pairs, "Laridae")
    ['Herring Gull', 'Kittiwake']
    >>> classes_below(pairs, "Laridae", classes=["Laridae", "Kittiwake"])
    ['Kittiwake', 'Laridae']
    """
    of_node = classes_by_node(hierarchy, classes)
    wanted = [taxa] if isinstance(taxa, str) or not isinstance(taxa, Iterable) else list(taxa)
    for taxon in wanted:
        if taxon not in of_node:
            near = did_you_mean(taxon, of_node)
            raise ValueError(f"The hierarchy has no {name_some([taxon])}.{near}")
    chosen = {label for taxon in wanted for label in of_node[taxon]}
    return [node for node in of_node if node in chosen]


def classes_by_node(
    hierarchy: Any, classes: Iterable[Hashable] | None = None
) -> dict[Hashable, list[Hashable]]:
    """List the classes at or below each node of a hierarchy.

    Parameters
    ----------
    hierarchy, classes
        As of :func:`classes_below`.

    Returns
    -------
    dict of node to list
        Nodes in the order of the pairs, each with its classes.
    """
    pairs = list(read_pairs(hierarchy))
    tree = ClassTree(pairs)
    nodes = dict.fromkeys([child for child, _ in pairs]) | dict.fromkeys(tree.parents.values())
    leaves = set(nodes).difference(tree.parents.values())
    are_classes = leaves if classes is None else set(classes)
    found: dict[Hashable, list[Hashable]] = {node: [] for node in nodes}
    for node in nodes:
        for above in [node, *tree.ancestors(node)] if node in are_classes else []:
            found[above].append(node)
    return found
