"""cond: computes one of two branches, depending on a condition at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import checks
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import begin
from opwright_nn.precision import cast_to, find_policy

Result = ow.Variable | list[ow.Variable] | tuple[ow.Variable, ...]


@ow.transaction()
def cond(
    condition: Input,
    true_fn: Callable[[], Result],
    false_fn: Callable[[], Result],
    name: str | None = None,
) -> ow.Variable | tuple[ow.Variable, ...]:
    """Append both branches as blocks; a run computes only the branch that `condition` selects.

    Parameters
    ----------
    condition : Variable or str, bool with one element
        True computes the first branch.
    true_fn, false_fn : callable
        Called without arguments; each appends operators and returns a variable or a list. Both must
        return the same number of variables, with the same shapes and dtypes.
    name : str, optional
        The prefix of the layer's variable names.

    Returns
    -------
    Variable or tuple of Variable
        The results, in the form in which the branches return them.
    """
    chosen = find_input("cond", "condition", condition, "bool")
    layer = begin("cond", name)
    true_block, true_outputs, single = _trace("true_fn", true_fn)
    false_block, false_outputs, also_single = _trace("false_fn", false_fn)
    if len(true_outputs) != len(false_outputs) or single != also_single:
        raise AttributeValueError(
            "cond: both branches must return the same number of variables, got "
            f"{len(true_outputs)} from true_fn and {len(false_outputs)} from false_fn; return a "
            "variable from both, or lists of one length"
        )
    if find_policy() is not None:
        true_outputs, false_outputs = _match(true_block, true_outputs, false_block, false_outputs)
    names = [layer.out if single else f"{layer.out}_{i}" for i in range(len(true_outputs))]
    layer.block.append_op(
        "cond",
        inputs={"condition": chosen},
        outputs={"out": names},
        attrs={
            "true_block": true_block,
            "true_outputs": true_outputs,
            "false_block": false_block,
            "false_outputs": false_outputs,
        },
    )
    variables = tuple(layer.block.var(name) for name in names)
    return variables[0] if single else variables


def _trace(which: str, function: Callable[[], Result]) -> tuple[ow.Block, list[str], bool]:
    checks.check_callable("cond", which, function)
    program = ow.default_main_program()
    block = program.create_block()
    result = function()
    program.rollback()
    single = isinstance(result, ow.Variable)
    outputs: object = [result] if single else result
    if not isinstance(outputs, list | tuple) or not outputs:
        _raise_result(which, result)
    if not all(isinstance(item, ow.Variable) for item in outputs):
        _raise_result(which, result)
    return block, [item.name for item in outputs], single


def _match(
    true_block: ow.Block, true_names: list[str], false_block: ow.Block, false_names: list[str]
) -> tuple[list[str], list[str]]:
    """Return the outputs of both branches, in float32 if mixed precision made them differ."""
    true_outputs, false_outputs = [], []
    for x, y in zip(map(true_block.var, true_names), map(false_block.var, false_names)):
        differs = x.dtype != y.dtype and "float" in x.dtype and "float" in y.dtype
        true_outputs.append((cast_to(x, "float32") if differs else x).name)
        false_outputs.append((cast_to(y, "float32") if differs else y).name)
    return true_outputs, false_outputs


def _raise_result(which: str, result: object) -> NoReturn:
    raise AttributeTypeError(
        f"cond: {which} must return a variable or a list of variables, got {result!r}; end it "
        "with `return`"
    )
