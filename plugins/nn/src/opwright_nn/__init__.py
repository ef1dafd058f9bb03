"""opwright-nn: layers, models, optimizers and data sets for opwright."""

from __future__ import annotations

from . import clip, datasets, initializer, layers, metrics, optimizer, regularizer
from ._version import __version__
from .batches import batches
from .inference import inference_program
from .model import Model
from .optimizer import optimize
from .param_attr import ParamAttr

__all__ = [
    "Model",
    "ParamAttr",
    "batches",
    "clip",
    "datasets",
    "inference_program",
    "initializer",
    "layers",
    "metrics",
    "optimize",
    "optimizer",
    "regularizer",
    "__version__",
]
