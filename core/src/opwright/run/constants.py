"""Numbers and arrays beside Variables: each becomes a constant of the program.

A number takes on the dtype of the Variable beside it, an array keeps its own. What is large belongs
into a parameter or a feed: a program is a description, and no place for data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright.describe.current import current_operators
from opwright.describe.dtypes import dtype_from_numpy, is_float
from opwright.device.incoming import is_array, read_host
from opwright.errors import DtypeError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from opwright.program import Block, Variable

FILL: Final = "fill"
CONSTANT: Final = "constant"
"""The operators that constants are made of, looked up when one is made."""

MAX_ELEMENTS: Final = 4096
"""The largest constant that is not of one value throughout."""

_EXACT: Final = 2**53
"""Up to here a double, which the attributes are, tells any two whole numbers apart."""


def append_constant(block: Block, value: Any, dtype: str | None, who: str, beside: str) -> Variable:
    """Append what makes a number, a list or an array; return its Variable, without a gradient.

    Parameters
    ----------
    block : Block
        Where the constant is made.
    value : array_like
        A Python number, a list of them, or an array.
    dtype : str, optional
        What numbers and lists take on; by default the dtype that NumPy gives them.
    who, beside : str
        Operator and slot, and the slot whose dtype this is, for messages.

    Raises
    ------
    DtypeError
        For a number that the dtype does not hold, and whole numbers beyond 2**53.
    ShapeError
        For an array that is too large, with the way out.
    """
    if isinstance(value, float):  # of NumPy too: float64 is a Python float and as weak as one
        value = float(value)
    array = read_host(value, who, None if is_array(value) else dtype, beside)
    numbers = np.asarray(array, np.float64)
    _check_exact(array, who)
    shape = list(array.shape)
    attrs: dict[str, Any] = {"shape": shape, "dtype": dtype_from_numpy(array.dtype)}
    if _is_uniform(numbers):
        attrs["value"] = float(numbers.flat[0]) if numbers.size else 0.0
        op_type = FILL
    elif array.size <= MAX_ELEMENTS:
        attrs["values"] = numbers.ravel().tolist()
        op_type = CONSTANT
    else:
        raise ShapeError(
            f"{who}: an array beside a Variable becomes a constant of the program and must have at "
            f"most {MAX_ELEMENTS} elements, got {array.size} in shape {shape}; make it a parameter "
            "(block.create_parameter) or feed it (block.create_var and compile(feed=...))"
        )
    current_operators().get(op_type)  # where there is none, the error says what to install
    op = block.append_op(op_type, attrs=attrs)
    variable = block.var(op.output("out")[0])
    variable.stop_gradient = True
    return variable


def _is_uniform(numbers: NDArray[Any]) -> bool:
    """Whether all elements have the same bits: -0.0 is not 0.0, and a NaN is like itself."""
    bits = numbers.ravel().view(np.int64)
    return numbers.size == 0 or bool((bits == bits[0]).all())


def _check_exact(array: NDArray[Any], who: str) -> None:
    if is_float(dtype_from_numpy(array.dtype)) or array.dtype == bool or not array.size:
        return
    largest = max(int(array.max()), -int(array.min()))
    if largest > _EXACT:
        raise DtypeError(
            f"{who}: whole numbers of a constant must be in [-2**53, 2**53], got {largest}; make "
            "it a parameter, or feed it"
        )
