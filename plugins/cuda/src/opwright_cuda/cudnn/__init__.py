"""Convolutions by cuDNN: what it is given, and what it refuses.

A convolution and what is done to its result are one graph of operations on tensors with extents and
strides, so that every order of axes is described and nothing is copied here. The library makes a
plan of it when the operator is prepared, and refuses where cuDNN has no engine that is exact and
deterministic enough. Of those that are, the first by cuDNN's heuristics is taken; with the option
``cuda.tune`` the fastest, so that another run may take another one.
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
