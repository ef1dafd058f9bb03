"""Operators by name: lists of their own, which import nothing."""

from __future__ import annotations

from typing import Final

OPTIMIZERS: Final = (
    *("sgd", "momentum", "lion", "adam", "adamw", "adamax", "nadam", "radam"),
    *("adagrad", "adadelta", "rmsprop", "proximal_gd", "proximal_adagrad", "ftrl"),
)
"""Updates of one parameter, which ``std.multi_<type>`` makes of several."""
