"""What users fill into the inputs of a Model: names and dtypes, checked where they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

import opwright as ow
from opwright.device import find_place, hold, plain_array
from opwright.errors import DtypeError, FeedError
from opwright.op import canonical_dtype
from opwright.plugin import hint

from .inference import input_names


def find_fillable(
    who: str, program: ow.Program, name: object, *, persistables: bool = True
) -> ow.Variable:
    """Return the input of that name, or the persistable variable where these are meant too.

    Raises
    ------
    FeedError
        With the nearest name, or that the network itself computes the variable.
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


def check_feed(who: str, variable: ow.Variable, data: Any) -> Any:
    """Return `data` as it can be fed: arrays as they are, lists with the variable's dtype.

    Raises
    ------
    FeedError
        The dtype of an array is another one, or it does not hold a number of a list.
    """
    name, wanted = variable.name, variable.dtype
    label = f"{who}: {name!r}"
    is_array = isinstance(data, np.ndarray)
    is_lent = hasattr(data, "__dlpack__") or find_place(data, ow.current_context()) is not None
    if is_lent and not is_array:
        return data  # the network reads and checks it at the call
    try:
        array = plain_array(data, label) if is_array else hold(data, wanted, label, "the variable")
    except DtypeError as error:
        raise FeedError(str(error)) from error
    found = array.dtype
    if found.kind in "OSUmMVc" or canonical_dtype(found) != wanted:
        raise FeedError(
            f"{who}: {name!r} must have dtype {wanted}, got {found}; give {name}.astype('{wanted}')"
        )
    return array
