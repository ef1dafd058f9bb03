"""Data sets: the handwritten digits that ship with the package, and a reader of IDX files."""

from __future__ import annotations

from opwright_nn.datasets import digits, idx
from opwright_nn.datasets.dataset import Dataset

__all__ = ["Dataset", "digits", "idx"]
