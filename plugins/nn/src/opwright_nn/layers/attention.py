"""attention: multi-head attention, of a sequence to itself or to another sequence."""

from __future__ import annotations

from typing import Any

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import checks, operators
from opwright_nn.layers.fc import fc
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin, last_axis
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr


@ow.transaction()
def attention(
    input: Input,
    heads: int,
    memory: Input | None = None,
    *,
    mask: Input | None = None,
    lengths: Input | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: bool = True,
    name: str | None = None,
    param_attr: ParamLike | None = None,
    bias_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append multi-head attention: projections, attention in each head, and a projection back.

    Vaswani et al., Attention Is All You Need, 2017.

    Parameters
    ----------
    input : Variable or str, [n, time, columns]
        Float, the source of the queries; `columns` must be known.
    heads : int, at least 1
        Divides `columns`.
    memory : Variable or str, [n, other time, other columns], optional
        The source of keys and values; x by default.
    mask : Variable or str, bool or dtype of x, optional
        Broadcasts to [n, heads, time, other time]: False keys are ignored; floats are added to the
        scores.
    lengths : Variable or str, int [n], optional
        The length of each sequence of keys; instead of `mask`. Entries beyond this length are
        treated as 0.
    causal : bool
        Whether each time step attends only to steps up to itself.
    dropout : float in [0, 1)
        The fraction of attention weights that training drops; see `layers.dropout`.
    bias : bool
        Whether the projections have biases.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr, bias_attr : ParamAttr or Initializer, optional
        For the weights and biases of the projections. The projection of x to queries, keys and
        values side by side has the weight ``<name>_qkv_w_param``, [columns, 3 * columns], or, with
        a memory, ``<name>_q_w_param`` and ``<name>_kv_w_param``. The projection back has
        ``<name>_w_param``. Each argument is used for several parameters, so it must not have a
        name. By default as in `layers.fc`.

    Returns
    -------
    Variable
        Shape and dtype of x. A time step without any key gets the bias of the last projection.
    """
    who = "attention"
    x = find_input(who, "input", input)
    columns = last_axis(who, x, 3)
    n_heads = checks.check_int(who, "heads", heads, at_least=1)
    if columns % n_heads:
        raise AttributeValueError(
            f"attention: heads must divide the {columns} columns of x, got {n_heads}; all heads "
            "have the same width"
        )
    attrs: dict[str, object] = {"causal": checks.check_bool(who, "causal", causal)}
    op_type = "scaled_dot_product_attention"
    if checks.check_float(who, "dropout", dropout, at_least=0.0, below=1.0) > 0:
        op_type = "dropout_attention"
        attrs |= {"probability": dropout, "training": True}
    options = _projection_options(bias, param_attr, bias_attr)
    layer = begin(who, name)
    keys = x if memory is None else find_input(who, "memory", memory)
    seen = _key_mask(mask, lengths, keys)
    if lengths is not None:
        keys = clear_behind(keys, seen)
        seen = ow.ops.unsqueeze(seen, axis=[1, 2])
    if memory is None:
        parts = _project(keys, f"{layer.name}_qkv", columns, 3, options)
    else:
        parts = _project(x, f"{layer.name}_q", columns, 1, options)
        parts += _project(keys, f"{layer.name}_kv", columns, 2, options)
    q, k, v = [_split_heads(part, n_heads, columns) for part in parts]
    inputs = {"q": q, "k": k, "v": v, "mask": seen}
    seen = operators.append(layer.block, op_type, inputs, attrs)
    joined = ow.ops.reshape(ow.ops.transpose(seen, axes=[0, 2, 1, 3]), shape=[0, 0, columns])
    return fc(joined, columns, num_flatten_dims=2, name=layer.name, **options)


def _projection_options(bias: object, param_attr: object, bias_attr: object) -> dict[str, Any]:
    """Check the options of each projection, and return them."""
    with_bias = checks.check_bool("attention", "bias", bias)
    given = {"param_attr": param_attr, "bias_attr": bias_attr}
    for name, value in given.items():
        unless = "bias=False" if name == "bias_attr" and not with_bias else ""
        attr = check_param_attr("attention", name, value, unless)
        if attr.name is not None:
            raise AttributeValueError(
                f"attention: {name} must not have a name, as it applies to several parameters, got "
                f"{attr.name!r}; name the layer: name={attr.name!r}"
            )
    return {"bias": with_bias} | given


def _project(
    x: ow.Variable, name: str, columns: int, count: int, options: dict[str, Any]
) -> list[ow.Variable]:
    """Append one matrix product with several concatenated weights, and return its slices."""
    together = fc(x, count * columns, num_flatten_dims=2, name=name, **options)
    if count == 1:
        return [together]
    return list(ow.ops.split(together, num=count, axis=2))


def _split_heads(x: ow.Variable, heads: int, columns: int) -> ow.Variable:
    parted = ow.ops.reshape(x, shape=[0, 0, heads, columns // heads])
    heads_first: ow.Variable = ow.ops.transpose(parted, axes=[0, 2, 1, 3])
    return heads_first


def clear_behind(x: ow.Variable, seen: ow.Variable | None) -> ow.Variable:
    """Append x with zeros where `seen`, bool [n, time], is false.

    x may be NaN there, and weight gradients sum over all time steps.
    """
    cleared: ow.Variable = ow.ops.where(ow.ops.unsqueeze(seen, axis=[2]), x, 0.0)
    if cleared.shape is None:  # the shape of the lengths follows from the first batch
        cleared.shape = x.shape
    return cleared


def _key_mask(mask: object, lengths: object, keys: ow.Variable) -> ow.Variable | None:
    if lengths is None:
        return None if mask is None else find_input("attention", "mask", mask, "bool")
    if mask is not None:
        raise AttributeValueError(
            f"attention: mask and lengths must not both be given, got {mask!r} and {lengths!r}; "
            "combine them: mask & ow.ops.sequence_mask(lengths, keys)[:, None, None]"
        )
    variable = find_input("attention", "lengths", lengths, "int64")
    seen: ow.Variable = ow.ops.sequence_mask(variable, keys)
    return seen
