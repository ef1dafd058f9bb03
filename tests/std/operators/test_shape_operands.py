"""Variables as attribute values, so that one program supports all shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright import Network, Program, ops, program_guard
from opwright.errors import (
    AttributeValueError,
    DtypeError,
    KernelError,
    OpwrightError,
    ProgramError,
    ShapeError,
)
from opwright.program import Block, Variable

SHAPES = [(2, 3, 8), (4, 6, 8), (1, 1, 8), (0, 4, 8), (3, 0, 8)]


@pytest.fixture
def block() -> Iterator[Block]:
    program = Program()
    with program_guard(program):
        yield program.global_block()


@pytest.fixture
def x(block: Block) -> Variable:
    return block.create_var("x", [None, None, 8], is_data=True)


def numbers(shape: Sequence[int]) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def sizes(x: Variable) -> tuple[Variable, Variable]:
    lengths = ops.shape(x)
    return lengths[0], lengths[1]


def check(x: Variable, out: Variable, reference: Callable[[Any], Any]) -> None:
    f = Network(x.block).compile(feed=[x], fetch=[out])
    for shape in SHAPES:
        array = numbers(shape)
        np.testing.assert_array_equal(f(x=array)[0], reference(array))


OPERATORS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "reshape": (
        lambda x, n, t: ops.reshape(x, shape=[n, t, 2, -1]),
        lambda x: x.reshape(*x.shape[:2], 2, 4),
    ),
    "reshape to a product": (
        lambda x, n, t: ops.reshape(x, shape=[n * t, 8]),
        lambda x: x.reshape(-1, 8),
    ),
    "expand": (
        lambda x, n, t: ops.expand(ops.fill(shape=[1, 8], value=2.0), shape=[t, 8]),
        lambda x: np.full((x.shape[1], 8), 2.0, np.float32),
    ),
    "slice": (
        lambda x, n, t: ops.slice(x, axes=[1], starts=[t // 2], ends=[t], steps=[1]),
        lambda x: x[:, x.shape[1] // 2 :],
    ),
    "slice_scatter": (
        lambda x, n, t: ops.slice_scatter(
            x, ops.fill(shape=[n, t - t // 2, 8]), axes=[1], starts=[t // 2], ends=[t]
        ),
        lambda x: np.concatenate([x[:, : x.shape[1] // 2], 0 * x[:, x.shape[1] // 2 :]], 1),
    ),
    "pad": (
        lambda x, n, t: ops.pad(x, paddings=[0, n, 0, t, 0, 0]),
        lambda x: np.pad(x, [(0, x.shape[0]), (0, x.shape[1]), (0, 0)]),
    ),
    "tile": (
        lambda x, n, t: ops.tile(x, repeats=[1, n + 1, 1]),
        lambda x: np.tile(x, (1, x.shape[0] + 1, 1)),
    ),
    "arange": (
        lambda x, n, t: ops.arange(start=n, stop=n + t * 2, step=2),
        lambda x: np.arange(x.shape[0], x.shape[0] + 2 * x.shape[1], 2),
    ),
    "linspace": (
        lambda x, n, t: ops.linspace(start=0.0, stop=1.0, num=t),
        lambda x: np.linspace(0, 1, x.shape[1], dtype=np.float32),
    ),
    "eye": (
        lambda x, n, t: ops.eye(n_rows=t),
        lambda x: np.eye(x.shape[1], dtype=np.float32),
    ),
    "one_hot": (
        lambda x, n, t: ops.one_hot(ops.arange(stop=n), depth=n + 1),
        lambda x: np.eye(x.shape[0], x.shape[0] + 1, dtype=np.float32),
    ),
    "split": (
        lambda x, n, t: ops.split(x, axis=1, sections=[t - t // 2, t // 2])[0],
        lambda x: x[:, : x.shape[1] - x.shape[1] // 2],
    ),
    "permutation": (
        lambda x, n, t: ops.sort(ops.permutation(n=t)),
        lambda x: np.arange(x.shape[1]),
    ),
    "interpolate": (
        lambda x, n, t: ops.interpolate(ops.fill(shape=[1, 1, 2, 2]), output_size=[t + 1, n + 1]),
        lambda x: np.zeros((1, 1, x.shape[1] + 1, x.shape[0] + 1), np.float32),
    ),
    "resize": (
        lambda x, n, t: ops.resize(ops.fill(shape=[2, 2]), output_size=[t + 1, n + 1]),
        lambda x: np.zeros((x.shape[1] + 1, x.shape[0] + 1), np.float32),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_one_program_supports_every_shape(x: Variable, name: str) -> None:
    build, reference = OPERATORS[name]
    out = build(x, *sizes(x))
    check(x, out[0] if isinstance(out, (list, tuple)) else out, reference)


@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal", "randint"])
def test_random_tensors_with_computed_and_given_shapes_have_the_same_elements(
    x: Variable, name: str
) -> None:
    attrs = {"seed": 3, "stream": 5, **({"high": 9} if name == "randint" else {})}
    n, t = sizes(x)
    drawn = getattr(ops, name)(shape=[t, n], **attrs)
    for shape in SHAPES:
        with program_guard(Program()):
            out = getattr(ops, name)(shape=[shape[1], shape[0]], **attrs)
        expected = Network(out.block).compile(feed=[], fetch=[out], scope=ow.Scope())()[0]
        f = Network(x.block).compile(feed=[x], fetch=[drawn], scope=ow.Scope())  # at step 0
        np.testing.assert_array_equal(f(x=numbers(shape))[0], expected)


def test_values_determined_by_shapes_are_not_computed_in_a_plan(x: Variable) -> None:
    n, t = sizes(x)
    out = ops.tile(x, repeats=[1, n * t + 0, 1])
    f = Network(x.block).compile(feed=[x], fetch=[out])
    types = f.plan_for({"x": numbers((2, 3, 8))}).lowered.placement.types
    assert dict(types) == {"tile": 1}


def test_a_vector_replaces_several_numbers(x: Variable) -> None:
    lengths = ops.concat([ops.shape(x)[:2], ops.constant(values=[4.0], shape=[1], dtype="int64")])
    out = ops.reshape(x, shape=[lengths, -1])
    assert out.shape == (-1, -1, -1, -1)
    check(x, out, lambda a: a.reshape(*a.shape[:2], 4, 2))


def test_a_single_variable_replaces_a_complete_list(x: Variable) -> None:
    check(x, ops.fill(shape=ops.shape(x), value=1.5), lambda a: np.full_like(a, 1.5))


def test_constant_sizes_are_known_while_the_program_is_built(x: Variable) -> None:
    n, t = sizes(x)
    assert ops.reshape(x, shape=[n, t, 2, 4]).shape == (-1, -1, 2, 4)
    assert ops.expand(x, shape=[n, t, 8]).shape == (-1, -1, 8)
    assert ops.fill(shape=[n, 3]).shape == (-1, 3)


def test_the_text_of_a_program_shows_operands_as_they_were_written(x: Variable) -> None:
    n, t = sizes(x)
    lengths = ops.shape(x)
    ops.reshape(x, shape=[n, t, 2, 4])
    ops.fill(shape=[7, lengths])
    text = str(x.block)
    assert f"reshape(x, shape=[{n.name}, {t.name}, 2, 4])" in text
    assert f"fill(shape=[7, {lengths.name}])" in text


def build_slices(x: Variable) -> tuple[Variable, Variable]:
    _, t = sizes(x)
    part = ops.slice(x, axes=[1], starts=[t // 2], ends=[t])
    loss = ops.sum(ops.square(ops.pad(part, paddings=[0, 0, 0, t, 0, 0])))
    return loss, ow.append_backward(loss, [x])[0][1]


def check_slices(f: Callable[..., Any]) -> None:
    for shape in SHAPES:
        array = numbers(shape)
        loss, grad = f(x=array)
        half = shape[1] // 2
        np.testing.assert_allclose(loss, np.square(array[:, half:]).sum(), rtol=1e-5)
        expected = np.concatenate([0 * array[:, :half], 2 * array[:, half:]], axis=1)
        np.testing.assert_array_equal(grad, expected)


def test_gradients_use_the_numbers_of_their_forward_operators(x: Variable) -> None:
    loss, grad = build_slices(x)
    check_slices(Network(x.block).compile(feed=[x], fetch=[loss, grad]))


def test_a_saved_program_supports_every_shape(x: Variable) -> None:
    loss, grad = build_slices(x)
    message = x.block.program.to_proto()
    read = Program.from_proto(message)
    assert read.to_proto() == message
    assert str(read) == str(x.block.program)
    check_slices(Network(read.global_block()).compile(feed=["x"], fetch=[loss.name, grad.name]))


def test_a_copy_of_a_program_supports_every_shape(x: Variable) -> None:
    loss, grad = build_slices(x)
    copy = x.block.program.clone()
    check_slices(Network(copy.global_block()).compile(feed=["x"], fetch=[loss.name, grad.name]))


def test_operands_that_are_overwritten_before_the_gradient_reads_them_are_refused(
    x: Variable,
) -> None:
    _, t = sizes(x)
    part = ops.slice(x, axes=[1], starts=[0], ends=[t])
    x.block.append_op("fill", outputs={"out": t}, attrs={"shape": [], "dtype": "int64"})
    with pytest.raises(OpwrightError, match="overwrites before"):
        ow.append_backward(ops.sum(part), [x])


def test_numbers_known_only_at_run_time_are_read_during_the_run(block: Block, x: Variable) -> None:
    n = block.create_var("n", [], "int64", is_data=True)
    bounds = block.create_var("bounds", [2], "int32", is_data=True)
    out = ops.slice(x, axes=[0], starts=[bounds[0]], ends=[bounds[1]])
    tiled = ops.tile(ops.add(out, 1.0), repeats=[1, n, 1])
    again = ops.fill(shape=[n, bounds[1] + 9], value=3.0)
    f = Network(block).compile(feed=["x", "n", "bounds"], fetch=[out, tiled, again])
    array = numbers((5, 2, 8))
    for count, begin, end in [(1, 0, 5), (3, -4, -1), (0, 1, 2), (3, -4, 5)]:
        given = {"n": np.int64(count), "bounds": np.array([begin, end], np.int32)}
        part, repeated, filled = f(x=array, **given)
        np.testing.assert_array_equal(part, array[begin:end])
        np.testing.assert_array_equal(repeated, np.tile(array[begin:end] + 1, (1, count, 1)))
        assert filled.shape == (count, end + 9)


def test_gradients_flow_through_operators_whose_numbers_are_known_only_at_run_time(
    block: Block, x: Variable
) -> None:
    n = block.create_var("n", [], "int64", is_data=True)
    loss = ops.sum(ops.square(ops.slice(x, axes=[0], starts=[n], ends=[n + 2])))
    grad = ow.append_backward(loss, [x])[0][1]
    f = Network(block).compile(feed=["x", "n"], fetch=[grad])
    array = numbers((5, 2, 8))
    for begin in (0, 1, 2):
        expected = np.zeros_like(array)
        expected[begin : begin + 2] = 2 * array[begin : begin + 2]
        np.testing.assert_array_equal(f(x=array, n=np.int64(begin))[0], expected)


def test_a_run_of_a_network_keeps_its_results(block: Block, x: Variable) -> None:
    n = block.create_var("n", [], "int64", is_data=True)
    out = ops.reshape(ops.slice(x, axes=[0], starts=[0], ends=[n]), shape=[ops.shape(x)[1], -1])
    scope = ow.Scope()
    array = numbers((5, 4, 8))
    scope.var("x").set(array)
    scope.var("n").set(np.int64(2))
    Network(block).run(scope)
    np.testing.assert_array_equal(scope.var(out.name).numpy(), array[:2].reshape(4, -1))


def test_numbers_out_of_range_are_refused_during_the_run(block: Block, x: Variable) -> None:
    n = block.create_var("n", [], "int64", is_data=True)
    f = Network(block).compile(feed=["n"], fetch=[ops.fill(shape=[n, 3])])
    with pytest.raises(KernelError, match=r"fill: every element of shape must be in \[0, inf\)"):
        f(n=np.int64(-1))


def test_a_size_that_shapes_make_negative_is_refused(x: Variable) -> None:
    n, t = sizes(x)
    f = Network(x.block).compile(feed=[x], fetch=[ops.fill(shape=[n - t])])
    assert f(x=numbers((3, 2, 8)))[0].shape == (1,)
    with pytest.raises(AttributeValueError, match=r"fill: every element of shape must be in \[0"):
        f(x=numbers((2, 3, 8)))


def test_variables_that_do_not_contain_sizes_are_refused(x: Variable) -> None:
    with pytest.raises(DtypeError, match=r"reshape: shape takes integer variables"):
        ops.reshape(x, shape=[ops.mean(x), 8])
    with pytest.raises(ShapeError, match=r"one_hot: depth takes one number"):
        ops.one_hot(ops.arange(stop=4), depth=ops.shape(x))
    unknown = x.block.create_var("unknown", [None], "int64", is_data=True)
    with pytest.raises(ShapeError, match=r"fill: shape takes numbers, and vectors of a known len"):
        ops.fill(shape=unknown)
    with pytest.raises(OpwrightError, match="softmax: axis must be an int"):
        ops.softmax(x, axis=ops.shape(x)[0])


def test_a_vector_with_more_numbers_than_an_attribute_can_store_is_refused() -> None:
    block = ow.Program().global_block()
    block.create_var("x", [4])
    block.create_var("sizes", [2**31], "int64")  # one mark per element would need 16 GiB
    with pytest.raises(ShapeError, match=r"length up to 65536, got 'sizes', int64\[2147483648"):
        block.append_op("reshape", {"x": "x"}, {"out": "y"}, {"shape": ["sizes"]})


def test_a_variable_of_another_program_is_refused(x: Variable) -> None:
    with program_guard(Program()) as _:
        other = ops.fill(shape=[], dtype="int64")
    with pytest.raises(OpwrightError, match=other.name):
        ops.reshape(x, shape=[other, 8])


def test_sizes_can_depend_on_shapes_and_elements_of_the_same_variables(x: Variable) -> None:
    """One operator reads only the shape of a value, and another reads its elements."""
    lengths = ops.shape(x)
    rank = ops.size(lengths)
    ones = ops.fill_like(lengths, value=1.0)
    halves = ops.split(ops.add(lengths, ones), num=3)
    out = ops.fill(shape=[rank, ops.sum(ops.concat(halves)), halves[1]], value=1.0)
    check(x, out, lambda a: np.ones((3, sum(a.shape) + 3, a.shape[1] + 1), np.float32))


def change_reshape(program: Program, change: Callable[[Any], None]) -> Program:
    message = program.to_proto()
    change(next(op for op in message.blocks[0].ops if op.type == "reshape"))
    message.ClearField("checksum")
    return Program.from_proto(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda op: op.attrs["shape"].ints.values.append(-(2**63)), "must get 3 number"),
        (lambda op: op.inputs[1].names.append(op.inputs[1].names[0]), "got 3 from"),
        (lambda op: op.attrs["shape"].ints.values.__setitem__(0, 5), "must get 1 number"),
    ],
)
def test_a_file_with_inconsistent_operands_is_refused(
    x: Variable, change: Callable[[Any], None], message: str
) -> None:
    n, t = sizes(x)
    out = ops.reshape(x, shape=[n, t, -1])
    read = change_reshape(x.block.program, change)
    f = Network(read.global_block()).compile(feed=["x"], fetch=[out.name])
    with pytest.raises(ProgramError, match=f"reshape: shape .*{message}"):
        f(x=numbers((2, 3, 8)))


def test_a_file_with_operand_marks_but_without_variables_is_refused(x: Variable) -> None:
    n, t = sizes(x)
    ops.reshape(x, shape=[n, t, -1])
    with pytest.raises(AttributeValueError, match=r"every element of shape must be in \[-1, inf\)"):
        change_reshape(x.block.program, lambda op: op.inputs.pop(1))


def test_a_number_with_a_special_meaning_is_refused_together_with_a_variable(x: Variable) -> None:
    n, _ = sizes(x)
    out = ops.slice(x, axes=[0, 1], starts=[n - 1, -(2**63)], ends=[n, 9])
    f = Network(x.block).compile(feed=[x], fetch=[out])
    with pytest.raises(ProgramError, match="slice: starts must get 2 number"):
        f(x=numbers((2, 3, 8)))


@pytest.mark.parametrize("divide", [lambda n: 6 // (n - n), lambda n: n % (n - n)])
def test_a_size_that_is_divided_by_zero_is_refused(
    x: Variable, divide: Callable[[Variable], Variable]
) -> None:
    out = ops.reshape(x, shape=[divide(sizes(x)[0]), -1])
    f = Network(x.block).compile(feed=[x], fetch=[out])
    with pytest.raises(ShapeError, match=r"a size must not be divided by 0, got 0 for .*; divide"):
        f(x=numbers((2, 3, 8)))
