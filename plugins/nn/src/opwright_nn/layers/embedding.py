"""embedding: looks up rows of a trained table."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_nn import checks, operators
from opwright_nn.initializer import Normal
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin
from opwright_nn.parameters.param_attr import ParamLike, check_param_attr
from opwright_nn.parameters.parameter import make_parameter


@ow.transaction()
def embedding(
    input: Input,
    size: Iterable[int],
    *,
    padding_index: int = -1,
    sparse: bool = False,
    dtype: object = "float32",
    name: str | None = None,
    param_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append the rows of a table at the indices `input`.

    Parameters
    ----------
    input : Variable or str, int32 or int64
        Each in [0, rows).
    size : (rows, columns)
        The shape of the table.
    padding_index : int
        The index of a row that reads as 0 and is not trained; -1 for no such row.
    sparse : bool
        Whether optimizers update only the rows that `input` names: the cost of a step depends on
        the number of lookups, not on the size of the table. SGD, Momentum, Adagrad and Adam support
        it, without a clip or regularizer; rows that are not looked up also keep their states.
    dtype : str or NumPy dtype
        The float dtype of the table.
    name : str, optional
        The prefix of the layer's variable names.
    param_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``; by default normal with standard deviation ``columns ** -0.5``, so
        that rows have a norm of about 1.

    Returns
    -------
    Variable
        The shape of `input`, followed by `columns`.
    """
    who = "embedding"
    index = find_input(who, "input", input, "int64")
    shape = checks.check_ints(who, "size", size)
    if len(shape) != 2 or min(shape) < 1:
        raise AttributeValueError(
            f"embedding: size must be [rows, columns], both at least 1, got {shape}; write "
            "size=[1000, 64]"
        )
    padding = checks.check_int(
        who, "padding_index", padding_index, at_least=-1, at_most=shape[0] - 1
    )
    is_sparse = checks.check_bool(who, "sparse", sparse)
    attr = check_param_attr(who, "param_attr", param_attr)
    element = checks.check_dtype(who, dtype)
    layer = begin(who, name)
    weight = make_parameter(
        who,
        f"{layer.name}_w_param",
        attr,
        lambda: (shape[0], shape[1]),
        default=Normal(0.0, shape[1] ** -0.5),
        dtype=element,
    )
    inputs = {"weight": weight, "index": index}
    attrs = {"padding_index": padding, "sparse": is_sparse}
    return operators.append(layer.block, who, inputs, attrs, name=layer.out)
