"""Training: the loop, its callbacks, and the history of its numbers."""

from __future__ import annotations

from opwright_nn.training.callback import Callback
from opwright_nn.training.checkpointing import Checkpoint
from opwright_nn.training.gradient_norms import GradientNorms
from opwright_nn.training.history import History
from opwright_nn.training.nan_watch import NanWatch, NonFiniteError
from opwright_nn.training.rate_search import RateSearch, find_learning_rate
from opwright_nn.training.stopping import EarlyStopping, Plateau
from opwright_nn.training.tensorboard import TensorBoard
from opwright_nn.training.train import train
from opwright_nn.training.training import Training

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "GradientNorms",
    "History",
    "NanWatch",
    "NonFiniteError",
    "Plateau",
    "RateSearch",
    "TensorBoard",
    "Training",
    "find_learning_rate",
    "train",
]
