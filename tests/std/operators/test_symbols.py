"""Symbols and indexing on Variables match NumPy and have gradients; errors suggest remedies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import DtypeError, OpwrightError, ProgramError, ShapeError, SlotError
from opwright.program.arithmetic import SYMBOLS

RNG = np.random.default_rng(7)
X = RNG.uniform(0.5, 2.0, size=(3, 4))
Y = RNG.uniform(0.5, 2.0, size=(3, 4))

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "** number": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNARY: dict[str, Callable[[Any], Any]] = {"-x": operator.neg, "abs": abs, "+x": operator.pos}
LOGICAL: dict[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
SMOOTH = ["+", "-", "*", "/", "**"]


def build(function: Callable[..., Any], *arrays: Any) -> tuple[Any, dict[str, Any], Any]:
    """Return the result for Variables with an unknown batch size, the feeds, and the block."""
    block = ow.Program().global_block()
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    variables = [
        block.create_var(name, [-1, *array.shape[1:]] if array.ndim else [], array.dtype)
        for name, array in feeds.items()
    ]
    for variable in variables:
        variable.is_data = True
    return function(*variables), feeds, block


def compute(function: Callable[..., Any], *arrays: Any) -> Any:
    out, feeds, block = build(function, *arrays)
    step = ow.Network(block).compile(feed=list(feeds), fetch=[out], scope=ow.Scope())
    (value,) = step(**feeds)
    assert len(out.shape) == value.ndim
    return value


def check(function: Callable[..., Any], *arrays: Any) -> None:
    wanted = function(*arrays)
    value = compute(function, *arrays)
    assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_every_symbol_is_tested():
    assert set(SYMBOLS) == {*BINARY, *UNARY, *LOGICAL, "@", "~"} - {"+x"}


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("other", [Y, Y[0], 2, 0.5, np.float64(1.5)], ids=repr)
def test_a_symbol_computes_as_in_numpy_with_a_variable_on_either_side(symbol, other):
    function = BINARY[symbol]
    check(lambda x: function(x, other), X)
    check(lambda x: function(other, x), X)
    check(function, X, Y)


@pytest.mark.parametrize("function", UNARY.values(), ids=UNARY)
def test_a_unary_symbol_computes_as_in_numpy(function):
    check(function, X - 1.0)


@pytest.mark.parametrize("function", LOGICAL.values(), ids=LOGICAL)
def test_bools_combine_as_in_numpy(function):
    check(lambda x, y: function(x > 1, ~(y > 1)), X, Y)
    check(lambda x: function(x > 1, True), X)


def test_matrix_products_accept_arrays_on_either_side():
    check(lambda x: x @ Y.T, X)
    check(lambda x: Y.T @ x, X)


@pytest.mark.parametrize("symbol", SMOOTH)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_gradient_flows_through_a_symbol(symbol, side):
    function = BINARY[symbol]
    numbers = {"left": lambda x: function(x, 2.5), "right": lambda x: function(2.5, x)}

    def loss(x: Any) -> Any:
        return ow.ops.sum(numbers[side](x) * Y)

    def reference(x: Any) -> float:
        return float((numbers[side](x) * Y).sum())

    check_gradient(loss, reference)


INDICES = {
    "last column": np.s_[:, -1],
    "row": np.s_[1],
    "element": np.s_[-1, -4],
    "tail": np.s_[:, 1:],
    "head": np.s_[:-1],
    "steps": np.s_[::2, 1::2],
    "reversed": np.s_[::-1],
    "backwards by two": np.s_[:, ::-2],
    "backwards between": np.s_[:, 3:0:-1],
    "from the back": np.s_[-2:, -3:-1],
    "beyond the ends": np.s_[-10:10, 2:100],
    "nothing": np.s_[2:1],
    "new last axis": np.s_[..., None],
    "new axes": np.s_[None, :, None, 1:],
    "row as an axis": np.s_[None, 0],
    "ellipsis": np.s_[..., 0],
    "ellipsis between": np.s_[0, ..., 1],
    "everything": np.s_[...],
    "rows by list": np.s_[[2, 0, 2]],
    "columns by array": np.s_[:, np.array([3, -1])],
    "table of rows": np.s_[np.array([[0, 1], [2, 0]])],
    "array beside an int": np.s_[1, np.array([0, 2])],
    "array, new axis": np.s_[np.array([0, 2]), None, 1:],
    "NumPy's number": np.s_[np.int64(1)],
}


@pytest.mark.parametrize("key", INDICES.values(), ids=INDICES)
def test_indexing_works_as_in_numpy_and_has_a_gradient(key):
    check(lambda x: x[key], X)
    weights = RNG.normal(size=X[key].shape)
    check_gradient(
        lambda x: ow.ops.sum(x[key] * weights), lambda x: float((x[key] * weights).sum())
    )


@pytest.mark.parametrize("index", [np.array([2, 0]), np.array([[1], [-1]]), np.array(1)], ids=str)
def test_an_integer_variable_can_be_an_index(index):
    check(lambda x, i: x[i] + 0, X, index)
    check(lambda x, i: x[:, i] + 0, X, index)


def check_gradient(loss: Callable[..., Any], reference: Callable[..., float]) -> None:
    """Compare the gradient of a program with central differences."""
    block = ow.Program().global_block()
    x = block.create_var("x", X.shape, "float64")
    x.is_data = True
    ((_, grad),) = ow.append_backward([loss(x)], parameters=[x])
    (value,) = ow.Network(block).compile(feed=["x"], fetch=[grad], scope=ow.Scope())(x=X)
    step = 1e-6
    differences = np.empty_like(X)
    for place in np.ndindex(X.shape):
        moved = np.zeros_like(X)
        moved[place] = step
        differences[place] = (reference(X + moved) - reference(X - moved)) / (2 * step)
    np.testing.assert_allclose(value, differences, rtol=1e-6, atol=1e-8)


def test_a_number_takes_the_dtype_of_the_variable():
    block = ow.Program().global_block()
    for dtype in ("float16", "float32", "int8", "uint64"):
        x = block.create_var(f"x_{dtype}", [2], dtype)
        assert (x + 1).dtype == (2 * x).dtype == dtype
        assert ow.ops.where(x > 0, x, 0).dtype == dtype


def test_a_refused_symbol_leaves_the_program_unchanged():
    block = ow.Program().global_block()
    x = block.create_var("x", [3])
    with pytest.raises(ShapeError):
        x + np.zeros(4, np.float32)
    assert not block.ops


def variable(dtype: str = "float32", shape: Any = (3, 4)) -> Any:
    return ow.Program().global_block().create_var("x", shape, dtype)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda: variable("int64") + 0.5, DtypeError, "must be an integer to become int64"),
        (lambda: variable("uint8") + 300, DtypeError, r"must be in \[0, 255\] to become uint8"),
        (lambda: variable("uint8") - -1, DtypeError, r"must be in \[0, 255\] to become uint8"),
        (lambda: variable("int64") + 2**63, DtypeError, r"must be in \[-9223372036854775808, 92"),
        (lambda: variable() + 1e300, DtypeError, "must be numbers in the range of float32, got"),
        (lambda: variable() + np.zeros(4), DtypeError, "float32, got float64; cast one of them"),
        (lambda: variable() & True, DtypeError, "combines bools, got .* compare it first"),
        (lambda: ~variable(), DtypeError, "combines bools"),
        (
            lambda: variable() + np.arange(10_000, dtype="f"),
            ShapeError,
            "parameter .* or feed it .* takes it as an argument",
        ),
        (lambda: variable() + "a", TypeError, "unsupported operand"),
        (lambda: variable() == 1, ProgramError, "compared by opwright.ops.equal"),
        (lambda: np.zeros(3) != variable(), ProgramError, "compared by opwright.ops.equal"),
        (lambda: variable()[3], ShapeError, r"on axis 0 must be in \[-3, 3\), got 3"),
        (lambda: variable()[0, 0, 0], ShapeError, "at most 2 parts besides None"),
        (lambda: variable()[::0], ShapeError, "step of a slice must not be 0"),
        (lambda: variable()[variable() > 0], SlotError, "a mask .* opwright.ops.where"),
        (lambda: variable()[True], SlotError, "write None for a new axis"),
        (lambda: variable()[1.0], SlotError, "an index must hold ints"),
        (lambda: variable()[..., ...], SlotError, "write it once"),
        (lambda: variable()[[0], [1]], SlotError, "use opwright.ops.gather_nd"),
        (lambda: variable(shape=[2, 3, 4])[0, :, [1]], SlotError, "the int first"),
        (lambda: variable()[: variable("int64", [])], SlotError, "bounds of slices must be num"),
        (lambda: variable(shape=None)[..., 0], ShapeError, "known number of axes"),
        (lambda: operator.setitem(variable(), 0, 1.0), ProgramError, "slice_scatter"),
        (lambda: bool(variable()), ProgramError, "test for None .* opwright.ops.where"),
        (lambda: len(variable()), ProgramError, r"x.shape\[0\]"),
        (lambda: iter(variable()), ProgramError, "unstack"),
        (lambda: 1.0 in variable(), ProgramError, "equal and any"),
        (lambda: float(variable()), ProgramError, r"fetch it: .*fetch=\[variable\]"),
        (lambda: int(variable()), ProgramError, "fetch it"),
        (lambda: [1, 2][variable()], ProgramError, "opwright.ops.gather"),
        (lambda: np.asarray(variable()), ProgramError, "fetch it"),
    ],
)
def test_the_error_for_an_unsupported_use_of_a_variable_names_a_remedy(function, error, text):
    with pytest.raises(error, match=text):
        function()


def test_variables_are_compared_by_identity():
    x, y = variable(), variable()
    assert x == x
    assert x != y
    assert {x: 1, y: 2}[y] == 2
    assert y in [x, y]


def test_the_error_for_a_symbol_without_its_operator_names_the_package():
    with ow.context_guard(ow.Context()), pytest.raises(OpwrightError, match="install opwright-std"):
        variable() + 1


def test_the_error_for_a_method_name_of_arrays_suggests_the_operator():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", [2])
        with pytest.raises(AttributeError, match=r"got 'sum'; write opwright.ops.sum\(x\)$"):
            x.sum()
