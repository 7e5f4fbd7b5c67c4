"""`zslearn signatures`: tables of signatures from text, words, a hierarchy or attributes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn import datasets, signatures
from zslearn._utils._array import unit_rows
from zslearn._utils._files import atomic_write
from zslearn._utils._messages import plain
from zslearn.cli import _output as out


def _write(table: pd.DataFrame, arguments: argparse.Namespace) -> None:
    """Write a table, and print its size."""
    path = datasets.save_signature_table(table, arguments.out)
    out.wrote(path, f"{len(table)} classes, {table.shape[1]} columns")
    out.note(n_classes=len(table), n_columns=table.shape[1])


def _nouns(arguments: argparse.Namespace) -> tuple[signatures.WordNet, list[str]]:
    """WordNet, and the nouns selected by --wnids."""
    wordnet = signatures.WordNet(arguments.wordnet)
    wnids = datasets.imagenet_classes(arguments.wnids, arguments.lists, wordnet=wordnet)
    return wordnet, wordnet.check(wnids, str(arguments.wnids))


def _descriptions(arguments: argparse.Namespace, what: str) -> Any:
    """Read texts of classes from a file, or from WordNet for nouns."""
    if (arguments.descriptions is None) == (arguments.wnids is None):
        raise ValueError("Give either a file of names or descriptions, or --wnids.")
    if arguments.wnids is None:
        return datasets.read_descriptions(arguments.descriptions)
    wordnet, wnids = _nouns(arguments)
    return {wnid: getattr(wordnet, what)(wnid) for wnid in wnids}


def _run_text(arguments: argparse.Namespace) -> None:
    """Encode names or descriptions with a text encoder."""
    texts = _descriptions(arguments, arguments.say)
    options: dict[str, Any] = {"prompts": arguments.prompts or "{}", "progress": True}
    _write(signatures.text_signatures(texts, arguments.encoder, **options), arguments)


def _run_report(arguments: argparse.Namespace) -> None:
    """Report which descriptions to improve."""
    texts = datasets.read_descriptions(arguments.descriptions, keep_empty=True)
    means = None
    if arguments.features is not None:
        from zslearn.images import load_features

        samples = load_features(arguments.features)
        if samples.y is None:
            raise ValueError(f"{plain(arguments.features)}: the images have no labels.")
        means = pd.DataFrame(unit_rows(samples.X)).groupby(samples.y.astype(str)).mean()
    options: dict[str, Any] = {"means": means, "progress": True}
    report = signatures.description_report(texts, arguments.encoder, **options)
    out.result(str(report), neighbours=report.neighbours)
    if arguments.out is not None:
        _write(report.neighbours, arguments)


def _run_words(arguments: argparse.Namespace) -> None:
    """Average the word vectors of class names."""
    names = _descriptions(arguments, "names")
    options = {"phrases": arguments.phrases}
    table = signatures.word_signatures(names, arguments.vectors, **options)
    _write(table, arguments)
    missing = [label for label in names if label not in table.index]
    out.note(without_vector=missing)
    for label in missing:
        out.note(f"without a vector: {plain(label)}")


def _run_hierarchy(arguments: argparse.Namespace) -> None:
    """Embed classes by their distances in a hierarchy."""
    hierarchy: Any
    if (arguments.pairs is None) == (arguments.wnids is None):
        raise ValueError("Give either a table of child–parent pairs, or --wnids.")
    if arguments.pairs is None:
        if arguments.classes is not None:
            raise ValueError("--classes is for a table of pairs; select nouns with --wnids.")
        hierarchy, labels = _nouns(arguments)
    else:
        pairs = datasets.read_child_parent_pairs(arguments.pairs)
        hierarchy = signatures.ClassGraph.from_tree(pairs)
        parents = set(hierarchy.edges[:, 1].tolist())
        labels = [node for i, node in enumerate(hierarchy.nodes) if i not in parents]
        if arguments.classes is not None:
            labels = datasets.imagenet_classes(arguments.classes)
        if not labels:
            raise ValueError(
                f"{plain(arguments.pairs)}: every node has children, so the hierarchy "
                "contains a cycle; correct it, or name the classes with --classes."
            )
    options = {"n_components": arguments.components, "n_landmarks": arguments.landmarks}
    table = signatures.hierarchy_signatures(hierarchy, labels, progress=True, **options)
    _write(table, arguments)


def _run_taxonomy(arguments: argparse.Namespace) -> None:
    """Convert a table of taxonomic ranks to one column per taxon."""
    ranks = datasets.read_ranks(arguments.table)
    views = signatures.taxonomy_signatures(ranks).views
    if any(view.dtypes.iloc[0] == "category" for view in views.values()):
        raise ValueError(
            f"{plain(arguments.table)}: a table with a column for every taxon of {len(ranks):,} "
            "classes is too large. In Python, fit accepts taxonomy_signatures of it directly."
        )
    columns = [view.add_prefix(f"{rank}: ") for rank, view in views.items()]
    _write(pd.concat(columns, axis=1), arguments)


def _run_attributes(arguments: argparse.Namespace) -> None:
    """Check a table of attributes and print a report."""
    table = datasets.read_signature_table(arguments.table, label=arguments.label_column)
    report = signatures.attribute_report(table)
    out.result(str(report), report=vars(report))
    options = out.values_of(arguments, "missing", "drop_constant")
    _write(signatures.attribute_signatures(table, **options), arguments)


def _run_train_words(arguments: argparse.Namespace) -> None:
    """Train word vectors as in the paper."""
    vectors = signatures.train_word_vectors(
        arguments.corpus,
        n_dimensions=arguments.dimensions,
        n_epochs=arguments.epochs,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        **out.values_of(arguments, "window", "min_count"),
        progress=True,
    )
    with atomic_write(arguments.out) as temporary:
        vectors.save_word2vec_format(str(temporary), binary=arguments.out.suffix == ".bin")
    out.wrote(arguments.out, f"{len(vectors)} words, {vectors.vector_size} dimensions")


def _run_combine(arguments: argparse.Namespace) -> None:
    """Concatenate tables of signatures, with weights."""
    tables = [datasets.read_signature_table(path) for path in arguments.tables]
    _write(signatures.combine_signatures(tables, arguments.weights), arguments)


def _table_path(word: str) -> Path:
    """Check the suffix of a table to write."""
    if Path(word).suffix not in (".csv", ".parquet"):
        raise argparse.ArgumentTypeError(f"{plain(word)}: the name must end in .csv or .parquet.")
    return Path(word)


_OUT = ("-o --out", ("FILE", _table_path), ..., "table to write, .csv or .parquet")
_DESCRIPTIONS = (
    "table (.csv, .parquet) with labels in the first column and texts in the others, JSON file of "
    "texts by label, or text file with one class per line"
)
_TEXTS = ("description", "names", "gloss")
_PHRASES = ("both", "joined", "averaged")
_WNIDS = "classes of ImageNet: 1k, 21k, unseen, 2-hop or 3-hop; or a file with one wnid per line"
#: Options to use nouns of WordNet instead of a file of classes.
_NOUNS = (
    ("--wnids", "LIST|FILE", None, _WNIDS),
    ("--wordnet", "FOLDER", None, "WordNet 3.0 (default: the Debian or npm package)"),
    ("--lists", "FOLDER", None, "ImageNet's lists of classes (default: those of timm)"),
    _OUT,
)
_ENCODERS = (
    "text encoder: use (default), minilm, glove, or st:FOLDER for a sentence-transformers or ONNX "
    "model"
)
_ENCODER = ("--encoder", "NAME", None, _ENCODERS)
OPTIONS = {
    "signatures": {
        "text": (
            _run_text,
            ("descriptions", "FILE", None, _DESCRIPTIONS),
            *_NOUNS,
            ("--say", _TEXTS, "description", "with --wnids: names, gloss, or both (description)"),
            _ENCODER,
            ("--prompts", "PROMPT…", None, 'templates with "{}" for the text, averaged'),
        ),
        "report": (
            _run_report,
            ("descriptions", "FILE", ..., _DESCRIPTIONS),
            _ENCODER,
            ("--features", "FILE", None, "features of labelled images (.npz) to compare with"),
            ("-o --out", "FILE", None, "table of the nearest classes, .csv or .parquet"),
        ),
        "words": (
            _run_words,
            ("descriptions", "FILE", None, _DESCRIPTIONS),
            *_NOUNS,
            ("--vectors", "FILE", ..., "word vectors in the format of word2vec or GloVe"),
            ("--phrases", _PHRASES, "both", "several words: a term joined by _, or their mean"),
        ),
        "hierarchy": (
            _run_hierarchy,
            ("pairs", "FILE", None, "table of child–parent pairs; or use --wnids"),
            *_NOUNS,
            ("--classes", "FILE", None, "with pairs: one class per line (default: the leaves)"),
            ("--components", int, None, "number of dimensions (default: at most 500)"),
            ("--landmarks", int, None, "classes to scale by (default: 2,000 of more than 3,000)"),
        ),
        "taxonomy": (_run_taxonomy, ("table", "FILE", ..., out.TAXONOMY), _OUT),
        "attributes": (
            _run_attributes,
            ("table", "FILE", ..., "table (.csv, .parquet), one row per class"),
            ("--label-column", "COLUMN", None, "label column (default: the first)"),
            ("--missing", ["error", "mean", "drop"], "error", "mean of the column, or drop it"),
            ("--drop-constant", bool, False, "omit constant columns"),
            _OUT,
        ),
        "train-words": (
            _run_train_words,
            ("corpus", "FILE…", ..., "text files in UTF-8, one sentence per line"),
            ("--dimensions", int, 500, "number of dimensions"),
            ("--window", int, 20, "number of context words on either side"),
            ("--epochs", int, 1, "passes over the corpus; 1 for wv-v1 of the paper, 10 for wv-v2"),
            ("--min-count", int, 5, "omit words that occur less often"),
            ("--seed", int, 0, "random seed"),
            ("--jobs", int, 1, "number of threads; results are reproducible only with one"),
            ("-o --out", "FILE", ..., "file in word2vec's format: binary for .bin, otherwise text"),
        ),
        "combine": (
            _run_combine,
            ("tables", "FILE…", ..., "tables of signatures"),
            ("--weights", "W…", None, "weight of each table (default: equal)"),
            _OUT,
        ),
    }
}
