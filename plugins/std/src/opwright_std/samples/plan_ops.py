"""Inputs of operators that only passes create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.names import OPTIMIZERS
from opwright_std.operators.optimizers import SCALARS
from opwright_std.samples.drawn import Drawn
from opwright_std.samples.optimizers import FRACTIONS, POSITIVE

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


UNARY = ["abs", "negative", "square", "exp", "relu", "sigmoid", "tanh", "softplus", "silu", "gelu"]
UNARY += ["elu", "leaky_relu", "scale", "clip"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
PARAMETERS = {
    "gelu": (1.0, 0.0),
    "elu": (0.7, 0.0),
    "leaky_relu": (0.1, 0.0),
    "scale": (-1.5, 0.25),
    "clip": (-0.5, 0.75),
}
"""The two numbers of a function with parameters."""


def elementwise_chain(draw: Draw) -> Drawn:
    """Draw a chain that reads each input, and applies a unary function to the result."""
    shape = (draw.other_length(), draw.length)
    shapes = [shape, *(draw.choice([shape, shape[1:], (shape[0], 1), ()]) for _ in range(2))]
    count = draw.choice([1, 2, 3])
    functions = [draw.choice(UNARY)]
    operands = [0]
    for i in range(1, count):
        functions += [draw.choice(BINARY), draw.choice(UNARY)]
        last = count + len(functions) - 3
        operands += [last, i, last + 1]
    parameters = [number for name in functions for number in PARAMETERS.get(name, (0.0, 0.0))]
    attrs = {"functions": functions, "operands": operands, "parameters": parameters}
    return {"x": [draw.floats(each) for each in shapes[:count]]}, attrs


def softmax_cross_entropy(draw: Draw) -> Drawn:
    """Draw class ids below the number of classes; errors name the fused operator."""
    rows, classes = draw.other_length(), max(draw.length, 1)
    shape = draw.choice([(rows,), (rows, 1), (0,)])
    dtype = draw.choice(["int32", "int64"])
    inputs = {
        "logits": draw.floats((shape[0], classes)),
        "label": draw.integers(shape, 0, classes, dtype),
    }
    attrs = {**draw.attrs, "source": draw.definition.op_type}
    attrs["loss_grad"] = 1.0 / max(rows, 1)
    draw.refused["label"] = [n for n in (-1, classes) if n != attrs.get("ignore_index")]
    return inputs, attrs


def conv2d_pool_grad(draw: Draw) -> Drawn:
    """Draw gradients of the maxima of 2 by 2 windows, and an index within each window."""
    images, channels, filters = 2, draw.choice([1, 2, 3]), draw.other_length()
    kernel, size = draw.choice([3, 5]), (8 + draw.other_length(), 9 + draw.length % 16)
    rows, columns = (n - kernel + 1 for n in size)
    pooled = (images, rows // 2, columns // 2, filters)
    draw.refused["index"] = (-1, rows * columns)
    row, column = (
        2 * np.arange(n).reshape(shape) + draw.integers(pooled, 0, 2)
        for n, shape in ((rows // 2, (1, -1, 1, 1)), (columns // 2, (1, 1, -1, 1)))
    )
    inputs = {
        "x": draw.floats((images, *size, channels)),
        "weight": draw.floats((filters, channels, kernel, kernel)),
        "index": (row * columns + column).astype("int32"),
        "grad": draw.floats(pooled),
    }
    return inputs, {"data_format": "NHWC"}


def part_of_larger(draw: Draw) -> Drawn:
    """Draw rows in the middle of a larger tensor, which may be split further."""
    rows, each = draw.other_length(), draw.choice([1, 2])
    shape, axis = draw.choice(
        [((rows * each, draw.length), 0), ((3, rows * each, draw.other_length()), 1)]
    )
    before = draw.choice([0, 3])
    part = np.array([before, rows, before + rows + draw.choice([0, 5])])
    chances = draw.definition.op_type == "std.bernoulli_part"
    draw.refused["part"] = (-1,)
    if chances:
        draw.drops_nan = "only probabilities are accepted"
    x = draw.floats(shape, 0.0, 1.0) if chances else draw.floats(shape)
    return {"x": x, "part": part}, {**draw.attrs, "axis": axis}


def _channels(draw: Draw, *slots: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the shape of images or rows, and one number per channel."""
    size = draw.choice([(), (draw.other_length(),), (2, draw.other_length())])
    shape = draw.choice([(draw.other_length(), draw.length), (draw.length, draw.other_length())])
    return (*shape, *size), {slot: draw.floats(shape[1:], 0.25, 2.0) for slot in slots}


