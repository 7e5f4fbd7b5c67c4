"""The emoji data set: pictures in several styles, described by their names and keywords."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._emoji_classes import Emoji, class_groups, emoji_texts
from zslearn.datasets._emoji_packages import STYLES, find_emoji, sources
from zslearn.datasets._emoji_pictures import (
    VERSION,
    load_picture_features,
    load_pictures,
    read_catalogue,
)
from zslearn.datasets._provenance import unproved
from zslearn.features import load_backbone
from zslearn.signatures import text_signatures
from zslearn.utils import cache_folder, checks_arguments, did_you_mean

UNSEEN_SHARE = 0.2  # of the classes of each group
_CLASS_SEED, _STYLE_SEED = 1, 2


@checks_arguments(
    {
        "split": [str],
        "folder": [str, os.PathLike, None],
        "cache": [str, os.PathLike, None],
        "backbone": [str],
        "language": [str],
        "encoder": [str, os.PathLike, callable, None],
        "progress": ["boolean"],
    }
)
def load_emoji(
    split: str = "ns",
    *,
    folder: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    backbone: str = "efficientnet-lite0",
    language: str = "en",
    encoder: object = None,
    progress: bool = False,
) -> ZeroShotDataset:
    """Load the emoji data set: 944 classes in seven styles, described by names and keywords.

    The drawings come from packages of npm, which :func:`fetch_emoji` or ``zslearn data fetch
    emoji`` brings; they are rendered on white at 128 × 128 pixels. Their licences: noto and noto-v1
    (Google) Apache 2.0; openmoji CC BY-SA 4.0; twemoji (Twitter) CC BY 4.0; fluent-emoji and
    fluent-emoji-flat (Microsoft) MIT; emojione (EmojiTwo) CC BY 4.0; names and keywords of
    emojibase-data MIT.

    A class is labelled by its English name. Classes are all emoji outside people, their parts, and
    flags, that each of the seven styles draws, but for digits on keys and for four emoji whose
    drawings are mixed up in some style. The features are those of a network, the signature is the
    mean of two sentence vectors, of the name and of the keywords.

    In every split a fifth of the classes of each group of emoji is unseen, always the same: 189 of
    944. In "ns" one style of each seen class, another from class to class, is for testing. In
    "style-NAME" one style is never trained on, and all test pictures are in this style: unseen
    classes in an unseen style.

    Parameters
    ----------
    split : str, default="ns"
        The active split: "ns", or "style-" and the name of a style, as "style-openmoji".
    folder : path, optional
        Where the packages lie; by default the folder named by the environment variable
        ``ZSLEARN_DATA``, else the user's data folder.
    cache : path, optional
        Where pictures (330 MB) and features (35 MB) are kept; by default the folder named by
        ``ZSLEARN_CACHE``, else the user's cache folder.
    backbone : str, default="efficientnet-lite0"
        The network; see :func:`zslearn.features.load_backbone`.
    language : str, default="en"
        The language of names and keywords: "de", "fr", "ja" and others, 28 in all.
    encoder : str, path, callable or None, default=None
        The sentence encoder; see :func:`zslearn.signatures.encode_text`.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ZeroShotDataset
        With all splits, the pictures, and float32 features; the seven pictures of a class lie
        together.

    Raises
    ------
    FileNotFoundError
        The packages are not there; the message says how to get them.
    ImportError
        An optional package is missing: the extras are "emoji", "images" and "text".
    ValueError
        There is no such split or language, or a file is damaged, or a drawing holds what is not
        rendered, such as a reference to a file.

    See Also
    --------
    fetch_emoji : Brings the packages.
    save_emoji_images : Writes the pictures to folders.

    Notes
    -----
    At the first call pictures are rendered and features computed, some minutes on one core; both
    are kept style by style, so that an interrupted call goes on where it was. The names of the
    files in the cache hold a digest of the drawings, the renderer and the network.

    Examples
    --------
    >>> from zslearn.datasets import load_emoji
    >>> data = load_emoji()  # doctest: +SKIP
    >>> data.signatures.shape  # doctest: +SKIP
    (944, 512)
    """
    if split not in (known := ["ns", *(f"style-{style}" for style in STYLES)]):
        raise ValueError(
            f"emoji has no split {split!r}; choose one of {', '.join(known)}."
            f"{did_you_mean(split, known)}"
        )
    place = find_emoji(folder)
    catalogue = read_catalogue(place, cache_folder(cache))
    texts = emoji_descriptions(place, catalogue.classes, language)
    pictures = load_pictures(catalogue, progress=progress)
    network = load_backbone(backbone)
    features = load_picture_features(catalogue, pictures, network, progress=progress)
    signatures = text_signatures(texts, encoder, progress=progress)  # type: ignore[arg-type]
    labels = np.array([emoji.label for emoji in catalogue.classes])
    return ZeroShotDataset(
        X=features.reshape(-1, features.shape[2]),
        y=np.repeat(labels, len(STYLES)),
        signatures=signatures,
        splits=emoji_splits(catalogue.classes, place),
        split=split,
        name="emoji",
        features=backbone,
        images=pictures.reshape(-1, *pictures.shape[2:]),
        semantic=f"name and keywords, {language}",
    )


def emoji_descriptions(folder: Path, classes: list[Emoji], language: str) -> dict[str, list[str]]:
    """The texts that describe each class: its name, and its keywords."""
    texts = emoji_texts(folder, classes, language)
    return {
        label: [name, ", ".join(keywords)] if keywords else [name]
        for label, (name, keywords) in texts.items()
    }


def _generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def unseen_emoji(classes: list[Emoji]) -> NDArray[np.bool_]:
    """Which classes are unseen: a fifth of each group, by chance."""
    groups = class_groups(classes)
    # By uniform numbers, whose stream NumPy has kept the same over its releases.
    draws = _generator(_CLASS_SEED).random(len(classes))
    is_unseen = np.zeros(len(classes), dtype=bool)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        chosen = members[np.argsort(draws[members])][: round(UNSEEN_SHARE * len(members))]
        is_unseen[chosen] = True
    return is_unseen


def emoji_splits(classes: list[Emoji], folder: Path) -> dict[str, ClassSplit]:
    """All splits: unseen classes, and unseen classes in each style as the unseen one."""
    labels = np.array([emoji.label for emoji in classes])
    unseen = unseen_emoji(classes)
    n_styles = len(STYLES)
    samples = np.arange(len(classes) * n_styles).reshape(-1, n_styles)
    styles = np.arange(n_styles)
    mark = unproved(*(folder / name for name in sources()))
    # Of each class, the style that is held out.
    varied = (_generator(_STYLE_SEED).random(len(classes)) * n_styles).astype(np.intp)
    held_out = {"ns": varied[:, None] == styles}
    for position, style in enumerate(STYLES):
        held_out[f"style-{style}"] = np.broadcast_to(styles == position, samples.shape)
    seen = ~unseen[:, None]
    return {
        name: ClassSplit(
            train=samples[seen & ~held],
            test_seen=samples[seen & held],
            # Of "ns" in all styles, else in the one that is held out.
            test_unseen=samples[~seen & (held | (name == "ns"))],
            seen_classes=labels[~unseen],
            unseen_classes=labels[unseen],
            version=f"{VERSION}/{name}{mark}",
        )
        for name, held in held_out.items()
    }
