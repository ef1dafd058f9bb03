"""opwright-nn: models, layers, optimizers and data sets for opwright, like PyTorch's `torch.nn`.

Subpackages, each of which imports only subpackages listed after it: `training` · `inspection` ·
`model` · `layers`, `optimizer` · `schedule`, `checkpoint` · `parameters` · `clip`, `initializer`,
`regularizer` · `operators` · `precision` · `datasets`, `metrics` · `parallel` · `arguments`,
`foreign_names` · `checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn import (
    checkpoint,
    clip,
    datasets,
    initializer,
    layers,
    metrics,
    optimizer,
    regularizer,
    schedule,
)
from opwright_nn._version import __version__
from opwright_nn.datasets.batches import batches
from opwright_nn.datasets.loading import load_batches
from opwright_nn.foreign_names import NAMES, answering
from opwright_nn.inspection import LayerSummary, NonFinite, Summary, find_nan, plot, summary
from opwright_nn.model import Model, inference_program
from opwright_nn.optimizer import get_sparse_rows, optimize
from opwright_nn.parallel import DataParallel
from opwright_nn.parameters import ParamAttr, create_parameter, dim
from opwright_nn.precision import MixedPrecision, mixed_precision
from opwright_nn.schedule import Schedule
from opwright_nn.training import (
    Callback,
    Checkpoint,
    EarlyStopping,
    GradientNorms,
    History,
    NanWatch,
    NonFiniteError,
    Plateau,
    RateSearch,
    TensorBoard,
    Training,
    find_learning_rate,
    train,
)

__all__ = [
    "Callback",
    "Checkpoint",
    "DataParallel",
    "EarlyStopping",
    "GradientNorms",
    "History",
    "LayerSummary",
    "MixedPrecision",
    "Model",
    "NanWatch",
    "NonFinite",
    "NonFiniteError",
    "ParamAttr",
    "Plateau",
    "RateSearch",
    "Schedule",
    "Summary",
    "TensorBoard",
    "Training",
    "batches",
    "checkpoint",
    "clip",
    "create_parameter",
    "datasets",
    "dim",
    "find_learning_rate",
    "find_nan",
    "get_sparse_rows",
    "inference_program",
    "initializer",
    "layers",
    "load_batches",
    "metrics",
    "mixed_precision",
    "optimize",
    "optimizer",
    "plot",
    "regularizer",
    "schedule",
    "summary",
    "train",
    "__version__",
]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, NAMES, has_operators=True)
