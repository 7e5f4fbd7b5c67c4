"""Records of runs, written and read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.experiments._record_checks import (
    FAILURE,
    OPTIONAL,
    REQUIRED,
    by_class_of,
    check_record,
    checked_edges,
    checked_failure,
    checked_metrics,
    checked_origin,
)
from zslearn.utils import (
    DamagedFileError,
    plain,
    read_checked_json,
    warn_user,
    write_checked_json,
)

_ORIGIN = (*REQUIRED, *OPTIONAL, "seed")
_COLUMNS = (*_ORIGIN, "metric", "value", "by_class", "file")
_RUN = ("dataset", "split", "features", "method", "setting", "protocol", "seed")
_FAILED_COLUMNS = (*_RUN, *FAILURE, "file")
_EDGE_COLUMNS = (*_RUN, "hyper_parameter", "value", "edge", "file")

Rows = list[dict[str, Any]]


def read_records(folder: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read the records of runs, one JSON file per run.

    A record is an object with

    - ``"schema"``: 1;
    - ``"dataset"``, ``"split"``, ``"split_version"``, ``"features"``, ``"method"``,
      ``"setting"`` (``"zsl"`` or ``"gzsl"``: what the hyper-parameters were tuned for): text;
    - optionally ``"subset"`` (part of the unseen classes), ``"semantic"`` (kind of signatures),
      ``"variant"`` (``name=value`` joined by ``;``), ``"protocol"`` (how it was tuned; without it
      ``"default"``) and ``"grid"`` (which of the method's grids): text;
    - ``"seed"``: whole number or null;
    - ``"metrics"``: name → number. All numbers are fractions between 0 and 1. Names are those of
      the published numbers: ``per_class_accuracy``, ``per_sample_accuracy``, ``ausuc``,
      ``unseen``, ``seen``, ``harmonic`` (without calibration), ``calibrated_unseen``,
      ``calibrated_seen``, ``calibrated_harmonic`` (at the factor from the training data),
      ``flat_hit_at_5``, ``hierarchical_precision_at_5``; others may be there. null and NaN mean
      not measured;
    - only where the run failed, ``"failed"``: an object with the ``"type"`` of the error, its
      ``"reason"`` in one line and its ``"traceback"``. Such a record has no rows here;
      :func:`failed_runs` lists it;
    - ``"checksum"``: SHA-256 of the rest as JSON with sorted keys and without spaces.
      :func:`write_record` computes it;
    - optionally ``"per_class"``: class → accuracy. In the setting ``"zsl"`` these are the
      accuracies behind ``per_class_accuracy``, in ``"gzsl"`` those behind ``calibrated_seen`` and
      ``calibrated_unseen``; ``"unseen_classes"`` then lists the unseen ones. Whether two methods
      differ is judged by these;
    - optionally, for the report: ``"confused_with"``: class → pairs of another class and the share
      of images that were taken for it; ``"curve"``: lists ``"acc_unseen"``, ``"acc_seen"`` and
      ``"bias"`` of one length; ``"calibration_factor"``; ``"hyper_parameters"``, ``"edges"`` and
      ``"cross_validation"`` of the search; ``"times"`` in seconds, of which ``"reused"`` are those
      of training that another method's search had done; ``"versions"``, ``"machine"``,
      ``"command"``;
    - whatever else the run wants to keep.

    Class splits are records with the splits ``"ss-1"``, ``"ss-2"``, …; tables show their mean.

    Files and folders whose name begins with a dot are passed over, so a record that is just being
    written is not seen. A file that is no record, that was changed after it was written, or that
    has no checksum is skipped with a warning that names it; :func:`run_benchmark` computes such a
    record again.

    Parameters
    ----------
    folder : path or iterable of paths
        Where the records are; folders inside it are searched too. Or the files of records, as
        :func:`run_benchmark` returns them.

    Returns
    -------
    DataFrame
        One row per number, with the columns `dataset`, `split`, `split_version`, `features`,
        `method`, `setting`, `subset`, `semantic`, `variant`, `protocol`, `grid`, `seed`, `metric`,
        `value`, `by_class`, `file`. `by_class` is a tuple of pairs, class and accuracy, where the
        number is their mean and the record has them; else None.

    See Also
    --------
    run_benchmark : Writes records.
    write_record : Writes a record of one's own.
    failed_runs : What failed.
    """
    return pd.DataFrame(_read(_files(folder), _metric_rows), columns=list(_COLUMNS))


def whole_records(records: Path | str | Iterable[Path | str]) -> Rows:
    """Read records with all that they hold, those of failed runs too; see :func:`read_records`."""
    return _read(_files(records), lambda record: [record])


