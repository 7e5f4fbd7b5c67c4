"""The pictures of emoji as files in folders, for programs that begin with those."""

from __future__ import annotations

import csv
import os
import secrets
from pathlib import Path

from zslearn.datasets._emoji import emoji_descriptions, emoji_splits
from zslearn.datasets._emoji_classes import other_emoji, read_icons
from zslearn.datasets._emoji_packages import STYLES, find_emoji, sources
from zslearn.datasets._emoji_pictures import draw_emoji, load_pictures, read_catalogue
from zslearn.datasets._unpack import remove_tree
from zslearn.utils import cache_folder, import_optional, progress_bar

PARTS = ("train", "test_seen", "test_unseen")


def save_emoji_images(
    target: str | os.PathLike[str],
    split: str = "ns",
    *,
    folder: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    language: str = "en",
    others: bool = False,
    progress: bool = False,
) -> Path:
    """Write the pictures of emoji to folders, with what describes the classes.

    Parameters
    ----------
    target : path
        The folder to make; it must not exist. It appears whole or not at all.
    split : str, default="ns"
        The split, as of :func:`load_emoji`.
    folder, cache, language
        As of :func:`load_emoji`.
    others : bool, default=False
        Whether to write pictures as well of emoji that are no classes, since not every style draws
        them, to a folder ``others``. The data set does not know them: a person may describe them.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    Path
        The folder. In it are ``train``, ``test_seen`` and ``test_unseen``, each with one folder per
        class, which holds one PNG file per style; ``classes.csv``, the texts of all classes;
        ``unseen.txt``, the classes that have no pictures in ``train``; and ``LICENSES.txt``.

    Raises
    ------
    FileExistsError
        There is something at `target`.

    See Also
    --------
    load_emoji : The same with features and signatures, as arrays.
    """
    image = import_optional("PIL.Image", "Writing pictures")
    path = Path(target).expanduser()
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already; name a new folder.")
    place = find_emoji(folder)
    catalogue = read_catalogue(place, cache_folder(cache))
    splits = emoji_splits(catalogue.classes, place)
    if split not in splits:
        raise ValueError(f"emoji has no split {split!r}; choose one of {', '.join(splits)}.")
    texts = emoji_descriptions(place, catalogue.classes, language)
    pictures = load_pictures(catalogue, progress=progress)
    chosen = splits[split]
    styles = list(STYLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        total = sum(getattr(chosen, part).size for part in PARTS)
        with progress_bar(progress, total, "Writing", unit="pictures") as step:
            for part in PARTS:
                for sample in getattr(chosen, part).tolist():
                    row, position = divmod(sample, len(styles))
                    home = temporary / part / catalogue.classes[row].label
                    home.mkdir(parents=True, exist_ok=True)
                    picture = image.fromarray(pictures[row, position])
                    picture.save(home / f"{styles[position]}.png")
                    step(1)
        if others:
            _write_others(temporary / "others", place, progress)
        _write_words(temporary, texts, chosen.unseen_classes.tolist())
        os.rename(temporary, path)
    finally:
        remove_tree(temporary)
    return path


def _write_others(target: Path, place: Path, progress: bool) -> None:
    """Draw what is no class, in the styles that have it."""
    image = import_optional("PIL.Image", "Writing pictures")
    icons = read_icons(place)
    found = other_emoji(place, icons)
    with progress_bar(progress, len(found), "Other emoji", unit="emoji") as step:
        for emoji, styles in found.items():
            home = target / emoji.label
            home.mkdir(parents=True)
            for style in styles:
                image.fromarray(draw_emoji(icons[style], emoji)).save(home / f"{style}.png")
            step(1)


def _write_words(folder: Path, texts: dict[str, list[str]], unseen: list[str]) -> None:
    """Write what is said of the classes, which are unseen, and whose drawings they are."""
    with open(folder / "classes.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["class", "text"])
        table.writerows((label, text) for label, found in texts.items() for text in found)
    (folder / "unseen.txt").write_text("\n".join([*unseen, ""]), encoding="utf-8")
    lines = [
        f"{name}: {source.package.name} {source.package.version}, {source.author}, {source.licence}"
        for name, source in sources().items()
    ]
    (folder / "LICENSES.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
