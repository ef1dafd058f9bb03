"""Data sets that need no network, and readers of files.

`digits` ships with the package, `scikit` has what scikit-learn ships, `generators` makes data;
`idx`, `cifar`, `csv`, `text` and `image_folder` read files.
"""

from __future__ import annotations

from opwright_nn.datasets import cifar, csv, digits, generators, idx, image_folder, scikit, text
from opwright_nn.datasets.dataset import Dataset
from opwright_nn.datasets.table import Table
from opwright_nn.datasets.workers import LoadError

__all__ = [
    "Dataset",
    "LoadError",
    "Table",
    "cifar",
    "csv",
    "digits",
    "generators",
    "idx",
    "image_folder",
    "scikit",
    "text",
]
