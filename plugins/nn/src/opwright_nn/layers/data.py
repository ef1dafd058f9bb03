"""data: declares an input, a variable that each run is fed."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
from opwright.errors import ProgramError, ShapeError
from opwright.op import format_shape
from opwright_nn import checks


@ow.transaction()
def data(
    name: str, shape: Iterable[int | None] | None = None, dtype: object = "float32"
) -> ow.Variable:
    """Return an input of the default main program.

    Parameters
    ----------
    name : str
        The keyword argument of compiled networks for the array.
    shape : iterable of int or None, optional
        None for each dimension that may change from run to run, such as the batch. The shape may be
        omitted only in a `Model`, which takes it from the first batch.
    dtype : str or NumPy dtype
        Of the arrays.

    Returns
    -------
    Variable
        Of the global block.
    """
    checks.check_str("data", "name", name)
    dims = None if shape is None else checks.check_shape("data", shape)
    block = ow.default_main_program().global_block()
    old = block.find_var(name)
    if old is not None and not old.is_data:
        raise ProgramError(
            f"data: the name must not be that of a parameter or a result, got {old!r}; choose "
            "another name"
        )
    if old is not None and old.shape is None and dims is not None:
        raise ShapeError(
            f"data: {name!r} must be declared before a layer reads it, got shape "
            f"{format_shape(dims)} after its use; declare it first"
        )
    return block.create_var(name, dims, checks.check_dtype("data", dtype), is_data=True)
