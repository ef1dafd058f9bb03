"""Models: a network with its parameters, trained and used for prediction by compiled calls."""

from __future__ import annotations

from opwright_nn.model.inference import inference_program
from opwright_nn.model.model import Model

__all__ = ["Model", "inference_program"]
