"""Inputs: `data` declares one; in a `Model`, layers accept names of variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import opwright as ow
from opwright.errors import AttributeTypeError, ProgramError, ShapeError
from opwright.op import format_shape
from opwright_nn import checks
from opwright_nn.parameters.deferred import find_deferred

Input: TypeAlias = ow.Variable | str
"""A variable, or, in a `Model`, its name; a new name becomes an input, which is fed."""


@ow.transaction()
def data(
    name: str, shape: Iterable[int | None] | None = None, dtype: object = "float32"
) -> ow.Variable:
    """Return an input of the default main program.

    Parameters
    ----------
    name : str
        The keyword by which compiled networks get the array.
    shape : iterable of int or None, optional
        None for each dimension that may change from run to run, such as the batch. The shape may be
        omitted only in a `Model`, which takes it from the first batch.
    dtype : str or NumPy dtype
        The dtype of the arrays.

    Returns
    -------
    Variable
        A variable of the global block.
    """
    checks.check_str("data", "name", name)
    dims = None if shape is None else checks.check_shape("data", shape)
    block = ow.default_main_program().global_block()
    old = block.find_var(name)
    if old is not None and not old.is_data:
        raise ProgramError(
            f"data: the name must not belong to a parameter or a result, got {old!r}; choose "
            "another name"
        )
    if old is not None and old.shape is None and dims is not None:
        raise ShapeError(
            f"data: {name!r} must be declared before a layer reads it, got shape "
            f"{format_shape(dims)} after its use; declare it first"
        )
    return block.create_var(name, dims, checks.check_dtype("data", dtype), is_data=True)


def find_input(who: str, argument: str, value: object, dtype: str = "float32") -> ow.Variable:
    """Return the variable given as a layer's argument, directly or by its name.

    Parameters
    ----------
    who, argument : str
        The layer and its argument, for messages.
    value : object
        A variable, or, while layers append to a `Model`, its name.
    dtype : str
        The dtype of the input that is declared if the name is new.

    Raises
    ------
    AttributeTypeError, AttributeValueError
        It is neither, or an empty name.
    """
    if isinstance(value, ow.Variable) or find_deferred() is None:
        return checks.check_variable(who, argument, value)
    if isinstance(value, str):
        checks.check_str(who, argument, value)
        variable = ow.default_main_program().current_block().find_var(value)
        return data(value, None, dtype) if variable is None else variable
    raise AttributeTypeError(
        f"{who}: {argument} must be a variable or a variable name, got {value!r} "
        f'({type(value).__name__}); write {argument}="img" or the result of a layer'
    )
