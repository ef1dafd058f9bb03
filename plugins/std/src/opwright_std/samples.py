"""What the OpProto of an operator cannot say of its inputs; `opwright check` draws them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None


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
"""The two numbers of a function that has any."""


def adam(draw: Draw) -> Drawn:
    """Moments of squares are not negative, and powers of beta lie between 0 and 1."""
    inputs = draw.propose()
    if inputs is None:
        return None
    for slot in ("moment2", "beta1_power", "beta2_power"):
        inputs[slot] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs[slot])
    return inputs, draw.attrs


def probabilities(draw: Draw) -> Drawn:
    """Probabilities lie between 0 and 1: the logarithm of others is no number."""
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["x"] = tuple(np.asarray(np.abs(array) / 4 + 0.25) for array in inputs["x"])
    return inputs, draw.attrs


def top_k(draw: Draw) -> Drawn:
    """Inputs as they are proposed; without `sorted` any order will do."""
    draw.without_effect["sorted"] = "the kernels sort in either case"
    draw.drops_nan = "NaN takes another place in the order than the number did"
    inputs = draw.propose()
    if inputs is None:
        return None
    shape, axis = inputs["x"][0].shape or (1,), draw.attrs["axis"]
    if -len(shape) <= axis < len(shape):
        draw.refused["indices"] = (-1, shape[axis])
    return inputs, draw.attrs


def max_pool2d(draw: Draw) -> Drawn:
    """Inputs as they are proposed; places of maxima lie in an image."""
    inputs = draw.propose()
    if inputs is None:
        return None
    shape = inputs["x"][0].shape
    if len(shape) == 4:
        is_last = draw.attrs["data_format"] == "NHWC"
        height, width = shape[1:3] if is_last else shape[2:]
        draw.refused["index"] = (-1, height * width)
    return inputs, draw.attrs


def accuracy(draw: Draw) -> Drawn:
    """Inputs as they are proposed; a share of rows is a number whatever the scores are."""
    draw.drops_nan = "which score is the largest is counted, and a count is a number"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


def compared(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of functions whose gradient asks where an input lies."""
    if draw.attrs.get("alpha", 0.0) == 0.0:  # leaky_relu has its slope below 0 there
        draw.flat_at_nan = "NaN lies in no range, and above no number; PyTorch's slope is 0, too"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


def saturated(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of functions that are differentiated from their output."""
    draw.loses_tails = "1 - out, by which x need not be kept, has few digits where out is almost 1"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


def elementwise_chain(draw: Draw) -> Drawn:
    """Each input is read, and what is made of it goes through a function of one operand."""
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
    """Class ids lie below the number of classes; errors name the operator that was fused."""
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
    """Maxima of the windows of 2 by 2 pixels of a convolution, at places within these."""
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


def _channels(draw: Draw, *slots: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the shape of images, or of rows, and numbers for each of their channels."""
    size = draw.choice([(), (draw.other_length(),), (2, draw.other_length())])
    shape = draw.choice([(draw.other_length(), draw.length), (draw.length, draw.other_length())])
    return (*shape, *size), {slot: draw.floats(shape[1:], 0.25, 2.0) for slot in slots}


def batch_norm_activation(draw: Draw) -> Drawn:
    """A variance is not negative, and neither is what is added to it."""
    shape, inputs = _channels(draw, "scale", "mean", "variance")
    inputs |= {"x": draw.floats(shape), "bias": draw.floats(shape[1:2])}
    if draw.choice([False, True]):
        inputs["residual"] = draw.floats(shape)
    return inputs, {**draw.attrs, "epsilon": abs(draw.attrs["epsilon"]) + 1e-3}


def batch_norm_activation_grad(draw: Draw) -> Drawn:
    """What relu gave; with a bias in its place not all outputs may be wanted, and here all are."""
    shape, inputs = _channels(draw, "scale", "saved_mean", "saved_inv_std")
    inputs |= {"x": draw.floats(shape), "out_grad": draw.floats(shape)}
    out = draw.floats(shape)
    inputs["out"] = np.maximum(out, out.dtype.type(0))
    return inputs, draw.attrs


def _shapes(draw: Draw) -> list[tuple[int, ...]]:
    listed = [(draw.length,), (draw.other_length(), draw.length), (draw.other_length(),)]
    return listed[: draw.choice([1, 2, 3])]


def many_updates(draw: Draw) -> Drawn:
    """Lists of equal lengths; second moments, and powers of shares, are positive."""
    shapes = _shapes(draw)
    inputs: dict[str, Any] = {}
    for slot in draw.definition.proto.inputs:
        dtype = draw.dtype
        if slot.dtypes and dtype not in slot.dtypes:
            dtype = draw.choice(slot.dtypes)
        if not slot.duplicable:
            inputs[slot.name] = draw.floats((1,), 0.01, 0.5, dtype)
            continue
        is_power = slot.name.endswith("_power")
        low = 0.25 if is_power or slot.name == "moment2" else -2.0
        high = 0.75 if is_power else 2.0
        inputs[slot.name] = [
            draw.floats((1,) if is_power else shape, low, high, dtype) for shape in shapes
        ]
    attrs = dict(draw.attrs)
    for name in ("beta1", "beta2"):
        if name in attrs:
            attrs[name] = 0.5 + 0.49 * np.tanh(attrs[name]).item()
    if "epsilon" in attrs:
        attrs["epsilon"] = abs(attrs["epsilon"])
    return inputs, attrs


SAMPLES = {
    "accuracy": accuracy,
    "adam": adam,
    "adamw": adam,
    "clip": compared,
    "cross_entropy": probabilities,
    "leaky_relu": compared,
    "max_pool2d": max_pool2d,
    "sigmoid": saturated,
    "tanh": saturated,
    "top_k": top_k,
    # What the passes put into plans.
    "std.batch_norm_activation": batch_norm_activation,
    "std.batch_norm_activation_grad": batch_norm_activation_grad,
    "std.conv2d_pool_grad": conv2d_pool_grad,
    "std.elementwise_chain": elementwise_chain,
    "std.multi_adam": many_updates,
    "std.multi_adamw": many_updates,
    "std.multi_momentum": many_updates,
    "std.multi_sgd": many_updates,
    "std.softmax_cross_entropy": softmax_cross_entropy,
}
