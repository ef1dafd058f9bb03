"""`grad` and `value_and_grad`: gradients of Python functions that call operators.

The function is called once for each combination of dtypes and shapes, with variables: it appends
operators to a program of its own, which is differentiated and compiled. Later calls run its plan.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from opwright.backward import append_backward
from opwright.describe.dtypes import dtype_from_numpy, is_float
from opwright.device.incoming import is_array, read_host
from opwright.device.outgoing import from_numpy_like
from opwright.errors import GradientError
from opwright.plugins.context import current_context
from opwright.program import Block, Program, Variable, program_guard
from opwright.run.network import Network

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_TRACES: Final = 64
"""Compiled programs that one function keeps; the oldest goes first."""

Argnums = int | Sequence[int]


class _Trace(NamedTuple):
    """A compiled program of value and gradients, and its feeds."""

    call: Callable[..., list[Any]]
    feeds: list[str]


def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes ``f(*args)`` and its gradient at once.

    As `grad`, but what it returns is called with arrays and gives ``(value, gradient)``.

    Parameters
    ----------
    f : callable
        As of `grad`.
    argnums : int or sequence of int
        As of `grad`.

    Returns
    -------
    callable
        Called with variables, it appends both to their block.

    Examples
    --------
    >>> value_and_grad(lambda x: ow.ops.sum(ow.ops.square(x)))(numpy.ones(3))  # doctest: +SKIP
    (array(3.), array([2., 2., 2.]))
    """
    return _Differentiated(f, argnums)


def grad(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the gradient of a function that calls operators.

    ``grad(f)(*args)`` is the derivative of ``f(*args)`` by ``args[argnums]``. `f` is called with
    variables in the place of arrays, once for each combination of their dtypes and shapes and of
    its other arguments; what it computes with ``opwright.ops`` is differentiated and compiled. So
    it cannot look at values, and what it does besides operators happens in the first call alone.

    Parameters
    ----------
    f : callable
        From arrays to a float scalar (shape ``()`` or one element), by calls of ``opwright.ops``.
        Arguments that are no arrays, such as numbers and strings, reach it as they are; they must
        be hashable.
    argnums : int or sequence of int
        Which positional arguments to differentiate by: float arrays of any shape.

    Returns
    -------
    callable
        Its result has dtype, shape and library of the argument, a tuple of them for several
        `argnums`. Called with variables, it appends the gradient to their block, so that ``grad``
        of it is the second derivative.

    Raises
    ------
    GradientError
        Where `f` returns no scalar, where an argument of `argnums` is no float array, and as
        `append_backward` does. All are raised by the call.

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
    """A function that gives value and gradient of another, with the programs that it has made."""

    def __init__(self, f: Callable[..., Any], argnums: Argnums) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._is_one = isinstance(argnums, int)
        self._argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._traces: OrderedDict[Any, _Trace] = OrderedDict()

    def __call__(self, *args: Any) -> Any:
        """Return value and gradient: arrays for arrays, variables for variables."""
        for number in self._argnums:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"grad: argnums must name positional arguments, got {number} for {len(args)}"
                )
        if any(isinstance(arg, Variable) for arg in args):
            return self._append(args)
        return self._run(args)

    def _append(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Append value and gradient to the block of the variables."""
        by = [args[number] for number in self._argnums]
        for number, variable in zip(self._argnums, by, strict=True):
            if not isinstance(variable, Variable) or not is_float(variable.dtype):
                raise GradientError(
                    f"grad: argument {number} must be a float array, got {variable!r}; leave it "
                    "out of argnums, or cast it"
                )
        value = self._f(*args)
        if not isinstance(value, Variable) or not _is_scalar(value):
            raise GradientError(
                f"grad: the function must return one scalar, got {value!r}; take its sum or mean"
            )
        pairs = append_backward(value, parameters=list(dict.fromkeys(v.name for v in by)))
        found = {variable.name: gradient for variable, gradient in pairs}
        gradients = tuple(found[variable.name] for variable in by)
        return value, gradients[0] if self._is_one else gradients

    def _run(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """Compute value and gradient of arrays, tracing the function where none is kept."""
        arrays = {
            i: read_host(arg, f"grad: argument {i}")
            for i, arg in enumerate(args)
            if is_array(arg) or isinstance(arg, np.generic) or self._is_asked(i, len(args))
        }
        trace = self._find_trace(args, arrays)
        value, *gradients = trace.call(**dict(zip(trace.feeds, arrays.values(), strict=True)))
        like = next((a for a in args if is_array(a) and not isinstance(a, np.ndarray)), None)
        given = tuple(from_numpy_like(gradient, like) for gradient in gradients)
        return from_numpy_like(value, like), given[0] if self._is_one else given

    def _find_trace(self, args: Sequence[Any], arrays: dict[int, NDArray[Any]]) -> _Trace:
        metas = tuple((i, array.dtype, array.shape) for i, array in arrays.items())
        # Of equal numbers of two types each is a value of its own to the function: 1, 1.0, True.
        rest = tuple((i, type(arg), arg) for i, arg in enumerate(args) if i not in arrays)
        key = (current_context(), metas, rest)
        try:
            trace = self._traces.get(key)
        except TypeError as error:
            raise GradientError(
                f"grad: an argument that is no array must be hashable, got {error}; pass an array, "
                "a number, a string or a tuple of them"
            ) from error
        if trace is None:
            trace = self._trace(args, arrays)
            self._traces[key] = trace
            if len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
        return trace

    def _is_asked(self, place: int, count: int) -> bool:
        return any(number % count == place for number in self._argnums)

    def _trace(self, args: Sequence[Any], arrays: dict[int, NDArray[Any]]) -> _Trace:
        program = Program()
        block = program.global_block()
        given = list(args)
        for i, array in arrays.items():
            given[i] = _make_feed(block, i, array)
        with program_guard(program, Program()):
            value, gradients = self._append(given)
        fetch = [value, gradients] if self._is_one else [value, *gradients]
        feeds = [given[i].name for i in arrays]
        return _Trace(Network(block).compile(feeds, fetch), feeds)


def _make_feed(block: Block, place: int, array: NDArray[Any]) -> Variable:
    dtype = dtype_from_numpy(array.dtype)
    return block.create_var(f"argument_{place}", array.shape, dtype, is_data=True)


def _is_scalar(value: Variable) -> bool:
    is_one = value.shape is not None and all(dim == 1 for dim in value.shape)
    return is_one and is_float(value.dtype)
