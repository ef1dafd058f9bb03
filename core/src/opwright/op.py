"""The public interface for describing operators, with all that a plugin needs to provide them.

An operator consists of an OpProto, a shape rule, a gradient rule, and a body or kernels:

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

from opwright.describe.attribute_values import INT_MAX, INT_MIN
from opwright.describe.attribute_values import describe_type as describe_value_type
from opwright.describe.control import Branch, Control, Loop
from opwright.describe.definition import NoGradient, OpDefinition, SlotMetas
from opwright.describe.docstring import describe_attribute, make_docstring, returns_on_request
from opwright.describe.dtypes import (
    DTYPES,
    FLOAT_DTYPES,
    INDEX_DTYPES,
    INT_DTYPES,
    NARROW_DTYPES,
    canonical_dtype,
    check_dtype,
    dtype_from_numpy,
    dtype_to_code,
    dtype_to_numpy,
    is_float,
    item_size,
)
from opwright.describe.gradient_rules import GradOp, grad_op, graded_inputs, graded_outputs
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
from opwright.describe.op_proto import (
    AttrProto,
    AttrType,
    AttrValue,
    OpProto,
    VarProto,
    can_be_float,
)
from opwright.describe.rule_context import BodyContext, GradientContext, grad_name
from opwright.describe.second_gradients import (
    Composition,
    by_derivative,
    by_differentiating,
    linear_in,
    same_again,
)
from opwright.describe.shape_rules import advise_shape, elementwise_shape, same_shape_as

__all__ = [
    "BLOCK",
    "DTYPES",
    "FLOAT_DTYPES",
    "INDEX_DTYPES",
    "INT_DTYPES",
    "INT_MAX",
    "INT_MIN",
    "NARROW_DTYPES",
    "AttrProto",
    "AttrType",
    "AttrValue",
    "BodyContext",
    "Branch",
    "Composition",
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
    "SlotMetas",
    "VarProto",
    "advise_shape",
    "broadcast_shapes",
    "by_derivative",
    "by_differentiating",
    "can_be_float",
    "canonical_dtype",
    "check_dtype",
    "describe_attribute",
    "describe_value_type",
    "dims_match",
    "dtype_from_numpy",
    "dtype_to_code",
    "dtype_to_numpy",
    "elementwise_shape",
    "format_shape",
    "grad_name",
    "grad_op",
    "graded_inputs",
    "graded_outputs",
    "is_float",
    "item_size",
    "linear_in",
    "make_docstring",
    "returns_on_request",
    "merge_dims",
    "no_gradient",
    "normalize_axes",
    "normalize_axis",
    "numel",
    "reduced_shape",
    "same_again",
    "same_shape_as",
    "shapes_match",
]


def no_gradient(reason: str) -> NoGradient:
    """Declare that an operator intentionally has no gradient, ``no_gradient("a comparison")``."""
    return NoGradient(reason)
