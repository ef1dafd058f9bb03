"""Complete opwright programs used as JAX functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import opwright as ow
from opwright.errors import DtypeError, FeedError, ProgramError, SettingError, ShapeError
from opwright_jax import function
from opwright_nn import layers

X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8)


@pytest.fixture
def loaded(tmp_path: Any) -> ow.LoadedProgram:
    """A saved multi-layer perceptron."""
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x = layers.data("x", [None, 8])
        y = layers.fc(layers.fc(x, 16, activation="tanh"), 3, activation="softmax")
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    ow.save(tmp_path / "model", main, scope, [y])
    return ow.load(tmp_path / "model")


def truth(parameters: Any, x: Any) -> Any:
    p = parameters
    hidden = jnp.tanh(x @ p["fc_0_w_param"] + p["fc_0_b_param"])
    return jax.nn.softmax(hidden @ p["fc_1_w_param"] + p["fc_1_b_param"])


def test_a_loaded_program_is_a_function_of_parameters_and_inputs(loaded: Any) -> None:
    forward, parameters = function(loaded), loaded.parameters()
    (found,) = jax.jit(forward)(parameters, X)
    np.testing.assert_allclose(found, loaded(X)[0], atol=1e-6)
    np.testing.assert_allclose(jax.jit(forward)(parameters, X[:2])[0], loaded(X[:2])[0], atol=1e-6)


def test_first_and_second_gradients_reach_parameters_and_inputs(loaded: Any) -> None:
    forward, parameters = function(loaded), loaded.parameters()

    def first(run: Any) -> Any:
        return jax.grad(lambda p, x: (run(p, x) ** 2).sum(), (0, 1))

    def second(run: Any) -> Any:
        return jax.grad(lambda p, x: sum((g**2).sum() for g in jax.tree.leaves(first(run)(p, x))))

    def ours(p: Any, x: Any) -> Any:
        return forward(p, x)[0]

    for order in (first, second):
        found, expected = jax.jit(order(ours))(parameters, X), order(truth)(parameters, X)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_training_in_jax_changes_only_the_parameters(loaded: Any) -> None:
    forward, parameters = function(loaded), loaded.parameters()

    @jax.jit
    def step(p: Any) -> Any:
        gradients = jax.grad(lambda p: -jnp.log(forward(p, X)[0][:, 0]).mean())(p)
        return jax.tree.map(lambda w, g: w - 0.5 * g, p, gradients)

    trained = parameters
    for _ in range(20):
        trained = step(trained)
    assert forward(trained, X)[0][:, 0].mean() > 0.8 > forward(parameters, X)[0][:, 0].mean()


def test_containers_are_nested_like_feeds_and_fetches() -> None:
    program = ow.Program()
    block = program.global_block()
    for name in ("image", "states.0", "states.1"):
        block.create_var(name, [None, 3], "float32", is_data=True)
    block.append_op("add", {"x": "states.0", "y": "states.1"}, {"out": "both"})
    block.append_op("multiply", {"x": "image", "y": "both"}, {"out": "score"})
    run = function(
        program,
        feed=[{"image": "image", "states": ["states.0", "states.1"]}],
        fetch={"score": "score", "rest": ["both"]},
    )
    a, b, c = (np.full((2, 3), n, np.float32) for n in (2, 3, 4))
    found = jax.jit(run)({}, {"image": a, "states": [b, c]})
    assert jax.tree.structure(found) == jax.tree.structure({"score": 0, "rest": [0]})
    np.testing.assert_array_equal(found["score"], a * (b + c))
    with pytest.raises(FeedError, match="input 0 must be nested as"):
        run({}, {"image": a, "states": b})


def test_nested_dicts_can_replace_names_with_dots() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [None, 2], "float32", is_data=True)
    block.create_parameter("fc.weight", [2, 2], "float32")
    block.append_op("matmul", {"x": "x", "y": "fc.weight"}, {"out": "out"})
    run = function(program, ["x"], "out")
    weight = jnp.eye(2) * 3
    gradient = jax.grad(lambda p: run(p, X[:, :2]).sum())({"fc": {"weight": weight}})
    np.testing.assert_allclose(gradient["fc"]["weight"][:, 0], X[:, :2].sum(0), rtol=1e-6)


def test_a_program_with_a_loop_runs_under_jit_and_vmap() -> None:
    program = ow.Program()
    with ow.program_guard(program):
        x = layers.data("x", [4])
        big = ow.ops.greater(ow.ops.sum(x), 0.0)
        out = layers.cond(big, lambda: ow.ops.scale(x, scale=2.0), lambda: ow.ops.negative(x))
    run = jax.jit(function(program, ["x"], out.name))
    np.testing.assert_array_equal(run({}, X[0, :4]), -X[0, :4])
    rows = X[:, :4]
    expected = np.where(rows.sum(1, keepdims=True) > 0, 2 * rows, -rows)
    np.testing.assert_array_equal(jax.vmap(lambda x: run({}, x))(rows), expected)


def test_a_program_that_writes_a_parameter_is_refused() -> None:
    main, startup = ow.Program(), ow.Program()
    with ow.program_guard(main, startup):
        out = layers.batch_norm(layers.data("x", [None, 8]))
    with pytest.raises(ProgramError, match="a program must not change its arguments, got"):
        function(main, ["x"], out.name)


def test_errors_name_wrong_arguments(loaded: Any) -> None:
    forward, parameters = function(loaded), loaded.parameters()
    name = next(iter(parameters))
    with pytest.raises(ShapeError, match=r"function: x must have shape \[\?, 8\], got \[5, 7\]"):
        forward(parameters, X[:, :7])
    with pytest.raises(DtypeError, match="function: x must be float32, got int32"):
        forward(parameters, X.astype(np.int32))
    with pytest.raises(FeedError, match="parameters must have .* got no 'fc_0"):
        forward({k: v for k, v in parameters.items() if k != name}, X)
    with pytest.raises(FeedError, match="parameters must belong to the program, got 'other'"):
        forward({**parameters, "other": X}, X)
    with pytest.raises(FeedError, match=r"inputs are 'x', got 2 of them"):
        forward(parameters, X, X)
    with pytest.raises(SettingError, match="program must be a LoadedProgram, or a Program with"):
        function(loaded.program)


def test_inputs_can_be_given_by_name(loaded: Any) -> None:
    forward, parameters = jax.jit(function(loaded, "x")), loaded.parameters()
    np.testing.assert_array_equal(forward(parameters, x=X)[0], forward(parameters, X)[0])
    with pytest.raises(FeedError, match="inputs are 'x', got 0 by position and 'y' by name"):
        forward(parameters, y=X)


@pytest.mark.parametrize("number", [2.5, jnp.asarray(2.5)])
def test_a_number_for_an_integer_input_must_be_an_integer(number: Any) -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("i", [], "int32", is_data=True)
    block.append_op("negative", {"x": "i"}, {"out": "out"})
    run = function(program, ["i"], "out")
    assert run({}, 2) == run({}, jnp.asarray(2)) == -2
    with pytest.raises(
        DtypeError, match=r"function: i:? must be (an integer to become )?int32, got"
    ):
        run({}, number)
    with pytest.raises(
        DtypeError, match="function: i: must be in .* to become int32, got 10995116"
    ):
        run({}, 2**40)


def make_random(is_given: bool) -> tuple[ow.Program, list[Any], Any]:
    """Return a program that drops elements, its feeds, and its result."""
    main = ow.Program()
    with ow.program_guard(main):
        block = main.global_block()
        x = block.create_var("x", [2, 8], is_data=True)
        step = block.create_var("step", [1], "int64", is_data=True)
        named = {"step": step} if is_given else {}
        out = ow.ops.dropout(x, probability=0.5, training=True, **named)
    return main, [x, step], out


def test_the_random_numbers_of_a_program_depend_on_the_given_step() -> None:
    run, ones = function(*make_random(is_given=True)), np.ones((2, 8), np.float32)
    first, again, second = (run({}, ones, np.array([step])) for step in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()


def test_a_random_program_without_a_given_step_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"must be given their step, got one .*step=variable"):
        function(*make_random(is_given=False))
