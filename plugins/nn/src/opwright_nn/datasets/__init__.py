"""Data to learn from: what ships with the package, and readers of files."""

from __future__ import annotations

from opwright_nn.datasets import digits, idx
from opwright_nn.datasets.dataset import Dataset

__all__ = ["Dataset", "digits", "idx"]
