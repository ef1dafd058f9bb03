"""Parameters: how a trainable weight is named, initialized, regularized and shared."""

from __future__ import annotations

from opwright_nn.parameters.create import create_parameter, dim
from opwright_nn.parameters.param_attr import ParamAttr

__all__ = ["ParamAttr", "create_parameter", "dim"]