def numbers_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """What :func:`read_records` gives, from records that are read already."""
    rows = [{**row, "file": record["file"]} for record in records for row in _metric_rows(record)]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def write_record(record: Mapping[str, Any], path: Path | str) -> None:
    """Write a record of a run of one's own, with its checksum.

    Parameters
    ----------
    record : mapping
        As :func:`read_records` describes it. A checksum that it has is replaced.
    path : Path or str
        The file; it is written whole or not at all. Its folder is made.

    Raises
    ------
    ValueError
        It is no record; the message says why.
    """
    check_record(dict(record))
    write_checked_json(Path(path), record, indent=1)


def read_record(path: Path) -> dict[str, Any]:
    """Read one record, whole and checked.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        Its content, without the checksum.

    Raises
    ------
    ValueError
        It is damaged, was changed after it was written, or is no record.
    OSError
        It cannot be read.
    """
    try:
        record = read_checked_json(path)
        check_record(record)
    except OverflowError as error:
        raise DamagedFileError(f"damaged record: a number is too large ({error})") from None
    return record


def failed_runs(records: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """List the runs that failed, from their records.

    Running :func:`run_benchmark` again with `resume` tries them again; a record of success takes
    the place of the failed one.

    Parameters
    ----------
    records : path or iterable of paths
        A folder, which is searched as by :func:`read_records`; or the files of records, as
        :func:`run_benchmark` returns them. A file that is no record is skipped with a warning.

    Returns
    -------
    DataFrame
        One row per failed run, with the columns `dataset`, `split`, `features`, `method`,
        `setting`, `protocol`, `seed`, `type` (of the error), `reason` (one line), `traceback`,
        `file`.

    See Also
    --------
    read_records : The numbers of the runs that did not fail.
    """
    return pd.DataFrame(_read(_files(records), _failed_rows), columns=list(_FAILED_COLUMNS))


def grid_edges(records: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """List the hyper-parameters whose chosen value is at the edge of its grid.

    Parameters
    ----------
    records : path or iterable of paths
        A folder, or the files of records; see :func:`failed_runs`.

    Returns
    -------
    DataFrame
        One row per hyper-parameter of a run, with the columns `dataset`, `split`, `features`,
        `method`, `setting`, `protocol`, `seed`, `hyper_parameter`, `value`, `edge` ("smallest" or
        "largest") and `file`.

    See Also
    --------
    zslearn.model_selection.GridEdgeWarning : The same, said by a search.
    """
    return pd.DataFrame(_read(_files(records), _edge_rows), columns=list(_EDGE_COLUMNS))


def _files(records: Path | str | Iterable[Path | str]) -> list[tuple[Path, str]]:
    """Files that may be records, those of a folder with their names inside it."""
    if not isinstance(records, (str, Path)):
        return [(Path(path), str(path)) for path in records]
    folder = Path(records)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to read records from.")
    found: list[Path] = []
    # A folder that a run removes meanwhile is passed over by os.walk, and not by Path.rglob.
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(place, name)
            for name in names
            if name.endswith(".json") and not name.startswith(".")
        ]
    return [(path, str(path.relative_to(folder))) for path in sorted(found) if path.is_file()]


def _read(files: list[tuple[Path, str]], rows_of: Callable[[Any], Rows]) -> Rows:
    """Rows of all records; a file that is none is skipped with a warning."""
    rows: Rows = []
    for path, name in files:
        try:
            record = read_record(path)
            rows += [{**row, "file": name} for row in rows_of(record)]
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            # Whatever it is, no table shows a number that nothing vouches for.
            warn_user(
                f"Skipped {plain(path)}: {reason}. If it is a record, run it again (zslearn bench)."
            )
    return rows


def _metric_rows(record: Any) -> Rows:
    """One row per number of a record; none where the run failed."""
    if checked_failure(record) is not None:
        return []
    origin = checked_origin(record)
    metrics = checked_metrics(record)
    by_class = by_class_of(record, metrics)
    return [
        {**origin, "metric": metric, "value": value, "by_class": by_class.get(metric)}
        for metric, value in metrics.items()
    ]


def _failed_rows(record: Any) -> Rows:
    """One row where the run failed, else none."""
    failure = checked_failure(record)
    return [] if failure is None else [{**checked_origin(record), **failure}]


def _edge_rows(record: Any) -> Rows:
    """One row per hyper-parameter at an edge."""
    origin = checked_origin(record)
    return [
        {**origin, "hyper_parameter": name, "value": value, "edge": edge}
        for name, (value, edge) in checked_edges(record).items()
    ]
