"""Data sets that need no network, and readers of files.

`digits` ships with the package; `idx`, `cifar`, `csv`, `text` and `image_folder` read files.
"""

from __future__ import annotations

from opwright_nn.datasets import cifar, csv, digits, idx, image_folder, text
from opwright_nn.datasets.dataset import Dataset
from opwright_nn.datasets.table import Table

__all__ = ["Dataset", "Table", "cifar", "csv", "digits", "idx", "image_folder", "text"]
