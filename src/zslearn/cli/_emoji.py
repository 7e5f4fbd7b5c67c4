"""What `zslearn data` does with emoji."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from zslearn.cli._output import say, warnings_as_lines
from zslearn.datasets import fetch_emoji, find_emoji, save_emoji_images
from zslearn.utils import plain

EMOJI = "emoji"
_ABOUT = "944 emoji in 7 styles (Apache 2.0, MIT, CC BY 4.0, CC BY-SA 4.0), through npm"


def add_images(verbs: Any, common: argparse.ArgumentParser) -> None:
    """Add the verb that writes pictures to folders."""
    images = verbs.add_parser(
        "images",
        parents=[common],
        help="write the pictures of emoji to folders",
        description="Write the pictures of emoji to folders train, test_seen and test_unseen, one "
        "folder per class in each, with a table classes.csv of what describes the classes.",
    )
    images.add_argument("name", choices=[EMOJI], metavar="emoji", help="the data set")
    images.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to make")
    images.add_argument(
        "--split",
        default="ns",
        metavar="SPLIT",
        help="ns, or style-NAME for a style that is not trained on (default: %(default)s)",
    )
    images.add_argument(
        "--language",
        default="en",
        metavar="LANGUAGE",
        help="the language of the descriptions, as de (default: %(default)s)",
    )
    images.add_argument(
        "--others",
        action="store_true",
        help="also write emoji that are no classes of the data set, to a folder others",
    )
    images.set_defaults(run=run_images)


def emoji_is_here() -> tuple[str, str]:
    """What the data set is, and whether its packages are here."""
    try:
        find_emoji()
    except OSError:
        return _ABOUT, "no"
    return _ABOUT, "yes"


def run_fetch_emoji(arguments: argparse.Namespace) -> int:
    """Bring the packages, and say where they are."""
    print(plain(fetch_emoji(arguments.to, source=arguments.source, say=say)))
    return 0


def run_images(arguments: argparse.Namespace) -> int:
    """Write the pictures, and say where they are."""
    with warnings_as_lines():
        folder = save_emoji_images(
            arguments.folder,
            arguments.split,
            language=arguments.language,
            others=arguments.others,
            progress=True,
        )
    print(plain(folder))
    return 0
