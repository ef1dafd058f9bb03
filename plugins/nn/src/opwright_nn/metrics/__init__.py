"""Metrics of predictions, on NumPy arrays: for one batch, or accumulated over many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_nn.foreign_names import METRICS, answering
from opwright_nn.metrics.areas import AUC, AveragePrecision
from opwright_nn.metrics.classes import (
    F1,
    Accuracy,
    ClassScores,
    ConfusionMatrix,
    Precision,
    Recall,
    accuracy,
)
from opwright_nn.metrics.metric import Mean, Metric
from opwright_nn.metrics.regression import MAE, MSE, R2, RMSE

__all__ = [
    "AUC",
    "Accuracy",
    "AveragePrecision",
    "ClassScores",
    "ConfusionMatrix",
    "F1",
    "MAE",
    "MSE",
    "Mean",
    "Metric",
    "Precision",
    "R2",
    "RMSE",
    "Recall",
    "accuracy",
]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, METRICS)
