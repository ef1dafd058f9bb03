"""Samples with which `opwright check` tests operators that the passes of this package create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None


def fc_input_grad(draw: Draw) -> Drawn:
    """Draw inputs; use an activation only if its result is among the inputs."""
    inputs = draw.propose()
    if inputs is None:
        return None
    attrs = draw.attrs if inputs.get("activated") else {**draw.attrs, "activation": ""}
    if attrs["transpose_weight"]:
        inputs["weight"] = tuple(np.ascontiguousarray(array.T) for array in inputs["weight"])
    if attrs.get("activation"):  # results of sigmoid and tanh do not exceed 1
        inputs["activated"] = tuple(
            np.asarray(array / 4 + 0.5).astype(array.dtype) for array in inputs["activated"]
        )
    return inputs, attrs


def fold_batch_norm(draw: Draw) -> Drawn:
    """Draw a non-negative variance and epsilon."""
    names = ("scale", "bias", "mean")
    inputs = {name: draw.floats((draw.length,)) for name in names}
    inputs["variance"] = draw.floats((draw.length,), 0.25, 2.0)
    return inputs, {"epsilon": abs(draw.attrs["epsilon"])}


def conv2d_fused(draw: Draw) -> Drawn:
    """Draw images at least as large as the kernel, and a random choice of fused operators."""
    draw.drops_nan = "oneDNN's relu behind a convolution makes NaN 0"
    channels, filters, groups = draw.other_length(), draw.other_length(), draw.choice([1, 1, 2])
    kernel = (draw.choice([1, 2, 3]), draw.choice([1, 3]))
    size = (kernel[0] + draw.choice([0, 2, 5]), max(kernel[1], draw.length))
    strides, last = [draw.choice([1, 2]), draw.choice([1, 2])], draw.choice([True, False])
    filters, images = filters * groups, draw.choice([1, 2])
    windows = tuple((n - k) // s + 1 for n, k, s in zip(size, kernel, strides, strict=True))
    out = (images, *windows, filters) if last else (images, filters, *windows)
    x = (*size, channels * groups) if last else (channels * groups, *size)
    inputs = {
        "x": draw.floats((images, *x)),
        "weight": draw.floats((filters, channels, *kernel)),
    }
    for slot, shape, dtype in (
        ("bias", (filters,), draw.dtype),
        ("scale", (filters,), "float32"),
        ("shift", (filters,), "float32"),
        ("residual", out, draw.dtype),
    ):
        if draw.choice([True, False]):
            inputs[slot] = draw.floats(shape, dtype=dtype)
    attrs = {"strides": strides, "groups": groups, "data_format": "NHWC" if last else "NCHW"}
    return inputs, {**attrs, "activation": draw.choice(["", "relu", "sigmoid", "tanh"])}


def fc_sgd(draw: Draw) -> Drawn:
    """Draw the proposed inputs, with the weight in either layout."""
    inputs = draw.propose()
    if inputs is None or not draw.attrs["transpose_weight"]:
        return None if inputs is None else (inputs, draw.attrs)
    inputs["param"] = tuple(np.ascontiguousarray(array.T) for array in inputs["param"])
    return inputs, draw.attrs


def _gelu_layer(draw: Draw) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """Return x with enough rows for gradients, a weight that fills vectors, and an output shape."""
    inputs, outputs = 16 * draw.choice([1, 2, 5]), 16 * draw.choice([1, 3])
    leading = draw.choice([(48,), (7, 9), (3, 1, 31)])
    weight = (outputs, inputs) if draw.attrs["transpose_weight"] else (inputs, outputs)
    made = {"x": draw.floats((*leading, inputs)), "weight": draw.floats(weight)}
    return made, (*leading, outputs)


def gelu_fc(draw: Draw) -> Drawn:
    """Draw a layer with or without a bias."""
    inputs, shape = _gelu_layer(draw)
    if draw.choice([True, False]):
        inputs["bias"] = draw.floats(shape[-1:])
    return inputs, draw.attrs


def gelu_fc_grad(draw: Draw) -> Drawn:
    """Draw a layer and a gradient with the output shape."""
    inputs, shape = _gelu_layer(draw)
    return {**inputs, "out_grad": draw.floats(shape)}, draw.attrs


def packed_attention(draw: Draw) -> Drawn:
    """Draw queries, keys and values, possibly with a mask that lets each query see its own key."""
    batch, time = draw.other_length(), draw.other_length()
    heads, size = draw.choice([1, 2, 3]), draw.choice([1, 4, 5, 16])
    inputs = {"qkv": draw.floats((batch, time, 3 * heads * size))}
    if draw.choice([True, False]):
        inputs["mask"] = (draw.floats((batch, 1, time, time)) > 0) | np.eye(time, dtype=bool)
    return inputs, {**draw.attrs, "heads": heads}


def packed_attention_grad(draw: Draw) -> Drawn:
    """Draw inputs of attention, its result for these inputs, and a random output gradient."""
    drawn = packed_attention(draw)
    if drawn is None:
        return None
    inputs, attrs = drawn
    (batch, time, columns), heads = inputs["qkv"].shape, attrs["heads"]
    q, k, v = (
        part.reshape(batch, time, heads, -1).transpose(0, 2, 1, 3).astype("float64")
        for part in np.split(inputs["qkv"], 3, axis=2)
    )
    scale = attrs.get("scale")
    size = columns // (3 * heads)
    scores = q @ k.swapaxes(2, 3) * (size**-0.5 if scale is None else scale)
    allowed = np.tril(np.ones((time, time), bool)) if attrs.get("causal") else True
    scores = np.where(np.logical_and(inputs.get("mask", True), allowed), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-1e30)
    powers = np.exp(scores - top)
    total = powers.sum(axis=-1, keepdims=True)
    out, dtype = (powers / total @ v).transpose(0, 2, 1, 3), inputs["qkv"].dtype
    made = {"out": out, "log_sum_exp": (top + np.log(total))[..., 0]}
    made["out_grad"] = draw.floats(out.shape)
    return {**inputs, **{name: array.astype(dtype) for name, array in made.items()}}, attrs


def folded_matmul(draw: Draw) -> Drawn:
    """Draw batches of matrices with the head axis after the rows, and rows or columns last."""
    batch, heads, m, n, k = (draw.other_length() for _ in range(5))
    inputs = {"x": draw.floats((batch, m, heads, k)), "y": draw.floats((batch, n, heads, k))}
    attrs = {"x_axes": [0, 2, 1, 3], "y_axes": [0, 2, 3, 1], "out_dtype": draw.dtype}
    return inputs, {**attrs, "out_axes": draw.choice([[], [0, 2, 1, 3]])}


def _lstm(draw: Draw, **attrs: Any) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """Return x, the weights and possibly lengths, and the shapes of the states and of out."""
    steps, n, size = draw.other_length(), draw.other_length(), draw.choice([1, 3, 16])
    inputs, layers = draw.other_length(), draw.choice([1, 2, 3])
    leading = (n, steps) if attrs["batch_first"] else (steps, n)
    made: dict[str, Any] = {"x": draw.floats((*leading, inputs))}
    made["weight_ih"] = tuple(draw.floats((4 * size, size if i else inputs)) for i in range(layers))
    made["weight_hh"] = tuple(draw.floats((4 * size, size)) for _ in range(layers))
    if draw.choice([True, False]):
        made["lengths"] = np.arange(n, dtype="int64") % (steps + 1)
    return made, (layers, n, size), (*leading, size)


def lstm_train(draw: Draw) -> Drawn:
    """Draw layers with or without biases and initial states, for either order of the input axes."""
    made, state, _ = _lstm(draw, **draw.attrs)
    for slot in ("bias_ih", "bias_hh"):
        if draw.choice([True, False]):
            made[slot] = tuple(draw.floats((4 * state[2],)) for _ in range(state[0]))
    for slot in ("h0", "c0"):
        if draw.choice([True, False]):
            made[slot] = draw.floats(state)
    return made, draw.attrs


def lstm_train_grad(draw: Draw) -> Drawn:
    """Draw gates between 0 and 1, random cells, and gradients of a random choice of outputs."""
    made, state, out = _lstm(draw, **draw.attrs)
    layers, n, size = state
    steps = out[1] if draw.attrs["batch_first"] else out[0]
    parts = -(-steps // draw.attrs["part_steps"])
    made["gates"] = draw.floats((layers, steps, n, 4 * size), 0.1, 0.9)
    made["marks"] = draw.floats((layers, parts, n, size))
    for slot, shape in (("h0", state), ("out_grad", out), ("h_n_grad", state), ("c_n_grad", state)):
        if draw.choice([True, False]):
            made[slot] = draw.floats(shape)
    return made, draw.attrs


SAMPLES = {
    "pass fuse_gelu_fc": "it changes layers behind gelu in training, with weights of some size",
    "pass fuse_packed_attention": "it changes attention whose heads are split and turned before it",
    "pass recompute": "it changes steps whose memory outgrows the caches",
    "cpu.conv2d_fused": conv2d_fused,
    "cpu.fc_input_grad": fc_input_grad,
    "cpu.fc_sgd": fc_sgd,
    "cpu.fold_batch_norm": fold_batch_norm,
    "cpu.folded_matmul": folded_matmul,
    "cpu.gelu_fc": gelu_fc,
    "cpu.gelu_fc_grad": gelu_fc_grad,
    "cpu.lstm_train": lstm_train,
    "cpu.lstm_train_grad": lstm_train_grad,
    "cpu.packed_attention": packed_attention,
    "cpu.packed_attention_grad": packed_attention_grad,
}
