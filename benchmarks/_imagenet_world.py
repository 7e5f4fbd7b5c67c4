"""A made-up world of ImageNet's shape: classes in a tree, and images as hard as real ones."""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import numpy as np
import pandas as pd
import torch

GIB = 2**30
# How far images are from the traits of their class; siblings differ by 0.28 in each of 100 traits.
SPREAD = 1.3


class World:
    """Classes in a tree, with signatures, and rows around a smooth function of their traits."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = options.device
        small = options.small
        self.n_rows = 6_000 if small else 1_281_167
        self.n_features = 64 if small else 2048
        self.n_seen = 20 if small else 1000
        self.n_classes = 300 if small else 21_345
        self.n_test = 2_000 if small else 262_144
        self.n_millions = 8_000 if small else 14_200_000
        self.chunk = 4_000 if small else 1_014_286
        latent, inner = (24, 50) if small else (100, 300)
        self.random = torch.Generator(self.device).manual_seed(0)
        sizes = (4, 12, 60) if small else (60, 600, 4000)
        self.parents = [self.choose(n, m) for n, m in itertools.pairwise(sizes)]
        self.parents.append(self.choose(sizes[-1], self.n_classes))
        traits = 0.5 * self.normal(sizes[0], latent)
        for parent, share in zip(self.parents, (0.4, 0.3, 0.2), strict=True):
            traits = traits[parent] + share * self.normal(len(parent), latent)
        self.traits = traits
        self.inner = self.normal(latent, inner) / latent**0.5
        self.outer = self.normal(inner, self.n_features) / inner**0.5
        signatures = traits + 0.1 * self.normal(self.n_classes, latent)
        self.table = pd.DataFrame(signatures.cpu().numpy().astype(np.float64))
        # Images of a class: a few for many classes, many for a few.
        self.population = 1 / torch.arange(
            20, self.n_classes - self.n_seen + 20, device=self.device
        )
        self.kept: dict[str, Any] = {}

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, generator=self.random)

    def choose(self, n_values: int, n: int) -> torch.Tensor:
        return torch.randint(n_values, (n,), device=self.device, generator=self.random)

    def unseen(self, n: int) -> torch.Tensor:
        """Classes of test images, populated unevenly."""
        drawn = torch.multinomial(self.population, n, replacement=True, generator=self.random)
        return self.n_seen + drawn

    def rows(self, classes: torch.Tensor, spread: float = SPREAD) -> torch.Tensor:
        """Rows of classes, made block by block."""
        out = torch.empty((len(classes), self.n_features), device=self.device)
        for start in range(0, len(classes), 1 << 16):
            part = slice(start, min(start + (1 << 16), len(classes)))
            traits = self.traits[classes[part]]
            traits = traits + spread * self.normal(*traits.shape)
            block = torch.tanh(traits @ self.inner) @ self.outer
            out[part] = torch.relu(block + 0.3 * self.normal(*block.shape))
        return out

    def hierarchy(self) -> list[tuple[str | int, str]]:
        """Children and parents; classes by their number, inner nodes by level and number."""
        pairs: list[tuple[str | int, str]] = [(f"0:{i}", "root") for i in range(60)]
        for level, parents in enumerate(self.parents):
            last = level == len(self.parents) - 1
            pairs += [
                (child if last else f"{level + 1}:{child}", f"{level}:{parent}")
                for child, parent in enumerate(parents.tolist())
            ]
        return pairs

    @property
    def train(self) -> tuple[torch.Tensor, np.ndarray]:
        if "train" not in self.kept:
            y = torch.arange(self.n_rows, device=self.device) % self.n_seen
            self.kept["train"] = self.rows(y), y.cpu().numpy()
        return self.kept["train"]

    @property
    def test(self) -> tuple[torch.Tensor, torch.Tensor]:
        if "test" not in self.kept:
            y = self.unseen(self.n_test)
            self.kept["test"] = self.rows(y), y
        return self.kept["test"]

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, function: Any, repeats: int = 1) -> tuple[float, float, Any]:
        """Shortest time, largest memory in GiB (with the rows), and the last result."""
        best, result = float("inf"), None
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(repeats):
            result = None
            self.wait()
            start = time.perf_counter()
            result = function()
            self.wait()
            best = min(best, time.perf_counter() - start)
        peak = torch.cuda.max_memory_allocated() / GIB if self.device == "cuda" else 0.0
        return best, peak, result
