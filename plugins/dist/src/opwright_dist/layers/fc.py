"""`fc` with a weight that is split by columns or rows."""

from __future__ import annotations

from typing import Final

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright_dist.groups.world import WORLD, current_world
from opwright_dist.layers.parameters import divide, mark
from opwright_nn import arguments, checks, operators
from opwright_nn import layers as nn_layers
from opwright_nn.initializer import Constant
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import Layer, begin, check_activation, weight_initializer
from opwright_nn.parameters.param_attr import ParamAttr, ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter

_WHO: Final = "dist.fc"
SPLITS: Final = ("columns", "rows")

_OF_ROWS: Final = ("softmax", "log_softmax")
"""Activations that need all columns."""


@arguments.suggest
@ow.transaction()
def fc(
    x: Input,
    size: int,
    *,
    split: str,
    group: str = WORLD,
    gather: bool = False,
    x_is_split: bool = False,
    bias: bool = True,
    activation: str | None = None,
    num_flatten_dims: int = 1,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``activation(x · w + b)`` with a weight partitioned over processes.

    All processes of the group compute one batch and one loss together. Two consecutive layers, the
    first split by columns and the second by rows, with an elementwise activation in between, need
    one sum over processes in the forward pass and one in the backward pass::

        hidden = dist.layers.fc(x, 4096, split="columns", group="tensor", activation="gelu")
        out = dist.layers.fc(hidden, 1024, split="rows", group="tensor", x_is_split=True)

    Parameters
    ----------
    x : Variable or str, [n, …]
        Equal on all processes; with `x_is_split`, the columns of this process.
    size : int
        The width of the complete output.
    split : str
        With ``"columns"``, each process computes some columns of the output. With ``"rows"``, each
        process reads some columns of x, and the output is the sum over the processes.
    group : str
        The processes that share the layer; their number must divide the split dimension.
    gather : bool
        For a split by columns, whether every process receives the complete output.
    x_is_split : bool
        For a split by rows, whether x is the ungathered output of a layer split by columns.
    bias : bool
        Whether to add b (once).
    activation : str, optional
        As in `layers.fc`. With a split by columns, softmax needs `gather`.
    num_flatten_dims : int
        As in `layers.fc`; with a split by rows, x must have exactly one more axis.
    name : str, optional
        The prefix of its variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, per process [width of x, size / n] or [width of x / n, size], and
        ``<name>_b_param``, [size / n] or [size]. Initial values are the same as in a single
        process.

    Returns
    -------
    Variable
        Its shape is the leading axes of x, then `size`, or size / n for columns without `gather`.

    Raises
    ------
    AttributeValueError
        If an argument does not apply to the split, or n does not divide `size`.
    ShapeError
        If n does not divide the width of x.
    DistError
        If the group is unknown.

    Notes
    -----
    Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
    Parallelism, 2019, section 3.
    """
    x = find_input(_WHO, "x", x)
    checks.check_int(_WHO, "size", size, at_least=1)
    checks.check_choice(_WHO, "split", split, SPLITS)
    kind = check_activation(_WHO, activation)
    _check_choices(split, gather, x_is_split, kind)
    build = _Builder(begin("fc", name), group, size, bias, kind, num_flatten_dims)
    if split == "columns":
        return build.columns(x, gather, param_attr, bias_attr)
    return build.rows(x, x_is_split, param_attr, bias_attr)


def _check_choices(split: str, gather: bool, x_is_split: bool, activation: str) -> None:
    checks.check_bool(_WHO, "gather", gather)
    checks.check_bool(_WHO, "x_is_split", x_is_split)
    if split == "rows" and gather:
        raise AttributeValueError(
            f"{_WHO}: gather must be omitted with split='rows', got True; every process "
            "has the complete output"
        )
    if split == "columns" and x_is_split:
        raise AttributeValueError(
            f"{_WHO}: x_is_split must be omitted with split='columns', got True; split the "
            "layer by rows, or gather the columns of the previous layer"
        )
    if split == "columns" and not gather and activation in _OF_ROWS:
        raise AttributeValueError(
            f"{_WHO}: activation must be elementwise for ungathered columns, got "
            f"{activation!r}; pass gather=True"
        )


class _Builder:
    """Appends one layer.

    Parameters
    ----------
    layer : Layer
        The block and the prefix of names.
    group : str
        The processes that share the layer.
    size : int
        The width of the complete output.
    bias, activation, flat
        As in `fc`.
    """

    def __init__(
        self, layer: Layer, group: str, size: int, bias: bool, activation: str, flat: int
    ) -> None:
        self._layer = layer
        self._group = group
        self._n_parts = current_world().group(group, _WHO).size
        self._size = size
        self._bias = checks.check_bool(_WHO, "bias", bias)
        self._activation = activation
        self._flat = checks.check_int(_WHO, "num_flatten_dims", flat, at_least=1)

    def columns(
        self,
        x: ow.Variable,
        gather: bool,
        param_attr: ParamLike | None,
        bias_attr: ParamLike | None,
    ) -> ow.Variable:
        """Append the layer, split by columns."""
        if self._size % self._n_parts:
            raise AttributeValueError(
                f"{_WHO}: size must be divisible by the {self._n_parts} processes of group "
                f"{self._group!r}, got {self._size}; round it up"
            )
        weights = self._divide("param_attr", param_attr, axis=1)
        unless = "" if self._bias else "bias=False"
        biases = check_param_attr(_WHO, "bias_attr", bias_attr, unless=unless)
        if self._bias:
            biases = self._divide("bias_attr", biases, axis=0)
        given = self._append("dist.copy_to_group", x, "given")
        own = nn_layers.fc(
            given,
            self._size // self._n_parts,
            bias=self._bias,
            activation=None if gather else self._activation or None,
            num_flatten_dims=self._flat,
            name=self._layer.name,
            param_attr=weights,
            bias_attr=biases if self._bias else None,
        )
        parts = [self._parameter(weights, "w")]
        if self._bias:
            parts.append(self._parameter(biases, "b"))
        out = mark(own, self._layer.part("part"), parts, [1, 0][: len(parts)], self._group)
        if not gather:
            return out
        whole = self._append("dist.all_gather", out, "whole", axis=-1, losses="one")
        return self._activate(whole)

    def rows(
        self, x: ow.Variable, x_is_split: bool, param_attr: object, bias_attr: object
    ) -> ow.Variable:
        """Append the layer, split by rows."""
        self._check_width(x, x_is_split)
        weights = self._divide("param_attr", param_attr, axis=0)
        unless = "" if self._bias else "bias=False"
        biases = check_param_attr(_WHO, "bias_attr", bias_attr, unless=unless)
        given = x if x_is_split else self._append("dist.own_part", x, "given", axis=self._flat)
        own = nn_layers.fc(
            given,
            self._size,
            bias=False,
            num_flatten_dims=self._flat,
            name=self._layer.name,
            param_attr=weights,
        )
        parts = [self._parameter(weights, "w")]
        out = mark(own, self._layer.part("part"), parts, [0], self._group)
        total = self._append("dist.all_reduce", out, "sum", losses="one")
        return self._activate(self._add_bias(total, biases) if self._bias else total)

    def _divide(self, name: str, attr: object, axis: int) -> ParamAttr:
        default = weight_initializer(self._activation) if name == "param_attr" else Constant()
        return divide(_WHO, name, attr, default, {"group": self._group, "axis": axis})

    def _parameter(self, attr: ParamAttr, letter: str) -> ow.Variable:
        return self._layer.block.var(attr.name or f"{self._layer.name}_{letter}_param")

    def _append(self, op_type: str, x: ow.Variable, name: str, **attrs: object) -> ow.Variable:
        attrs["group"] = self._group
        part = self._layer.part(name)
        return operators.append(self._layer.block, op_type, {"x": x}, attrs, name=part)

    def _add_bias(self, total: ow.Variable, attr: ParamAttr) -> ow.Variable:
        name, width = f"{self._layer.name}_b_param", self._size
        b = make_parameter(
            _WHO, name, attr, lambda: (width,), default=Constant(), dtype=total.dtype
        )
        inputs = {"x": total, "y": b}
        return operators.append(self._layer.block, "add", inputs, name=self._layer.part("biased"))

    def _activate(self, x: ow.Variable) -> ow.Variable:
        if not self._activation:
            return x
        name = self._layer.part("activated")
        return operators.append(self._layer.block, self._activation, {"x": x}, name=name)

    def _check_width(self, x: ow.Variable, x_is_split: bool) -> None:
        shape = x.shape
        if shape is None:
            return
        if len(shape) != self._flat + 1:
            raise ShapeError(
                f"{_WHO}: x must have num_flatten_dims + 1 = {self._flat + 1} axes with "
                f"split='rows', got {x!r}; reshape it"
            )
        if not x_is_split and shape[-1] != -1 and shape[-1] % self._n_parts:
            raise ShapeError(
                f"{_WHO}: the width of x must be divisible by the {self._n_parts} "
                f"processes of group {self._group!r}, got {x!r}; pad it"
            )
