"""Names of operators in groups; this module imports nothing."""

from __future__ import annotations

from typing import Final

OPTIMIZERS: Final = (
    *("sgd", "momentum", "lion", "adam", "adamw", "adamax", "nadam", "radam"),
    *("adagrad", "adadelta", "rmsprop", "proximal_gd", "proximal_adagrad", "ftrl"),
)
"""Updates of one parameter; ``std.multi_<type>`` updates several."""
