"""`zslearn signatures`: tables of signatures from text, words, a hierarchy or attributes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._files import atomic_write
from zslearn._utils._messages import plain
from zslearn.cli._output import TAXONOMY
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


def _write(table: pd.DataFrame, arguments: argparse.Namespace) -> int:
    """Write a table, and say how large it is."""
    path = save_signature_table(table, arguments.out)
    print(f"{plain(path)}: {len(table)} classes, {table.shape[1]} columns")
    return 0


def _nouns(arguments: argparse.Namespace) -> tuple[WordNet, list[str]]:
    """WordNet, and the nouns that --wnids names."""
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


def _run_text(arguments: argparse.Namespace) -> int:
    """Encode descriptions."""
    texts, prompts = _descriptions(arguments, arguments.say), arguments.prompts or "{}"
    return _write(
        text_signatures(texts, arguments.encoder, prompts=prompts, progress=True), arguments
    )


def _run_report(arguments: argparse.Namespace) -> int:
    """Report on descriptions, and on images where there are some."""
    texts = read_descriptions(arguments.descriptions, keep_empty=True)
    means = None
    if arguments.features is not None:
        from zslearn.images import load_features

        found = load_features(arguments.features)
        if found.y is None:
            raise ValueError(f"{plain(arguments.features)}: the images have no labels.")
        means = pd.DataFrame(unit_rows(found.X)).groupby(found.y.astype(str)).mean()
    report = description_report(texts, arguments.encoder, means=means, progress=True)
    print(report)
    return 0 if arguments.out is None else _write(report.neighbours, arguments)


def _run_words(arguments: argparse.Namespace) -> int:
    """Average word vectors, and name classes without one."""
    names = _descriptions(arguments, "names")
    options = {"phrases": arguments.phrases, "trusted": arguments.trusted}
    found = word_signatures(names, arguments.vectors, **options)
    _write(found, arguments)
    for label in names:
        if label not in found.index:
            print(f"without a vector: {plain(label)}")
    return 0


def _run_hierarchy(arguments: argparse.Namespace) -> int:
    """Place the classes of a table of pairs, or nouns of WordNet."""
    hierarchy: Any
    if (arguments.pairs is None) == (arguments.wnids is None):
        both = "Give a table of pairs or --wnids, not both."
        neither = "Which classes? Give a table of child–parent pairs, or --wnids."
        raise ValueError(neither if arguments.wnids is None else both)
    if arguments.pairs is None:
        if arguments.classes is not None:
            raise ValueError("--classes is for a table of pairs; name nouns of WordNet by --wnids.")
        hierarchy, labels = _nouns(arguments)
    else:
        hierarchy = ClassGraph.from_tree(read_child_parent_pairs(arguments.pairs))
        parents = set(hierarchy.edges[:, 1].tolist())
        labels = [node for i, node in enumerate(hierarchy.nodes) if i not in parents]
        if arguments.classes is not None:
            labels = imagenet_classes(arguments.classes)
        if not labels:
            raise ValueError(
                f"{plain(arguments.pairs)}: every node is the parent of another, so that the "
                "hierarchy goes in a circle; mend it, or name the classes by --classes."
            )
    options = {"n_components": arguments.components, "n_landmarks": arguments.landmarks}
    return _write(hierarchy_signatures(hierarchy, labels, progress=True, **options), arguments)


def _run_taxonomy(arguments: argparse.Namespace) -> int:
    """Write a column per taxon."""
    views = taxonomy_signatures(read_ranks(arguments.table)).views
    columns = [view.add_prefix(f"{rank}: ") for rank, view in views.items()]
    return _write(pd.concat(columns, axis=1), arguments)


def _run_attributes(arguments: argparse.Namespace) -> int:
    """Print a report on attributes, and write the checked table."""
    table = read_signature_table(arguments.table, label=arguments.label_column)
    print(attribute_report(table))
    options = {"missing": arguments.missing, "drop_constant": arguments.drop_constant}
    return _write(attribute_signatures(table, **options), arguments)


def _run_train_words(arguments: argparse.Namespace) -> int:
    """Train word vectors and write them."""
    vectors = train_word_vectors(
        arguments.corpus,
        n_dimensions=arguments.dimensions,
        window=arguments.window,
        n_epochs=arguments.epochs,
        min_count=arguments.min_count,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        progress=True,
    )
    with atomic_write(arguments.out) as temporary:
        vectors.save_word2vec_format(str(temporary), binary=arguments.out.suffix == ".bin")
    print(f"{plain(arguments.out)}: {len(vectors)} words, {vectors.vector_size} dimensions")
    return 0


def _run_combine(arguments: argparse.Namespace) -> int:
    """Put tables side by side."""
    tables = [read_signature_table(path) for path in arguments.tables]
    return _write(combine_signatures(tables, arguments.weights), arguments)


def _table_path(word: str) -> Path:
    """The path of a table that can be written."""
    if Path(word).suffix not in (".csv", ".parquet"):
        raise argparse.ArgumentTypeError(f"{plain(word)}: name a file .csv or .parquet.")
    return Path(word)


_OUT = ("-o --out", ("FILE", _table_path), ..., "the table, .csv or .parquet")
_DESCRIPTIONS = (
    "a table (.csv, .parquet: labels in the first column, texts in the others), a .json that maps "
    "labels to texts, or a .txt with one class per line"
)
_SAID = ("description", "names", "gloss")
_PHRASES = ("both", "joined", "averaged")
_WNIDS = "1k, 21k, unseen, 2-hop or 3-hop of ImageNet, or a text file with one wnid per line"
#: Nouns of WordNet, instead of a file of classes.
_NOUNS = (
    ("--wnids", "LIST|FILE", None, _WNIDS),
    ("--wordnet", "FOLDER", None, "WordNet 3.0 (default: Debian's or npm's package)"),
    ("--lists", "FOLDER", None, "ImageNet's lists of classes (default: those of timm)"),
    _OUT,
)
_ENCODERS = "use (default), minilm, glove, or st:FOLDER for a sentence-transformers or ONNX model"
_ENCODER = ("--encoder", "NAME", None, _ENCODERS)
#: Subcommand → its function, what it does, and its arguments.
OPTIONS = {
    "signatures": {
        "text": (
            _run_text,
            "encode names or descriptions with a sentence encoder",
            ("descriptions", "FILE", None, _DESCRIPTIONS),
            *_NOUNS,
            ("--say", _SAID, "description", "with --wnids: description is names and gloss"),
            _ENCODER,
            ("--prompts", "PROMPT…", None, 'what each text is put into at "{}", averaged'),
        ),
        "report": (
            _run_report,
            "say which descriptions to improve",
            ("descriptions", "FILE", ..., _DESCRIPTIONS),
            _ENCODER,
            ("--features", "FILE", None, "features of labelled images (.npz), to compare with"),
            ("-o --out", "FILE", None, "all classes with the nearest ones, .csv or .parquet"),
        ),
        "words": (
            _run_words,
            "average the word vectors of the names of classes",
            ("descriptions", "FILE", None, _DESCRIPTIONS),
            *_NOUNS,
            ("--vectors", "FILE", ..., "word vectors of word2vec, GloVe or gensim"),
            (
                "--phrases",
                _PHRASES,
                "both",
                "several words: a term joined by _, or their mean",
            ),
            ("--trusted", bool, False, "the vectors are your own file of gensim: it may run code"),
        ),
        "hierarchy": (
            _run_hierarchy,
            "place classes by distances in a hierarchy",
            ("pairs", "FILE", None, "a table of child–parent pairs; or nouns of --wnids"),
            *_NOUNS,
            ("--classes", "FILE", None, "with pairs: one class per line (default: the leaves)"),
            ("--components", int, None, "width of the vectors (default: 500, or fewer)"),
            ("--landmarks", int, None, "classes to scale by (default: all to 3,000, else 2,000)"),
        ),
        "taxonomy": (
            _run_taxonomy,
            "make one column per taxon of a table of ranks",
            ("table", "FILE", ..., TAXONOMY),
            _OUT,
        ),
        "attributes": (
            _run_attributes,
            "check a table of attributes, and report",
            ("table", "FILE", ..., "one row per class, .csv, .parquet"),
            ("--label-column", "COLUMN", None, "(default: the first)"),
            ("--missing", ["error", "mean", "drop"], "error", "mean of the column, or drop it"),
            ("--drop-constant", bool, False, "leave out columns with one value"),
            _OUT,
        ),
        "train-words": (
            _run_train_words,
            "train word vectors as in the paper",
            ("corpus", "FILE…", ..., "text in UTF-8, one sentence per line"),
            ("--dimensions", int, 500, "width of the vectors"),
            ("--window", int, 20, "words on either side"),
            ("--epochs", int, 1, "passes over the corpus; 1 is the paper's wv-v1, 10 its wv-v2"),
            ("--min-count", int, 5, "words that occur less often are left out"),
            ("--seed", int, 0, "seed"),
            ("--jobs", int, 1, "threads; with more than one the result cannot be repeated"),
            ("-o --out", "FILE", ..., "vectors in word2vec's format: binary for .bin, else text"),
        ),
        "combine": (
            _run_combine,
            "put tables side by side, each with its weight",
            ("tables", "FILE…", ..., "tables of signatures"),
            ("--weights", "W…", None, "(default: equal)"),
            _OUT,
        ),
    }
}
