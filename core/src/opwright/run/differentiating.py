"""`grad` and `value_and_grad` compute gradients of Python functions that call operators.

The function is called with variables, once for each combination of dtypes and shapes, and so
appends operators to a new program, which is differentiated and compiled. Later calls run its plan.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from opwright.backward.append import append_gradients
from opwright.context.context import current_context
from opwright.describe.dtypes import Array, dtype_from_numpy, is_float
from opwright.device.intake import is_array, read_host
from opwright.device.outgoing import from_numpy_like
from opwright.errors import GradientError
from opwright.messages.arguments import suggest_arguments
from opwright.program import Program, Variable, program_guard
from opwright.program.calls import append_constant
from opwright.run.network import Network

MAX_TRACES: Final = 64
"""Maximum number of compiled programs that a function keeps; the oldest is dropped first."""

Argnums = int | Sequence[int]


_Trace = tuple[Callable[..., list[Any]], list[str]]
"""A compiled program, and the names of its feeds."""


@suggest_arguments
def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes ``f(*args)`` together with its gradient.

    Parameters and errors are the same as for `grad`.

    Returns
    -------
    callable
        For arrays, it returns ``(value, gradient)``; for variables, it appends both to the block.

    Examples
    --------
    >>> value_and_grad(lambda x: ow.ops.sum(ow.ops.square(x)))(numpy.ones(3))  # doctest: +SKIP
    (array(3.), array([2., 2., 2.]))
    """
    return _Differentiated(f, argnums)


@suggest_arguments
def grad(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the gradient of a function that calls operators.

    ``grad(f)(*args)`` is the derivative of ``f(*args)`` with respect to ``args[argnums]``. `f` is
    called with variables instead of arrays, once for each combination of their dtypes and shapes
    and of its other arguments; the operators of ``opwright.ops`` that it calls are differentiated
    and compiled. So `f` cannot use values, and its side effects occur only in the first call.

    Parameters
    ----------
    f : callable
        A function from arrays to a float scalar (shape ``()`` or one element) that calls
        ``opwright.ops``. Other arguments, such as numbers and strings, are passed unchanged; they
        must be hashable.
    argnums : int or sequence of int
        The positional arguments, float arrays of any shape, to differentiate with respect to.

    Returns
    -------
    callable
        Its result has the dtype, shape and array library of the argument; for several `argnums` it
        is a tuple. Called with variables, it appends the gradient to their block, so applying
        ``grad`` again gives the second derivative.

    Raises
    ------
    GradientError
        Raised by the call if `f` does not return a scalar, if an argument in `argnums` is not a
        float array, and whenever `append_backward` raises it.

    Examples
    --------
    >>> grad(lambda x: ow.ops.sum(ow.ops.square(x)))(numpy.ones(3))  # doctest: +SKIP
    array([2., 2., 2.])
    """
    both = _Differentiated(f, argnums)

    @functools.wraps(f)
    def gradient(*args: Any) -> Any:
        return both(*args)[1]

    return gradient


class _Differentiated:
    """A function that computes the value and gradient of a function, and its compiled programs."""

    def __init__(self, f: Callable[..., Any], argnums: Argnums) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._is_one = isinstance(argnums, int)
        self._argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._traces: OrderedDict[Any, _Trace] = OrderedDict()

    def __call__(self, *args: Any) -> Any:
        for number in self._argnums:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"grad: argnums must name positional arguments, got {number} for {len(args)}"
                )
        if any(isinstance(arg, Variable) for arg in args):
            return self._append(args)
        return self._run(args)

    def _append(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Append operators that compute value and gradient to the block of the variables."""
        by = [args[number] for number in self._argnums]
        for number, variable in zip(self._argnums, by, strict=True):
            if not isinstance(variable, Variable) or not is_float(variable.dtype):
                raise GradientError(
                    f"grad: argument {number} must be a float array, got {variable!r}; omit it "
                    "from argnums, or cast it"
                )
        value = self._f(*args)
        if isinstance(value, float):  # it does not depend on an argument
            block = by[0].block.program.current_block()
            value = append_constant(
                block, value, by[0].dtype, "grad", f"argument {self._argnums[0]}"
            )
        if not isinstance(value, Variable) or not _is_scalar(value):
            raise GradientError(
                f"grad: the function must return one scalar, got {value!r}; take its sum or mean"
            )
        by_name = append_gradients(value, by)
        gradients = tuple(by_name[variable.name] for variable in by)
        return value, gradients[0] if self._is_one else gradients

    def _run(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Compute the value and gradient for arrays; trace the function first if needed."""
        positions = {number % len(args) for number in self._argnums}
        arrays = {
            i: read_host(arg, f"grad: argument {i}")
            for i, arg in enumerate(args)
            if is_array(arg) or isinstance(arg, np.generic) or i in positions
        }
        call, feeds = self._find_trace(args, arrays)
        value, *gradients = call(**dict(zip(feeds, arrays.values(), strict=True)))
        like = next((a for a in args if is_array(a) and not isinstance(a, np.ndarray)), None)
        results = tuple(from_numpy_like(gradient, like) for gradient in gradients)
        return from_numpy_like(value, like), results[0] if self._is_one else results

    def _find_trace(self, args: Sequence[Any], arrays: dict[int, Array]) -> _Trace:
        metas = tuple((i, array.dtype, array.shape) for i, array in arrays.items())
        # Equal numbers of different types, such as 1, 1.0 and True, are different arguments.
        rest = tuple((i, type(arg), arg) for i, arg in enumerate(args) if i not in arrays)
        key = (current_context(), metas, rest)
        try:
            trace = self._traces.get(key)
        except TypeError as error:
            raise GradientError(
                f"grad: an argument that is not an array must be hashable, got {error}; pass an "
                "array, a number, a string or a tuple of them"
            ) from error
        if trace is None:
            trace = self._trace(args, arrays)
            self._traces[key] = trace
            if len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
        return trace

    def _trace(self, args: Sequence[Any], arrays: dict[int, Array]) -> _Trace:
        program = Program()
        block = program.global_block()
        given = list(args)
        for i, array in arrays.items():
            dtype = dtype_from_numpy(array.dtype)
            given[i] = block.create_var(f"argument_{i}", array.shape, dtype, is_data=True)
        with program_guard(program, Program()):
            value, gradients = self._append(given)
        fetch = [value, gradients] if self._is_one else [value, *gradients]
        feeds = [given[i].name for i in arrays]
        return Network(block).compile(feeds, fetch), feeds


def _is_scalar(value: Variable) -> bool:
    is_one = value.shape is not None and all(dim == 1 for dim in value.shape)
    return is_one and is_float(value.dtype)
