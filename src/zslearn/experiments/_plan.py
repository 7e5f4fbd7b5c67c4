"""The runs of a benchmark: which there are, their names, and what can be known beforehand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from zslearn._version import __version__
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._measure import untested_classes
from zslearn.experiments._methods import Method
from zslearn.experiments._protocol import GRIDS, PROTOCOLS, Protocol, authors_protocol, named_grid
from zslearn.experiments._record_checks import RECORD_SCHEMA
from zslearn.experiments._records import read_record
from zslearn.experiments._summary import is_class_split
from zslearn.experiments._tuning import tune_at_once
from zslearn.utils import fingerprint, name_some, to_numpy, warn_user


@dataclass(frozen=True, eq=False)
class Run:
    """One method on one split, in one setting, with one seed.

    `label` says which, as far as the runs of one call differ; `data_key` is a digest of the data.
    """

    data: ZeroShotDataset
    name: str
    method: Method
    setting: str
    seed: int
    grid: str
    protocol: Protocol
    out: Path
    shared: Path
    label: str
    data_key: str

    @property
    def slug(self) -> str:
        """A file name that tells the run; the default protocol goes without saying.

        A split other than "ns" can be made in several ways, from published or random lists of
        classes and with any hold-out: a digest of its version tells them apart.
        """
        data, protocol = self.data, self.protocol.name
        made = "" if data.split == "ns" else f"-{fingerprint(data.version)[:6]}"
        parts = [
            data.name,
            data.split + made,
            data.features,
            *([data.semantic] if data.semantic else []),
            self.name,
            self.setting,
            self.grid,
            self.seed,
        ]
        return _slug(*parts, *([] if protocol == "default" else [protocol]))

    @property
    def path(self) -> Path:
        """The record."""
        return self.out / f"{self.slug}.json"

    @property
    def parts(self) -> Path:
        """Where finished settings of its search are kept."""
        return self.out / f".parts-{self.slug}"

    def key(self) -> str:
        """A digest of all that the record depends on."""
        return fingerprint(
            self.data_key,
            self.method.definition(),
            self.setting,
            self.grid,
            self.protocol.definition(self.setting),
            self.seed,
            __version__,
        )

    def check(self) -> None:
        """Raise an error where it is known beforehand that the run must fail."""
        estimator = self.method.make()
        if self.method.tune is tune_at_once:
            named_grid(estimator, self.grid)
        if self.method.check is not None:
            self.method.check(self.data)

    def is_finished(self) -> bool:
        """Whether there is a record of this very run; a damaged one is named."""
        if not self.path.exists():
            return False
        try:
            record = read_record(self.path)
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            warn_user(f"The record {self.path} is computed again: {reason}.")
            return False
        return "failed" not in record and record.get("key") == self.key()

    def origin(self) -> dict[str, Any]:
        """What a record says of the run before its results."""
        return {
            "schema": RECORD_SCHEMA,
            "dataset": self.data.name,
            "split": self.data.split,
            "split_version": self.data.version,
            "features": self.data.features,
            **({"semantic": self.data.semantic} if self.data.semantic else {}),
            "method": self.method.name,
            "setting": self.setting,
            "protocol": self.protocol.name,
            "seed": self.seed,
            "grid": self.grid,
        }


def chosen_splits(data: ZeroShotDataset, splits: str | Sequence[str] | None) -> list[str]:
    """Names of splits, each once; "ss" may stand for every class split."""
    words = [data.split] if splits is None else [splits] if isinstance(splits, str) else splits
    chosen: list[str] = []
    for word in words:
        class_splits = [name for name in data.splits if is_class_split(name)]
        chosen += class_splits if word == "ss" and word not in data.splits else [word]
    if not chosen:
        raise ValueError(f"{data.name} has no class splits; it has {', '.join(data.splits)}.")
    return list(dict.fromkeys(chosen))


def check_measurable(data: ZeroShotDataset, settings: Sequence[str]) -> None:
    """Refuse a setting that the active split cannot measure."""
    if "gzsl" not in settings:
        return
    where = f"{data.name}, split {data.split!r}"
    if not len(data.active_split.test_seen):
        raise ValueError(
            f"{where}, has no test images of seen classes, which the generalized setting needs: "
            "hold some out when it is loaded (hold_out=0.2; on the command line --hold-out 0.2), "
            "or ask for the setting zsl alone."
        )
    if untested := untested_classes(data):
        raise ValueError(
            f"{where}, has no test images of these classes: {name_some(untested)}; the generalized "
            "setting measures every described class. Leave them out of the signatures, hold out "
            "an image of each, or ask for the setting zsl alone."
        )


def _protocol_of(
    protocol: str | Protocol,
    data: ZeroShotDataset,
    settings: Sequence[str],
    n_splits: int | None,
    authors: str | os.PathLike[str] | None,
) -> Protocol:
    """The protocol for one split."""
    if isinstance(protocol, Protocol):
        if protocol.name in PROTOCOLS and not protocol.is_authors:
            raise ValueError(f"The name {protocol.name!r} is taken; call your protocol otherwise.")
        if n_splits is not None:
            raise ValueError("A Protocol has its own number of folds: n_splits is not for it.")
        return protocol
    if protocol == "default":
        return Protocol("default") if n_splits is None else Protocol("default", n_splits)
    if protocol != "authors":
        raise ValueError(f"There is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}.")
    if n_splits is not None:
        raise ValueError("The authors' protocol has five folds: n_splits is not for it.")
    return authors_protocol(data, authors, hold_out="gzsl" in settings)


def plan_runs(
    parts: Sequence[ZeroShotDataset],
    named: dict[str, Method],
    settings: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    protocol: str | Protocol,
    grid: str | None,
    n_splits: int | None,
    authors: str | os.PathLike[str] | None,
) -> Iterator[Run]:
    """Every run, in the order in which they are computed."""
    if isinstance(protocol, Protocol) and protocol.is_for_one_split and len(parts) > 1:
        names = name_some([part.split for part in parts])
        raise ValueError(
            f"The class_order and the rows held_out of the protocol {protocol.name!r} are those of "
            f"one split, but there are several: {names}. Run each split with its own Protocol."
        )
    protocols = [_protocol_of(protocol, part, settings, n_splits, authors) for part in parts]
    chosen_grid = grid or protocols[0].grid
    if chosen_grid not in GRIDS:
        raise ValueError(f"There is no grid named {chosen_grid!r}; there are: {', '.join(GRIDS)}.")
    # The data themselves are the same for every split, and large.
    whole = fingerprint(to_numpy(parts[0].X), parts[0].y, parts[0].signatures)
    for part, of_part in zip(parts, protocols, strict=True):
        split = part.active_split
        data_key = fingerprint(whole, split.train, split.test_seen, split.test_unseen)
        for seed in seeds:
            # Not that of another run into the same folder, which may end before this one. The
            # settings of this run share theirs.
            of_run = list(named), list(settings), chosen_grid, seed
            identity = (*of_run, of_part.definition("zsl"))
            shared = fingerprint(data_key, *identity)
            where = [part.split] if len(parts) > 1 else []
            where += [f"seed {seed}"] if len(seeds) > 1 else []
            for setting, name in product(settings, named):
                yield Run(
                    data=part,
                    name=name,
                    method=named[name],
                    setting=setting,
                    seed=seed,
                    grid=chosen_grid,
                    protocol=of_part,
                    out=out,
                    shared=out / f".parts-shared-{shared[:12]}",
                    label=", ".join([name, setting, *where]),
                    data_key=data_key,
                )


def _slug(*parts: Any) -> str:
    """A file name that tells the parts and differs when they do."""
    plain = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-") for part in parts)
    return plain if plain == "_".join(map(str, parts)) else f"{plain}_{fingerprint(*parts)[:6]}"
