"""Layers that change shapes: concat, reshape, flatten, transpose, squeeze, unsqueeze."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import append_layer, begin


@ow.transaction()
def concat(input: Iterable[Input], axis: int = 0, name: str | None = None) -> ow.Variable:
    """Append the concatenation of variables along `axis`.

    Parameters
    ----------
    input : sequence of Variable or str
        Variables of equal dtype, and of equal shape except along `axis`.
    axis : int
        Negative counts from the end.
    name : str, optional
        The prefix of the layer's variable names.
    """
    if isinstance(input, ow.Variable) or not checks.is_ordered(input):
        raise AttributeTypeError(
            f"concat: input must be a list of variables, got {input!r}; write concat(input=[a, b])"
        )
    parts = [find_input("concat", f"input[{i}]", part) for i, part in enumerate(input)]
    attrs = {"axis": checks.check_int("concat", "axis", axis)}
    layer = begin("concat", name)
    return operators.append(layer.block, "concat", {"x": parts}, attrs, name=layer.out)


@ow.transaction()
def reshape(
    input: Input,
    shape: ow.Variable | Iterable[ow.Variable | int | None],
    name: str | None = None,
) -> ow.Variable:
    """Append x with a different shape, and the same elements in the same order.

    Parameters
    ----------
    input : Variable or str
        A variable of any shape.
    shape : iterable of int or Variable
        0 copies the dimension of x at that axis; a single -1 (or None) is inferred. Variables hold
        integers computed from shapes, such as ``ow.ops.shape(x)[0]``; a single variable holds all
        of them.
    name : str, optional
        The prefix of the layer's variable names.
    """
    given = [shape] if isinstance(shape, ow.Variable) else shape
    dims = list(checks.check_shape("reshape", given, computed=True))
    if sum(isinstance(dim, int) and dim == -1 for dim in dims) > 1:
        raise AttributeValueError(
            f"reshape: shape may hold one -1, got {dims}; write 0 for a dimension that x has there"
        )
    return append_layer("reshape", {"x": input}, {"shape": dims}, name)


@ow.transaction()
def flatten(input: Input, axis: int = 1, name: str | None = None) -> ow.Variable:
    """Append x with axis `axis` and later axes flattened: [n, 1, 28, 28] becomes [n, 784].

    Parameters
    ----------
    input : Variable or str
        A variable with at least `axis` axes.
    axis : int, at least 0
        The number of leading axes that are not flattened.
    name : str, optional
        The prefix of the layer's variable names.
    """
    x = find_input("flatten", "input", input)
    start_axis = checks.check_int("flatten", "axis", axis, at_least=0)
    if x.shape is not None and len(x.shape) < start_axis:
        raise ShapeError(
            f"flatten: input must have at least axis={start_axis} axes, got {x!r}; decrease axis"
        )
    return append_layer("flatten", {"x": x}, {"start_axis": start_axis}, name)


def transpose(input: Input, axes: Iterable[int], name: str | None = None) -> ow.Variable:
    """Append x with its axes permuted.

    Parameters
    ----------
    input : Variable or str
        A variable of any shape.
    axes : iterable of int
        For each axis of the output, the axis of x.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {"axes": checks.check_ints("transpose", "axes", axes)}
    return append_layer("transpose", {"x": input}, attrs, name)


def squeeze(input: Input, axis: int | Iterable[int] = (), name: str | None = None) -> ow.Variable:
    """Append x without axes of size 1.

    Parameters
    ----------
    input : Variable or str
        A variable of any shape.
    axis : int or iterable of int
        The axes; all of size 1 by default.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {"axis": checks.check_ints("squeeze", "axis", axis)}
    return append_layer("squeeze", {"x": input}, attrs, name)


def unsqueeze(input: Input, axis: int | Iterable[int], name: str | None = None) -> ow.Variable:
    """Append x with new axes of size 1.

    Parameters
    ----------
    input : Variable or str
        A variable of any shape.
    axis : int or iterable of int
        The positions of the new axes in the output.
    name : str, optional
        The prefix of the layer's variable names.
    """
    attrs = {"axis": checks.check_ints("unsqueeze", "axis", axis)}
    return append_layer("unsqueeze", {"x": input}, attrs, name)
