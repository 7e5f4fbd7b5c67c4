"""Settings of an estimator inside another one, by the prefix of their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zslearn.utils import fingerprint


def prefixed_grids(method: Any, name: str) -> dict[str, list[dict[str, Sequence[Any]]]]:
    """Grids of a method under the name that it has in a wrapper.

    Parameters
    ----------
    method : zero-shot estimator
        Whose `grids` hold mappings, or lists of mappings.
    name : str
        What stands before two underscores and the hyper-parameter.

    Returns
    -------
    dict of str to list of dict
        Grids by name, each as a list of mappings.
    """
    grids: dict[str, list[dict[str, Sequence[Any]]]] = {}
    for grid, content in getattr(method, "grids", {}).items():
        parts = [content] if isinstance(content, Mapping) else content
        grids[grid] = [
            {f"{name}__{parameter}": list(values) for parameter, values in part.items()}
            for part in parts
        ]
    return grids


@dataclass(frozen=True)
class SettingGroup:
    """Settings that differ in the hyper-parameters of the last estimator alone.

    Parameters
    ----------
    indices : list of int
        Positions of the settings.
    shared : dict
        The hyper-parameters that are the same for all of them.
    of_last : list of dict
        For each setting those of the last estimator, without its prefix.
    """

    indices: list[int]
    shared: dict[str, Any]
    of_last: list[dict[str, Any]]


def grouped_settings(settings: Sequence[Mapping[str, Any]], prefix: str) -> list[SettingGroup]:
    """Put settings together that differ in the hyper-parameters of the last estimator alone.

    Parameters
    ----------
    settings : sequence of mappings
        Hyper-parameters by name, as `set_params` takes them.
    prefix : str
        What the names of those of the last estimator begin with.

    Returns
    -------
    list of SettingGroup
        In the order in which the first setting of each group comes.
    """
    groups: dict[str, SettingGroup] = {}
    for index, setting in enumerate(settings):
        shared = {name: value for name, value in setting.items() if not name.startswith(prefix)}
        group = groups.setdefault(fingerprint(shared), SettingGroup([], shared, []))
        group.indices.append(index)
        group.of_last.append(
            {
                name.removeprefix(prefix): value
                for name, value in setting.items()
                if name.startswith(prefix)
            }
        )
    return list(groups.values())
