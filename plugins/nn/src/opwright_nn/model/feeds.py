"""Finds the variables of a Model that users may fill, by name."""

from __future__ import annotations

import opwright as ow
from opwright.errors import FeedError
from opwright.plugin import hint
from opwright_nn.model.inference import input_names


def find_fillable(
    who: str, program: ow.Program, name: object, *, persistables: bool = True
) -> ow.Variable:
    """Return the input of that name, or the persistable variable if `persistables` is true.

    Raises
    ------
    FeedError
        There is none; the message has the nearest name.
    """
    inputs = input_names(program)
    variable = program.global_block().vars.get(name) if isinstance(name, str) else None
    if variable is not None and (name in inputs or (persistables and variable.persistable)):
        return variable
    if variable is not None and not (variable.is_data or variable.persistable):
        raise FeedError(
            f"{who}: only inputs and parameters can be given values, got {name!r}, which the "
            f"network computes{hint('', inputs, 'inputs')}"
        )
    raise FeedError(
        f"{who}: the name must be one of an input that a layer reads, "
        f"got {name!r}{hint(str(name), inputs, 'inputs')}"
    )
