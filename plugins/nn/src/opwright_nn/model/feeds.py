"""Finds the variables of a Model that users may fill, and converts their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import FeedError
from opwright.plugin import hint
from opwright_nn import checks
from opwright_nn.model.inference import input_names


def find_fillable(
    who: str, program: ow.Program, name: object, *, persistables: bool = True
) -> ow.Variable:
    """Return the input with that name, or a persistable variable if `persistables` is true.

    Raises
    ------
    FeedError
        There is no such variable; the message suggests the nearest name.
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
        f"{who}: the name must be the name of an input that a layer reads, "
        f"got {name!r}{hint(str(name), inputs, 'inputs')}"
    )


def check_inputs(
    who: str, program: ow.Program, feeds: Mapping[str, Any], cast: bool
) -> dict[str, Any]:
    """Convert feeds to their inputs' dtypes; raises as `find_fillable` and `convert_feed` do."""
    arrays = {}
    for name, data in checks.check_mapping(who, "feeds", feeds, "{'img': images}").items():
        variable = find_fillable(who, program, name, persistables=False)
        arrays[name] = convert_feed(who, data, variable, cast)
    return arrays


def convert_named(program: ow.Program, cast: bool, who: str, name: str, value: Any) -> Any:
    """Convert the value of a named variable; values for unknown names are refused elsewhere."""
    variable = program.global_block().vars.get(name)
    return value if variable is None else convert_feed(who, value, variable, cast)


def convert_feed(who: str, value: Any, variable: ow.Variable, cast: bool) -> Any:
    """Convert a value to the dtype of a variable.

    An array is converted if the dtype of the variable can represent every value of the array's
    dtype, as in NumPy's safe casts: int32 to int64, uint8 to float32. With `cast` any numbers are
    converted: to floats by rounding, to integers only if this does not change the values. Python
    numbers and lists are converted if the dtype can represent them.

    Raises
    ------
    FeedError
        The dtype does not fit, or, with `cast`, cannot represent a number.
    """
    array = value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        array = _convert(who, value, variable, cast)
    try:
        return ow.check_feed(array, variable, who)
    except FeedError as error:
        advice = (
            "" if cast or array is not value else ", or create the model by nn.Model(cast=True)"
        )
        raise FeedError(f"{error}{advice}") from error.__cause__


def _convert(
    who: str, array: npt.NDArray[Any], variable: ow.Variable, cast: bool
) -> npt.NDArray[Any]:
    try:
        dtype = np.dtype(variable.dtype)
    except TypeError:  # a dtype that NumPy lacks
        return array
    if array.dtype == dtype:
        return array
    if np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if not cast:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(dtype)
    if dtype.kind == "f":
        kept = np.isfinite(converted) == np.isfinite(array)
    else:
        kept = (converted == array) & (converted.astype(array.dtype) == array)
    if not kept.all():
        rule = "in the range of" if dtype.kind == "f" else "whole, in that of"
        got = array[~kept].flat[0].item()
        raise FeedError(
            f"{who}: {variable.name!r} must be numbers {rule} {dtype}, got {got}; scale or "
            "round them"
        )
    return converted
