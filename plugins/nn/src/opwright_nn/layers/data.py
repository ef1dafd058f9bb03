"""data: a variable that is fed."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
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
    return block.create_var(name, wanted, checks.check_dtype("data", dtype), is_data=True)
