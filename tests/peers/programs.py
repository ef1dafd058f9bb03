"""Draws programs of 5 to 40 operators with a loss at the end, for opwright and for a peer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from case import Array
from peer import Request, widen

import opwright as ow

UNARY = (
    *("tanh", "sigmoid", "softplus", "gelu", "silu", "relu", "abs", "erf", "elu", "leaky_relu"),
    *("mish", "selu", "celu", "softsign", "log_sigmoid", "tanh_shrink", "sin", "cos", "atan"),
    *("hard_sigmoid", "hard_swish", "hard_shrink", "soft_shrink", "relu6", "stanh", "swish"),
)
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "squared_difference")
REDUCTIONS = ("mean", "sum", "max", "min", "logsumexp", "variance")
BATCH, MOST_ELEMENTS = 4, 4096


class Drawing:
    """A random program under construction.

    Attributes
    ----------
    block : Block
        A block of opwright.
    feeds : dict
        Array by variable, parameters too.
    parameters : list of str
        Variables to differentiate by.
    loss : str
    """

    def __init__(self, seed: int, dtype: str, has_recurrent: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self._has_recurrent = has_recurrent
        self.dtype = dtype
        self.block = ow.Program().global_block()
        self.feeds: dict[str, Array] = {}
        self.parameters: list[str] = []
        self.values: list[str] = []
        self._add_inputs()
        for _ in range(int(self.rng.integers(5, 40))):
            self._append_any()
        self.loss = self._append_loss()

    def to_request(self) -> Request:
        """Convert the program to a request for a peer."""
        request = Request(feed={name: widen(array) for name, array in self.feeds.items()})
        for op in self.block.ops:
            request.append(op)
        request.fetch, request.wanted = [self.loss], list(self.parameters)
        request.weights = {self.loss: np.ones(())}
        return request

    def _add_inputs(self) -> None:
        self.values.append(self._feed("x", (BATCH, 6)))
        self.values.append(self._feed("image", (BATCH, 3, 8, 8)))
        self.values.append(self._feed("sequence", (BATCH, 5, 6)))
        self.values.append(self._fc("x"))  # at least one parameter

    def _feed(self, name: str, shape: tuple[int, ...], scale: float = 1.0) -> str:
        array = (self.rng.standard_normal(shape) * scale).astype(self.dtype)
        self.block.create_var(name, shape, self.dtype, stop_gradient=False)
        self.feeds[name] = array
        return name

    def _parameter(self, *shape: int) -> str:
        name = self._feed(f"w{len(self.parameters)}", shape, 1 / math.sqrt(max(shape[0], 1)))
        self.parameters.append(name)
        return name

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.block.var(name).shape)

    def _append(self, op_type: str, inputs: Mapping[str, Any], **attrs: Any) -> str:
        name: str = self.block.append_op(op_type, inputs, attrs=attrs).output("out")[0]
        return name

    def _choose(self, *names: Any) -> Any:
        return names[int(self.rng.integers(len(names)))]

    def _append_any(self) -> None:
        """Append an operator that reads one of the last three values, or any value."""
        few = self.values[-3:] if self.rng.random() < 0.7 else self.values
        x = self._choose(*few)
        makers: list[Callable[[str], str]] = [self._unary, self._unary, self._binary, self._move]
        rank = len(self._shape(x))
        if rank >= 2:
            makers += [self._product, self._fc, self._normalize, self._reduce, self._softmax]
            makers += [self._rearrange, self._rearrange, self._choose_between]
        if rank == 3:
            makers += [self._attend, self._convolve_lines]
            makers += [self._recur] if self._has_recurrent else []
        if rank == 4:
            makers += [self._convolve, self._convolve, self._pool, self._batch_norm]
            makers += [self._resize, self._enlarge, self._normalize_groups]
        self.values.append(self._choose(*makers)(x))

    def _unary(self, x: str) -> str:
        return self._append(self._choose(*UNARY), {"x": x})

    def _binary(self, x: str) -> str:
        shape = self._shape(x)
        same = [name for name in self.values if self._shape(name) == shape]
        row = self._parameter(*shape[-1:]) if shape and self.rng.random() < 0.4 else None
        out = self._append(self._choose(*BINARY), {"x": x, "y": row or self._choose(*same)})
        return self._append("tanh", {"x": out}) if self.rng.random() < 0.3 else out

    def _product(self, x: str) -> str:
        columns = int(self.rng.integers(2, 9))
        return self._append("matmul", {"x": x, "y": self._parameter(self._shape(x)[-1], columns)})

    def _fc(self, x: str) -> str:
        shape = self._shape(x)
        columns = int(self.rng.integers(2, 9))
        inputs = {"x": x, "weight": self._parameter(math.prod(shape[1:]), columns)}
        if self.rng.random() < 0.7:
            inputs["bias"] = self._parameter(columns)
        return self._append("fc", inputs, activation=self._choose("", "relu", "tanh", "sigmoid"))

    def _normalize(self, x: str) -> str:
        length = self._shape(x)[-1]
        if length < 3:
            return self._unary(x)
        inputs, axis = {"x": x, "scale": self._parameter(length)}, len(self._shape(x)) - 1
        if self.rng.random() < 0.3:
            return self._append("rms_norm", inputs, begin_norm_axis=axis, epsilon=1e-3)
        inputs["bias"] = self._parameter(length)
        return self._append("layer_norm", inputs, begin_norm_axis=axis)

    def _softmax(self, x: str) -> str:
        return self._append(self._choose("softmax", "log_softmax"), {"x": x})

    def _reduce(self, x: str) -> str:
        axis = int(self.rng.integers(1, len(self._shape(x))))
        return self._append(self._choose(*REDUCTIONS), {"x": x}, axis=[axis])

    def _move(self, x: str) -> str:
        shape = self._shape(x)
        kind = self._choose("transpose", "reshape", "concat", "slice", "pad")
        if kind == "concat" and 2 * math.prod(shape) <= MOST_ELEMENTS:
            same = [name for name in self.values if self._shape(name) == shape]
            return self._append("concat", {"x": [x, self._choose(*same)]}, axis=len(shape) - 1)
        if kind == "transpose" and len(shape) > 2:
            axes = [0, *(1 + self.rng.permutation(len(shape) - 1))]
            return self._append("transpose", {"x": x}, axes=[int(axis) for axis in axes])
        if kind == "slice" and len(shape) > 1 and shape[-1] > 2:
            axis = len(shape) - 1
            return self._append("slice", {"x": x}, axes=[axis], starts=[1], ends=[shape[-1]])
        if kind == "pad" and 2 * math.prod(shape) <= MOST_ELEMENTS:
            paddings = [0, 0] * (len(shape) - 1) + [1, 0]
            return self._append("pad", {"x": x}, paddings=paddings, value=0.5)
        return self._append("reshape", {"x": x}, shape=[shape[0], math.prod(shape[1:])])

    def _rearrange(self, x: str) -> str:
        """Append operators that move or sum elements along the last axis."""
        shape = self._shape(x)
        axis = len(shape) - 1
        kind = self._choose("flip", "roll", "cumsum", "sort", "triu", "tile", "gather", "stack")
        if kind in {"tile", "stack"} and (2 * math.prod(shape) > MOST_ELEMENTS or axis > 2):
            kind = "flip"
        if kind == "gather":
            index = f"index_{len(self.feeds)}"
            self.feeds[index] = self.rng.integers(0, shape[-1], 3)
            self.block.create_var(index, (3,), "int64", stop_gradient=True)
            return self._append("gather", {"x": x, "index": index}, axis=axis)
        if kind == "stack":
            same = [name for name in self.values if self._shape(name) == shape]
            return self._append("stack", {"x": [x, self._choose(*same)]}, axis=axis)
        attrs: dict[str, Any] = {
            "flip": {"axis": [axis]},
            "roll": {"shift": [1], "axis": [axis]},
            "cumsum": {"axis": axis},
            "sort": {"axis": axis},
            "triu": {},
            "tile": {"repeats": [1] * axis + [2]},
        }[kind]
        return self._append(kind, {"x": x}, **attrs)

    def _choose_between(self, x: str) -> str:
        same = [name for name in self.values if self._shape(name) == self._shape(x)]
        y = self._choose(*same)
        if self.rng.random() < 0.3:
            weight = self._parameter(self._shape(x)[-1])
            return self._append("lerp", {"x": x, "y": y, "weight": weight})
        less = self._append("less", {"x": x, "y": y})
        negated = self._append("scale", {"x": y}, scale=-0.5, bias=0.1)
        return self._append("where", {"condition": less, "x": x, "y": negated})

    def _attend(self, x: str) -> str:
        size = self._shape(x)[-1]
        heads = {
            slot: self._append("matmul", {"x": x, "y": self._parameter(size, 4)})
            for slot in ("q", "k", "v")
        }
        causal = bool(self.rng.random() < 0.5)
        return self._append("scaled_dot_product_attention", heads, causal=causal)

    def _recur(self, x: str) -> str:
        kind, size, hidden = self._choose("lstm", "gru", "rnn"), self._shape(x)[-1], 3
        gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind] * hidden
        inputs = {
            "x": x,
            "weight_ih": [self._parameter(gates, size)],
            "weight_hh": [self._parameter(gates, hidden)],
        }
        return self._append(kind, inputs, batch_first=True)

    def _convolve_lines(self, x: str) -> str:
        weight = self._parameter(int(self.rng.integers(1, 5)), self._shape(x)[1], 3)
        return self._append("conv1d", {"x": x, "weight": weight}, paddings=[1, 1])

    def _resize(self, x: str) -> str:
        size, mode = [4, 6], self._choose("nearest", "bilinear")
        if self.rng.random() < 0.3:
            return self._append("adaptive_avg_pool2d", {"x": x}, output_size=[2, 3])
        return self._append("interpolate", {"x": x}, output_size=size, mode=mode)

    def _enlarge(self, x: str) -> str:
        shape = self._shape(x)
        if 4 * math.prod(shape) > MOST_ELEMENTS:
            return self._unary(x)
        weight = self._parameter(shape[1], 2, 2, 2)
        return self._append("conv2d_transpose", {"x": x, "weight": weight}, strides=[2, 2])

    def _normalize_groups(self, x: str) -> str:
        channels = self._shape(x)[1]
        if math.prod(self._shape(x)[2:]) < 4:
            return self._unary(x)
        inputs = {"x": x, "scale": self._parameter(channels), "bias": self._parameter(channels)}
        if self.rng.random() < 0.5:
            return self._append("instance_norm", inputs, epsilon=1e-3)
        return self._append("group_norm", inputs, groups=1, epsilon=1e-3)

    def _convolve(self, x: str) -> str:
        channels = self._shape(x)[1]
        filters, size = int(self.rng.integers(1, 5)), self._choose(1, 3)
        inputs = {"x": x, "weight": self._parameter(filters, channels, size, size)}
        if self.rng.random() < 0.5:
            inputs["bias"] = self._parameter(filters)
        return self._append("conv2d", inputs, paddings=[size // 2] * 4)

    def _pool(self, x: str) -> str:
        if min(self._shape(x)[2:]) < 2:
            return self._unary(x)
        return self._append(self._choose("max_pool2d", "avg_pool2d"), {"x": x}, kernel=[2, 2])

    def _batch_norm(self, x: str) -> str:
        channels = self._shape(x)[1]
        inputs = {"x": x, "scale": self._parameter(channels), "bias": self._parameter(channels)}
        for name, value in (("mean", 0.0), ("variance", 1.0)):
            inputs[name] = f"{name}_of_{len(self.parameters)}"
            self.block.create_var(inputs[name], (channels,), self.dtype, stop_gradient=True)
            self.feeds[inputs[name]] = np.full(channels, value, self.dtype)
        return self._append("batch_norm", inputs, training=True)

    def _append_loss(self) -> str:
        """Append the loss: the sum over all unread values of mean(tanh(value)**2)."""
        read = {name for op in self.block.ops for name in op.input_names()}
        parts = []
        for name in [value for value in self.values if value not in read]:
            square = self._append("square", {"x": self._append("tanh", {"x": name})})
            parts.append(self._append("mean", {"x": square}))
        return self._append("add_n", {"x": parts})
