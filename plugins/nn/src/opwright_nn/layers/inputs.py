"""Finds the variables that layers read: in a `Model`, a name stands for a variable."""

from __future__ import annotations

from typing import TypeAlias

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn import checks
from opwright_nn.layers.data import data
from opwright_nn.parameters.deferred import find_deferred

Input: TypeAlias = ow.Variable | str
"""A variable, or in a `Model` the name of one; a new name becomes an input, which is fed."""


def find_input(who: str, argument: str, value: object, dtype: str = "float32") -> ow.Variable:
    """Return the variable that an argument of a layer stands for.

    Parameters
    ----------
    who, argument : str
        The layer and its argument, for messages.
    value : object
        A variable, or while layers append to a `Model` the name of one.
    dtype : str
        Of the input that is declared where the name is new.

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
        f"{who}: {argument} must be a variable or the name of one, got {value!r} "
        f'({type(value).__name__}); write {argument}="img" or what a layer returned'
    )
