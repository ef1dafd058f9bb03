"""Normalization: batch_norm over the batch, the other layers within a sample."""

from __future__ import annotations

from functools import partial

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import checks, operators
from opwright_nn.initializer import Constant
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import append_layer, begin, check_activation
from opwright_nn.parallel import DataParallel, check_data_parallel
from opwright_nn.parameters.deferred import Shape, ShapeRule
from opwright_nn.parameters.param_attr import ParamAttr, ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter, make_state


@ow.transaction()
def layer_norm(
    input: Input,
    *,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    scale: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing each sample.

    Ba, Kiros and Hinton, Layer Normalization, 2016.

    Parameters
    ----------
    input : Variable or str
        Float; the sizes of axis `begin_norm_axis` and later axes must be known, or, in a `Model`,
        are taken from the first batch.
    begin_norm_axis : int, at least 1
        The first axis of a sample.
    epsilon : float, > 0
        Added to the variance.
    scale, bias : bool
        Whether to multiply by w, and to add b.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, 1 by default, and ``<name>_b_param``, 0; the shape of a sample.

    Returns
    -------
    Variable
        Shape and dtype of x.
    """
    who = "layer_norm"
    axis = checks.check_int(who, "begin_norm_axis", begin_norm_axis, at_least=1)
    x = find_input(who, "input", input)
    rule = partial(_sample_shape, who, x, axis)
    attrs: dict[str, object] = {"begin_norm_axis": axis}
    given = (scale, bias, param_attr, bias_attr)
    return _normalize(who, x, epsilon, attrs, rule, given, name)


@ow.transaction()
def rms_norm(
    input: Input,
    *,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-5,
    scale: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``x / sqrt(mean(x**2) + epsilon) * w``, normalizing each row.

    Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    Parameters
    ----------
    input : Variable or str
        Float; the sizes of axis `begin_norm_axis` and later axes must be known, or, in a `Model`,
        are taken from the first batch.
    begin_norm_axis : int
        The first axis of a row; the last axis by default.
    epsilon : float, > 0
        Added to the mean of squares.
    scale : bool
        Whether to multiply by w.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, 1 by default; the shape of a row.
    """
    axis = checks.check_int("rms_norm", "begin_norm_axis", begin_norm_axis)
    x = find_input("rms_norm", "input", input)
    rule = partial(_sample_shape, "rms_norm", x, axis)
    attrs: dict[str, object] = {"begin_norm_axis": axis}
    given = (scale, False, param_attr, None)
    return _normalize("rms_norm", x, epsilon, attrs, rule, given, name)


@ow.transaction()
def group_norm(
    input: Input,
    groups: int,
    *,
    epsilon: float = 1e-5,
    scale: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing groups of channels.

    Wu and He, Group Normalization, 2018.

    Parameters
    ----------
    input : Variable or str, [n, channels, …]
        Float; `channels` must be known, or, in a `Model`, is taken from the first batch.
    groups : int, at least 1
        The number of groups of adjacent channels; each has one mean and one variance.
    epsilon : float, > 0
        Added to the variance.
    scale, bias : bool
        Whether to multiply by w, and to add b.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, 1 by default, and ``<name>_b_param``, 0; both [channels].
    """
    who = "group_norm"
    x = find_input(who, "input", input)
    attrs: dict[str, object] = {"groups": checks.check_int(who, "groups", groups, at_least=1)}
    channels = _channels(who, x)[0]
    if channels > 0 and channels % groups:
        raise AttributeValueError(
            f"group_norm: groups must divide the {channels} channels of x, got {groups}; all "
            "groups have the same number of channels"
        )
    given = (scale, bias, param_attr, bias_attr)
    return _normalize(who, x, epsilon, attrs, partial(_channels, who, x), given, name)


@ow.transaction()
def instance_norm(
    input: Input,
    *,
    epsilon: float = 1e-5,
    scale: bool = True,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``(x - mean) / sqrt(variance + epsilon) * w + b`` for each channel of a sample.

    Ulyanov, Vedaldi and Lempitsky, Instance Normalization, 2016.

    Parameters
    ----------
    input : Variable or str, [n, channels, …]
        Float; `channels` must be known, or, in a `Model`, is taken from the first batch.
    epsilon, scale, bias, name, param_attr, bias_attr
        As in `layers.group_norm`.
    """
    who = "instance_norm"
    x = find_input(who, "input", input)
    given = (scale, bias, param_attr, bias_attr)
    return _normalize(who, x, epsilon, {}, partial(_channels, who, x), given, name)


def lrn(
    input: Input,
    size: int = 5,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    name: str | None = None,
) -> ow.Variable:
    """Append ``x / (bias + alpha * m) ** beta``, where m is the mean square of nearby channels.

    Krizhevsky, Sutskever and Hinton, ImageNet classification, 2012. The layer has no parameters.

    Parameters
    ----------
    input : Variable or str, [n, channels, …]
        Float.
    size : int, at least 1
        The number of channels averaged around each channel.
    alpha, beta, bias : float
        As above.
    name : str, optional
        The prefix of the layer's variable names.
    """
    size = checks.check_int("lrn", "size", size, at_least=1)
    attrs = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    return append_layer("lrn", {"x": input}, attrs, name)


@ow.transaction()
def batch_norm(
    input: Input,
    *,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    activation: str | None = None,
    training: bool = True,
    unbiased: bool = False,
    sync: bool | str | DataParallel | None = None,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append ``(x - mean) / sqrt(variance + epsilon) * w + b``, normalizing each channel.

    Mean and variance are computed over the batch and all positions of an image. The running mean
    and variance, which inference uses, are states of the program: ``<name>_mean`` and
    ``<name>_variance``. Ioffe and Szegedy, Batch Normalization, 2015.

    Parameters
    ----------
    input : Variable or str, [n, channels, …]
        Float; `channels` must be known, or, in a `Model`, is taken from the first batch.
    momentum : float in [0, 1]
        The fraction of the running mean and variance that is kept in each step.
    epsilon : float, > 0
        Added to the variance.
    activation : str, optional
        The type of an operator from ``x`` to ``out``.
    training : bool
        False uses the running mean and variance instead of the batch statistics.
    unbiased : bool
        Whether the running variance uses the unbiased batch variance, which for n elements is
        n / (n - 1) times the batch's variance, as in PyTorch.
    sync : bool, str or DataParallel, optional
        True or "world" computes mean and variance over the batches of all processes that train
        together; any other name, over the processes of that group. Running statistics are then
        equal on all of them.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, 1 by default, and ``<name>_b_param``, 0; both [channels].

    Returns
    -------
    Variable
        Shape and dtype of x.
    """
    who = "batch_norm"
    x = find_input(who, "input", input)
    attrs: dict[str, object] = {
        "momentum": checks.check_float(who, "momentum", momentum, at_least=0.0, at_most=1.0),
        "epsilon": checks.check_float(who, "epsilon", epsilon, above=0.0),
        "training": checks.check_bool(who, "training", training),
        "unbiased": checks.check_bool(who, "unbiased", unbiased),
    }
    op_type, parallel = who, check_data_parallel(who, sync)
    if parallel is not None:
        op_type = "dist.batch_norm"
        attrs |= {"group": parallel.group, "unequal_rows": parallel.unequal_rows}
    kind = check_activation(who, activation)
    scales = check_param_attr(who, "param_attr", param_attr)
    biases = check_param_attr(who, "bias_attr", bias_attr)
    layer = begin(who, name)
    rule, dtype = partial(_channels, who, x), x.dtype
    inputs = {
        "x": x,
        "scale": _make_scale(who, layer.name, scales, rule, dtype),
        "bias": _make_bias(who, layer.name, biases, rule, dtype),
        "mean": make_state(who, f"{layer.name}_mean", rule, Constant(0.0), dtype, shared=True),
        "variance": make_state(
            who, f"{layer.name}_variance", rule, Constant(1.0), dtype, shared=True
        ),
    }
    if not kind:
        return operators.append(layer.block, op_type, inputs, attrs, name=layer.out)
    normal = operators.append(layer.block, op_type, inputs, attrs, prefix=f"{layer.out}/normal")
    return operators.append(layer.block, kind, {"x": normal}, name=layer.out)


def _normalize(
    who: str,
    x: ow.Variable,
    epsilon: object,
    attrs: dict[str, object],
    rule: ShapeRule,
    given: tuple[object, object, object, object],
    name: str | None,
) -> ow.Variable:
    """Append a normalization with a scale and a bias of the shape that a rule returns."""
    scale, bias, param_attr, bias_attr = given
    attrs = attrs | {"epsilon": checks.check_float(who, "epsilon", epsilon, above=0.0)}
    with_scale = checks.check_bool(who, "scale", scale)
    with_bias = checks.check_bool(who, "bias", bias)
    unless = "" if with_scale else "scale=False"
    scales = check_param_attr(who, "param_attr", param_attr, unless=unless)
    biases = check_param_attr(who, "bias_attr", bias_attr, unless="" if with_bias else "bias=False")
    layer = begin(who, name)
    inputs = {"x": x}
    if with_scale:
        inputs["scale"] = _make_scale(who, layer.name, scales, rule, x.dtype)
    if with_bias:
        inputs["bias"] = _make_bias(who, layer.name, biases, rule, x.dtype)
    return operators.append(layer.block, who, inputs, attrs, name=layer.out)


def _make_scale(who: str, layer: str, attr: ParamAttr, rule: ShapeRule, dtype: str) -> ow.Variable:
    name = f"{layer}_w_param"
    return make_parameter(who, name, attr, rule, default=Constant(1.0), dtype=dtype)


def _make_bias(who: str, layer: str, attr: ParamAttr, rule: ShapeRule, dtype: str) -> ow.Variable:
    name = f"{layer}_b_param"
    return make_parameter(who, name, attr, rule, default=Constant(0.0), dtype=dtype)


def _sample_shape(who: str, x: ow.Variable, axis: int) -> Shape:
    if x.shape is None:
        return (-1,)
    if not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(
            f"{who}: input must have more than begin_norm_axis={axis} axes, got {x!r}; decrease "
            "begin_norm_axis"
        )
    return x.shape[axis:]


def _channels(who: str, x: ow.Variable) -> Shape:
    if x.shape is None:
        return (-1,)
    if len(x.shape) < 2:
        raise ShapeError(
            f"{who}: input must be [n, channels, ...], got {x!r}; give each sample at least one "
            "axis"
        )
    return (x.shape[1],)
