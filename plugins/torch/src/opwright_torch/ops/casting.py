"""Autocast rules for the inputs of opwright operators.

Products run in the dtype of the autocast region. Losses, norms, and functions that lose precision
or range in 16 bits run in float32. All other operators promote inputs that must have equal dtypes
to the widest of these dtypes. float64 inputs, and inputs of operators that do not support the
dtype, are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from opwright.op import OpProto, VarProto
from opwright_torch.dtypes import dtype_name

PRODUCTS: Final = frozenset(
    (
        *("bilinear", "conv1d", "conv2d", "conv2d_transpose", "conv3d"),
        *("conv3d_transpose", "dot", "dropout_attention", "einsum", "fc", "gemm", "gru"),
        *("gru_cell", "kron", "lstm", "lstm_cell", "matmul", "outer", "rnn"),
        *("scaled_dot_product_attention", "sequence_conv"),
    )
)
WIDE: Final = frozenset(
    (
        *("acos", "asin", "binary_cross_entropy", "cos_sim", "cosh"),
        *("cosine_embedding_loss", "cross", "cross_entropy", "ctc_loss", "cumprod"),
        *("cumsum", "exp", "expm1", "group_norm", "hinge", "huber", "instance_norm"),
        *("kl_div", "l1", "layer_norm", "linear_chain_crf", "log", "log1p", "log2"),
        *("log_loss", "log_softmax", "logsumexp", "lrn", "margin_rank_loss", "mse"),
        *("nce", "nll", "norm", "pow_scalar", "power", "prod", "rank_loss", "reciprocal"),
        *("rms_norm", "rsqrt", "sampled_softmax"),
        *("sigmoid_cross_entropy_with_logits", "sinh", "smooth_l1", "softmax"),
        *("softmax_with_cross_entropy", "softplus", "sum", "tan"),
        *("weighted_cross_entropy", "weighted_nll"),
        *("weighted_sigmoid_cross_entropy",),
    )
)
_ELIGIBLE: Final = (torch.float16, torch.bfloat16, torch.float32)


def cast_inputs(proto: OpProto, inputs: Sequence[Any], device_type: str) -> list[Any]:
    """Cast the inputs of a call in an autocast region of a device type, slot by slot."""
    dtype: torch.dtype | None = None
    if proto.type in PRODUCTS:
        dtype = torch.get_autocast_dtype(device_type)
    elif proto.type in WIDE:
        dtype = torch.float32
    widest = {} if dtype else _find_widest(proto, inputs)
    return [
        _cast(value, slot, dtype or widest.get(slot.same_as or slot.name))
        for slot, value in zip(proto.inputs, inputs, strict=True)
    ]


def _find_widest(proto: OpProto, inputs: Sequence[Any]) -> dict[str, torch.dtype]:
    """Return the widest dtype of each group of inputs that must have equal dtypes, by slot."""
    widest: dict[str, torch.dtype] = {}
    for slot, value in zip(proto.inputs, inputs, strict=True):
        group = slot.same_as or slot.name
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                known = widest.get(group, tensor.dtype)
                widest[group] = torch.promote_types(known, tensor.dtype)
    return widest


def _cast(value: Any, slot: VarProto, dtype: torch.dtype | None) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(item, slot, dtype) for item in value]
    if dtype is None or not isinstance(value, torch.Tensor) or value.dtype not in _ELIGIBLE:
        return value
    has = not slot.dtypes or dtype_name(dtype) in slot.dtypes
    return value.to(dtype) if has else value
