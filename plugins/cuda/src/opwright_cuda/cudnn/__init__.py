"""Convolutions by cuDNN.

A convolution and its fused operations are one graph on tensors with sizes and strides, so every
axis order is supported without copies. The library plans it when the operator is prepared,
and refuses if cuDNN has no engine that is exact and deterministic enough. Of the valid engines, the
first by cuDNN's heuristics is used; with the option ``cuda.tune``, the fastest is used, which may
differ between runs.
"""

from opwright_cuda.cudnn.graph import MAX_WORKSPACE, OperationGraph, Tensor, What, Windows
from opwright_cuda.cudnn.library import (
    Engine,
    choose_engine,
    find_refusal,
    find_tf32_refusal,
)

__all__ = [
    "MAX_WORKSPACE",
    "Engine",
    "OperationGraph",
    "Tensor",
    "What",
    "Windows",
    "choose_engine",
    "find_refusal",
    "find_tf32_refusal",
]
