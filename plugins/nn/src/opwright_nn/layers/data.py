"""data: a variable that is fed."""

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
    """Return a variable of the default main program whose value is fed.

    Parameters
    ----------
    name : str
        The keyword under which a compiled network takes the array.
    shape : iterable of int or None, optional
        None for each dim that may change from run to run, such as the batch; no shape at all only
        where a `Model` waits for the first batch.
    dtype : str or NumPy dtype
        Of the arrays that are fed.

    Returns
    -------
    Variable
        Of the global block.
    """
    checks.check_str("data", "name", name)
    wanted = None if shape is None else checks.check_shape("data", shape)
    block = ow.default_main_program().global_block()
    old = block.find_var(name)
    if old is not None and not old.is_data:
        raise ProgramError(
            f"data: the name must not be taken by what is computed or kept, got {old!r}; take "
            "another name"
        )
    if old is not None and old.shape is None and wanted is not None:
        raise ShapeError(
            f"data: {name!r} must be declared before a layer reads it, got shape "
            f"{format_shape(wanted)} behind its use; declare it first"
        )
    return block.create_var(name, wanted, checks.check_dtype("data", dtype), is_data=True)