def _in_float32(drawn: tuple[dict[str, Any], dict[str, Any]], *slots: str) -> Drawn:
    inputs, attrs = drawn
    return inputs | {slot: inputs[slot].astype(np.float32) for slot in slots}, attrs


def batch_norm_halves(draw: Draw) -> Drawn:
    """Draw parameters in float32."""
    return _in_float32(batch_norm_activation(draw), "scale", "bias", "mean", "variance")


def batch_norm_halves_grad(draw: Draw) -> Drawn:
    """Draw parameters in float32, as for batch_norm_halves."""
    return _in_float32(batch_norm_activation_grad(draw), "scale", "saved_mean", "saved_inv_std")


def batch_norm_activation(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw variances of at least 0.25 and a positive epsilon."""
    shape, inputs = _channels(draw, "scale", "mean", "variance")
    inputs |= {"x": draw.floats(shape), "bias": draw.floats(shape[1:2])}
    if draw.choice([False, True]):
        inputs["residual"] = draw.floats(shape)
    return inputs, {**draw.attrs, "epsilon": abs(draw.attrs["epsilon"]) + 1e-3}


def batch_norm_activation_grad(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the output of relu instead of a bias, since all outputs are requested here."""
    shape, inputs = _channels(draw, "scale", "saved_mean", "saved_inv_std")
    inputs |= {"x": draw.floats(shape), "out_grad": draw.floats(shape)}
    out = draw.floats(shape)
    inputs["out"] = np.maximum(out, out.dtype.type(0))
    draw.drops_nan = "out is only compared with bounds, and NaN compares false"
    return inputs, {**draw.attrs, "activation": draw.attrs["activation"] or "relu"}


def _shapes(draw: Draw) -> list[tuple[int, ...]]:
    listed = [(draw.length,), (draw.other_length(), draw.length), (draw.other_length(),)]
    return listed[: draw.choice([1, 2, 3])]


def many_updates(draw: Draw) -> Drawn:
    """Draw lists of equal lengths, with positive squares and powers of decay rates."""
    shapes = _shapes(draw)
    inputs: dict[str, Any] = {}
    attrs = dict(draw.attrs)
    asked = {"mean_grad": attrs.get("centered"), "velocity": attrs.get("momentum", 1.0)}
    for slot in draw.definition.proto.inputs:
        if slot.optional and not asked[slot.name]:
            continue
        dtype = draw.dtype
        if slot.dtypes and dtype not in slot.dtypes:
            dtype = draw.choice(slot.dtypes)
        if not slot.duplicable:
            inputs[slot.name] = draw.floats((1,), 0.01, 0.5, dtype)
            continue
        low = 0.25 if slot.name in (*POSITIVE, *FRACTIONS, "step") else -2.0
        high = 0.75 if slot.name in FRACTIONS else 2.0
        inputs[slot.name] = [
            draw.floats((1,) if slot.name in SCALARS else shape, low, high, dtype)
            for shape in shapes
        ]
    for name in ("beta1", "beta2", "rho"):
        if name in attrs:
            attrs[name] = 0.5 + 0.49 * np.tanh(attrs[name]).item()
    if draw.definition.op_type == "std.multi_radam":
        inputs["step"] = [np.full_like(step, draw.choice([2, 100])) for step in inputs["step"]]
        attrs["beta2"] = 0.9 + 0.09 * attrs["beta2"]
    for name in ("epsilon", "l1", "l2", "momentum", "momentum_decay"):
        if name in attrs:
            attrs[name] = abs(attrs[name])
    return inputs, attrs


def few_numbers(draw: Draw) -> Drawn:
    """Draw up to four lengths that fit into a shape."""
    numbers = np.array([draw.other_length() for _ in range(draw.choice([1, 2, 3]))], draw.dtype)
    return {"x": [numbers, numbers[:1].reshape(())]}, {}


SAMPLES = {
    "std.as_shape": few_numbers,
    **dict.fromkeys(("std.bernoulli_part", "std.dropout_part"), part_of_larger),
    "std.batch_norm_activation": batch_norm_activation,
    "std.batch_norm_activation_grad": batch_norm_activation_grad,
    "std.batch_norm_halves": batch_norm_halves,
    "std.batch_norm_halves_grad": batch_norm_halves_grad,
    "std.conv2d_pool_grad": conv2d_pool_grad,
    "std.elementwise_chain": elementwise_chain,
    **{f"std.multi_{name}": many_updates for name in OPTIMIZERS},
    "std.softmax_cross_entropy": softmax_cross_entropy,
}
