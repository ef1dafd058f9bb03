"""cond: one of two blocks, chosen while the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import checks
from opwright_nn.layers.layer import begin

Result = ow.Variable | list[ow.Variable] | tuple[ow.Variable, ...]


@ow.transaction()
def cond(
    condition: ow.Variable,
    true_fn: Callable[[], Result],
    false_fn: Callable[[], Result],
    name: str | None = None,
) -> ow.Variable | tuple[ow.Variable, ...]:
    """Append both branches as blocks; a run computes the one that `condition` chooses.

    Parameters
    ----------
    condition : Variable, bool with one element
        True runs the first branch.
    true_fn, false_fn : callable
        Without arguments; each appends what it likes and returns a variable or a list of them,
        both as many, with the same shapes and dtypes.
    name : str, optional
        What the names of the layer's variables begin with.

    Returns
    -------
    Variable or tuple of Variable
        As the branches return one or a list.
    """
    checks.check_variable("cond", "condition", condition)
    layer = begin("cond", name)
    true_block, kept, single = _trace("true_fn", true_fn)
    false_block, other, also_single = _trace("false_fn", false_fn)
    if len(kept) != len(other) or single != also_single:
        raise AttributeValueError(
            "cond: both branches must return as many variables, got "
            f"{len(kept)} of true_fn and {len(other)} of false_fn; return the same from both"
        )
    names = [layer.out if single else f"{layer.out}_{i}" for i in range(len(kept))]
    layer.block.append_op(
        "cond",
        inputs={"condition": condition},
        outputs={"out": names},
        attrs={
            "true_block": true_block,
            "true_outputs": kept,
            "false_block": false_block,
            "false_outputs": other,
        },
    )
    found = tuple(layer.block.var(name) for name in names)
    return found[0] if single else found


def _trace(which: str, function: Callable[[], Result]) -> tuple[ow.Block, list[str], bool]:
    checks.check_callable("cond", which, function)
    program = ow.default_main_program()
    block = program.create_block()
    result = function()
    program.rollback()
    single = isinstance(result, ow.Variable)
    found: object = [result] if single else result
    if not isinstance(found, list | tuple) or not found:
        _raise_result(which, result)
    if not all(isinstance(item, ow.Variable) for item in found):
        _raise_result(which, result)
    return block, [item.name for item in found], single


def _raise_result(which: str, result: object) -> NoReturn:
    raise AttributeTypeError(
        f"cond: {which} must return a variable or a list of variables, got {result!r}; end it "
        "with `return`"
    )
