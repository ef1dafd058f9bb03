"""Describing operators: the public face. Everything that a plugin needs to bring one.

An operator is an OpProto, a shape rule, a gradient rule, and a body or kernels:

>>> SWISH = (
...     OpMaker("acme.swish")
...     .add_comment("Swish, out = x * sigmoid(beta * x). Ramachandran et al., 2017.")
...     .add_input("x", "any shape, float")
...     .add_output("out", "shape and dtype of x")
...     .same_dtype_as("x")
...     .add_attr("beta", float, "steepness")
...     .default(1.0)
...     .greater_than(0.0)
...     .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.swish_grad", needs=["x"]))
... )
"""

from __future__ import annotations

from opwright.describe.definition import Branch, Control, Loop, NoGradient, OpDefinition
from opwright.describe.dtypes import DTYPES, FLOAT_DTYPES, INDEX_DTYPES, INT_DTYPES
from opwright.describe.gradient_rules import GradOp, grad_op
from opwright.describe.meta import (
    InferContext,
    Meta,
    Shape,
    broadcast_shapes,
    dims_match,
    format_shape,
    merge_dims,
    normalize_axes,
    normalize_axis,
    numel,
    reduced_shape,
    shapes_match,
)
from opwright.describe.op_maker import BLOCK, OpMaker
from opwright.describe.op_proto import AttrProto, AttrType, OpProto, VarProto
from opwright.describe.rule_context import BodyContext, GradientContext
from opwright.describe.shape_rules import elementwise_shape, same_shape_as

__all__ = [
    "BLOCK",
    "DTYPES",
    "FLOAT_DTYPES",
    "INDEX_DTYPES",
    "INT_DTYPES",
    "AttrProto",
    "AttrType",
    "BodyContext",
    "Branch",
    "Control",
    "GradOp",
    "GradientContext",
    "InferContext",
    "Loop",
    "Meta",
    "NoGradient",
    "OpDefinition",
    "OpMaker",
    "OpProto",
    "Shape",
    "VarProto",
    "broadcast_shapes",
    "dims_match",
    "elementwise_shape",
    "format_shape",
    "grad_op",
    "merge_dims",
    "no_gradient",
    "normalize_axes",
    "normalize_axis",
    "numel",
    "reduced_shape",
    "same_shape_as",
    "shapes_match",
]


def no_gradient(reason: str) -> NoGradient:
    """Declare that an operator has no gradient on purpose: ``no_gradient("a comparison")``."""
    return NoGradient(reason)
