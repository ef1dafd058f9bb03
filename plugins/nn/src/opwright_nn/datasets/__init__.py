"""Data sets that are available offline, and file readers.

`digits` and `karate_club` ship with the package, and `scikit` loads the scikit-learn data sets.
`generators`, `sentences` and `ratings` generate data. `idx`, `cifar`, `csv`, `text`,
`image_folder` and `ratings` read files. `augment` changes images at random, `TableEncoder` converts
tables to arrays, `Vocabulary` maps words to numbers, and `pad` combines sequences of different
lengths into one array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.datasets import (
    augment,
    cifar,
    csv,
    digits,
    generators,
    idx,
    image_folder,
    karate_club,
    ratings,
    scikit,
    sentences,
    text,
)
from opwright_nn.datasets.dataset import Dataset
from opwright_nn.datasets.encoder import TableEncoder
from opwright_nn.datasets.graph import Graph
from opwright_nn.datasets.padding import pad
from opwright_nn.datasets.table import Table
from opwright_nn.datasets.vocabulary import Vocabulary
from opwright_nn.datasets.workers import LoadError
from opwright_nn.foreign_names import DATASETS, answering

__all__ = [
    "Dataset",
    "Graph",
    "LoadError",
    "Table",
    "TableEncoder",
    "Vocabulary",
    "augment",
    "cifar",
    "csv",
    "digits",
    "generators",
    "idx",
    "image_folder",
    "karate_club",
    "pad",
    "ratings",
    "scikit",
    "sentences",
    "text",
]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, DATASETS)
