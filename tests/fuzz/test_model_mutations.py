"""Model files whose parts do not hold together are refused, or what is loaded works."""

from __future__ import annotations

import os
import random

import pytest

from fuzz.model_file_corpus import put_together
from fuzz.model_mutations import SPECIAL, file_of, mutations, raw_errors, recipes

#: Mutations of each file that are tried; there are about 3,000 of one.
QUICK, MANY = 15, 100


def _check(name, recipe, folder, n_mutations, seed):
    parts = file_of(recipe, folder)
    path = folder / "mutated.zsl"
    path.write_bytes(put_together(parts))
    loaded, raw = raw_errors(path)
    assert loaded
    assert not raw
    every = list(mutations(parts))
    for what, made in random.Random(seed).sample(every, min(n_mutations, len(every))):
        file = made()
        if file is not None:
            path.write_bytes(file)
            raw = raw_errors(path)[1]
            assert not raw, f"{name}, {what}"


@pytest.mark.parametrize("name", SPECIAL)
def test_mutated_files(name, tmp_path):
    _check(name, SPECIAL[name], tmp_path, QUICK, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes())
def test_mutated_files_of_every_estimator(name, tmp_path):
    _check(name, recipes()[name], tmp_path, MANY, name)


@pytest.mark.skipif("ZSLEARN_FUZZ_MINUTES" not in os.environ, reason="for make fuzz alone")
def test_further_mutations(cases, tmp_path):
    every = list(recipes().items())
    for seed in cases(1000):
        name, recipe = every[seed % len(every)]
        _check(name, recipe, tmp_path, QUICK, str(seed))
