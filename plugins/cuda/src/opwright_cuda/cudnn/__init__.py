"""Convolutions by cuDNN.

A convolution and its fused operations are one graph on tensors with sizes and strides, so every
axis order is supported without copies. The library plans the graph when the operator is prepared,
and refuses if no cuDNN engine is exact and deterministic enough. The first valid engine by cuDNN's
heuristics is used. With the option ``cuda.tune``, the fastest valid engine is used, which may
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
