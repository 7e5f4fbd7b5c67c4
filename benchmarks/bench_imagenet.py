"""Signatures and metrics at the size of ImageNet: WordNet, hop sets, "hie", text, HP@K.

Each row is a new process, so that its CPU time and its peak memory are its own. WordNet 3.0 and
ImageNet's lists of classes must be there: Debian's wordnet-base, and the package timm or the folder
`imagenet` of ZSLEARN_DATA, where the published hop sets are looked for as well.

    python benchmarks/bench_imagenet.py
    python benchmarks/bench_imagenet.py --lists FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from _common import Report

START = """
import json, os, resource, sys, time
from pathlib import Path
import numpy as np
from zslearn.datasets import imagenet_classes
from zslearn.metrics import hierarchical_precision_at_k
from zslearn.signatures import *
from zslearn.signatures._class_graph import ancestor_pairs
from zslearn.signatures._kernels import squared_distances
lists = {lists!r}
wordnet = WordNet()
every, unseen = (imagenet_classes(which, lists) for which in ("21k", "unseen"))
"""
END = """
taken = globals().get("taken", time.process_time() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(dict(cpu_s=round(taken, 2), peak_gib=round(peak, 2), **found)))
"""
DISTANCES = """
def between(vectors):
    return np.sqrt(np.maximum(squared_distances(np.asarray(vectors)), 0))
def upper(square):
    return square[np.triu_indices(len(square), 1)]
"""
WORK = {
    "WordNet read": ("", "found = dict(result=f'{len(WordNet())} nouns')"),
    "graph of 21,841 classes, pairs by distance": (
        "",
        """graph = imagenet_graph(wordnet, every)
pairs = np.bincount(ancestor_pairs(graph)[:, 2].clip(max=4)).tolist()
found = dict(result=f"{len(graph)} nodes, {len(graph.edges)} links, {pairs}")""",
    ),
    "2-hop and 3-hop against the published lists": (
        "folder = Path(os.environ.get('ZSLEARN_DATA', '.')) / 'imagenet'",
        """said = []
for hops in (2, 3):
    ours = set(imagenet_classes(f"{hops}-hop", lists, wordnet=wordnet))
    path = folder / f"{hops}-hop.txt"
    theirs = set(path.read_text().split()) if path.exists() else set()
    said.append(f"{len(ours & theirs)} of {len(theirs)}, {len(ours - theirs)} others")
found = dict(result="; ".join(said))""",
    ),
    "hie of 21,841 classes, 2,000 landmarks": (
        DISTANCES,
        """vectors = hierarchy_signatures(wordnet, every)
taken = time.process_time() - start
some = np.random.default_rng(0).choice(len(every), 500, replace=False)
labels = [every[i] for i in some]
tree = upper(hierarchy_distances(class_graph(wordnet, labels), labels))
correlation = np.corrcoef(upper(between(vectors.iloc[some])), tree)[0, 1]
found = dict(result=f"{vectors.shape}, correlation with links {correlation:.3f}")""",
    ),
    "hie of 3,000 classes, exact and 2,000 landmarks": (
        DISTANCES,
        """some = np.random.default_rng(1).choice(len(every), 3000, replace=False)
labels = [every[i] for i in some]
exact, placed = (
    upper(between(hierarchy_signatures(wordnet, labels, n_landmarks=number)))
    for number in (None, 2000)
)
correlation = np.corrcoef(exact, placed)[0, 1]
differ = np.abs(exact - placed).mean() / exact.mean()
found = dict(result=f"correlation {correlation:.4f}, mean difference {100 * differ:.1f} %")""",
    ),
    "HP@{2,5,10,20}, 104,210 samples of 20,842 classes": (
        """pairs = class_graph(wordnet, unseen).pairs()
rng = np.random.default_rng(0)
labels = np.array(unseen)
y_true = np.tile(labels[rng.permutation(len(labels))], 5)
y_top = np.column_stack([np.roll(y_true, shift) for shift in range(20)])""",
        """values = hierarchical_precision_at_k(
    y_true, y_top, [2, 5, 10, 20], hierarchy=pairs, classes=labels
)
found = dict(result=str(values.round(4).tolist()))""",
    ),
    "names and glosses of 21,841 classes through USE": (
        "texts = {wnid: wordnet.description(wnid) for wnid in every}",
        """found = dict(result=str(text_signatures(texts, cache=False).shape))""",
    ),
}


def measure(setup: str, work: str, lists: str | None) -> dict[str, object]:
    """CPU seconds, peak memory and result of work in a new process with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    lines = (START.format(lists=lists), setup, "start = time.process_time()", work, END)
    command = [sys.executable, "-c", "\n".join(lines)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"error": run.stderr.strip().splitlines()[-1]}
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lists", type=Path, help="folder with ImageNet's lists of classes")
    parser.add_argument("--quick", action="store_true", help="the hop sets alone")
    options = parser.parse_args()
    lists = str(options.lists) if options.lists else None
    report = Report("imagenet", "At the size of ImageNet, CPU seconds of one thread")
    for what, (setup, work) in list(WORK.items())[slice(2, 3) if options.quick else slice(None)]:
        found = measure(setup, work, lists)
        if "cpu_s" not in found:
            print(f"{what}: left out. {found['error']}")
            continue
        report.add(what=what, **found)
    if report.rows:
        print(report.save())


if __name__ == "__main__":
    main()
