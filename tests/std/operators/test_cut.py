"""``opwright.cut``: the two halves are bitwise identical to the uncut network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from case import Array, Case
from one_operator import build, graded_slots
from table import over_cases
from test_cond import branching_program
from test_given_gradients import graded_cases, weighed_outputs
from test_gradients import float_inputs, known_shape
from test_scan import VALUES, rnn_program
from test_while_loop import START, growing_program

import opwright as ow
from opwright import ops
from opwright.errors import FeedError, ProgramError

RNG = np.random.default_rng(11)


class Both:
    """A program, compiled both uncut and cut into two halves, with a separate scope for each."""

    def __init__(
        self,
        program: Any,
        feeds: Mapping[str, Array],
        fetch: Sequence[str],
        late: Mapping[str, str],
        late_fetch: Sequence[str],
        values: Mapping[str, Array] | None = None,
    ) -> None:
        network = ow.Network(program.global_block())
        self.feeds, self.n = dict(feeds), len(fetch)
        self.scopes = ow.Scope(), ow.Scope()
        for scope in self.scopes:
            for name, value in (values or {}).items():
                scope.var(name).set(value)
        everything = [*feeds, *late], [*fetch, *late_fetch]
        self.one = network.compile(*everything, scope=self.scopes[0])
        self.two = ow.cut(program, list(feeds), fetch, late, late_fetch, scope=self.scopes[1])

    def saved(self, backward: Any) -> dict[str, Array]:
        """Return the values saved for a backward pass, by name."""
        pairs = zip(backward.func.feed_names, backward.args, strict=False)
        return {name.split(": ")[1]: a for name, a in pairs if name.startswith("saved")}

    def check(self, late: Mapping[str, Array]) -> Any:
        """Run both versions, compare all results, and return the backward half."""
        expected = self.one(**self.feeds, **late)
        results, backward = self.two(**self.feeds)
        results = results + backward(**late)
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, array)
        return backward


def cases_of_known_shapes() -> list[Case]:
    definitions = ow.current_context().ops
    return [case for case in graded_cases() if not definitions.get(case.op).proto.dynamic_output]


@over_cases(cases_of_known_shapes())
def test_both_halves_are_bitwise_identical_to_the_uncut_program(case: Case) -> None:
    arrays = case.make_inputs("float64")
    one = build(case, arrays)
    outputs = weighed_outputs(one)
    seeds = {}
    for variable in outputs:
        shape = known_shape(one, variable)
        seeds[f"seed_of_{variable.name}"] = RNG.normal(size=shape).astype(variable.dtype)
        one.block.create_var(f"seed_of_{variable.name}", shape, variable.dtype)
    grads = dict(zip(outputs, seeds, strict=True))
    pairs = ow.append_backward(
        list(grads), float_inputs(one, graded_slots(case, arrays)), grads=grads
    )
    late = {seed: variable.name for variable, seed in grads.items()}
    fetch = [variable.name for variable in outputs]
    gradients = [gradient.name for _, gradient in pairs]
    both = Both(one.block.program, one.feeds, fetch, late, gradients)
    both.check(seeds)


def network_program(build: Any, **parameters: Array) -> tuple[Any, Any]:
    """Return y = build(x [?, 8], **parameters) in a new program, and the names of its gradients."""
    program = ow.Program(5)
    dtype = next(iter(parameters.values())).dtype
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [-1, 8], dtype, is_data=True)
        made = {k: block.create_parameter(k, v.shape, dtype) for k, v in parameters.items()}
        y = build(x, **made)
        dy = block.create_var("dy", y.shape, dtype, is_data=True)
        wanted = ["x", *parameters]
        pairs = ow.append_backward(y, wanted, grads={y: dy})
    return y, [gradient.name for _, gradient in pairs]


def both_of(build: Any, n: int = 6, **parameters: Array) -> Both:
    y, gradients = network_program(build, **parameters)
    dtype = next(iter(parameters.values())).dtype
    feeds = {"x": RNG.normal(size=(n, 8)).astype(dtype)}
    return Both(y.block.program, feeds, [y.name], {"dy": y.name}, gradients, parameters)


W = RNG.normal(size=(8, 8))


def product(x: Any, w: Any) -> Any:
    return ops.matmul(x, w)


def test_loops_are_split_into_a_forward_and_a_gradient_loop() -> None:
    program = rnn_program()
    block = program.global_block()
    block.create_var("d_states", [-1, 2, 4], "float64", is_data=True)
    pairs = ow.append_backward(
        [block.var("states"), block.var("last")],
        ["x", "h0", "w", "u"],
        grads={"states": "d_states"},
    )
    parameters = {name: VALUES[name] for name in ("w", "u")}
    feeds = {name: VALUES[name] for name in ("x", "h0")}
    gradients = [gradient.name for _, gradient in pairs]
    late = {"d_states": "states"}
    both = Both(program, feeds, ["states", "last"], late, gradients, parameters)
    both.check({"d_states": RNG.normal(size=(5, 2, 4))})


@pytest.mark.parametrize("limit", [-1.0, 4.1, 1e3])
def test_a_loop_with_any_number_of_iterations_is_split(limit: float) -> None:
    program = growing_program(max_steps=30)
    block = program.global_block()
    block.create_var("dy", [2], "float64", is_data=True)
    pairs = ow.append_backward(block.var("grown"), ["x", "w"], grads={"grown": "dy"})
    feeds = {"x": START["x"], "limit": np.array([limit])}
    gradients = [gradient.name for _, gradient in pairs]
    both = Both(program, feeds, ["grown"], {"dy": "dy"}, gradients, {"w": START["w"]})
    both.check({"dy": RNG.normal(size=2)})


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_are_split_into_forward_and_gradient_branches(chosen: bool) -> None:
    program, _ = branching_program()
    block = program.global_block()
    block.create_var("dy", [-1, 3], "float64", is_data=True)
    pairs = ow.append_backward(block.var("y"), ["x", "w"], grads={"y": "dy"})
    feeds = {"x": RNG.uniform(1, 2, (4, 3)), "p": np.array([chosen])}
    gradients = [gradient.name for _, gradient in pairs]
    both = Both(program, feeds, ["y"], {"dy": "y"}, gradients, {"w": RNG.normal(size=3)})
    both.check({"dy": RNG.normal(size=(4, 3))})


def test_random_numbers_and_steps_advance_once_in_the_forward_pass() -> None:
    both = both_of(lambda x, w: ops.dropout(ops.matmul(x, w), probability=0.5), w=W)
    for count in range(1, 4):
        both.check({"dy": RNG.normal(size=(6, 8))})
        assert [int(scope.find_var("@step").numpy()[0]) for scope in both.scopes] == [count] * 2


def test_a_late_operator_draws_the_random_numbers_of_its_forward_operator() -> None:
    def build(x: Any, w: Any) -> Any:
        return ops.matmul(x, w)

    y, (gradient, *_) = network_program(build, w=W)
    with ow.program_guard(y.block.program):
        drawn = ops.dropout(y.block.var(gradient), probability=0.5)
    late = {"dy": y.name}
    both = Both(y.block.program, {"x": np.eye(8)}, [y.name], late, [drawn.name], {"w": W})
    for _ in range(3):
        both.check({"dy": RNG.normal(size=(8, 8))})
    seed = RNG.normal(size=(8, 8))
    (expected,) = both.one(x=np.eye(8), dy=seed)[1:]
    _, backward = both.two(x=np.eye(8))
    both.two(x=np.eye(8))
    np.testing.assert_array_equal(backward(seed)[0], expected)


def overwriting_program(is_late: bool) -> Any:
    """Return a program of h = exp(x), late = h * c, and an update of h that depends on c or x."""
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [8, 8], "float64", is_data=True)
        c = block.create_var("c", [8, 8], "float64", is_data=True)
        rate = block.create_var("rate", [1], "float64", is_data=True)
        h = ops.exp(x)
        late = ops.multiply(h, c)
        names = {"param": h, "grad": c if is_late else x, "learning_rate": rate}
        block.append_op("sgd", names, {"param_out": h.name})
        z = ops.tanh(h)
    return program, h.name, late.name, z.name


@pytest.mark.parametrize("is_late", [True, False])
def test_the_backward_half_reads_values_from_before_they_were_overwritten(is_late: bool) -> None:
    program, h, late, z = overwriting_program(is_late)
    feeds = {"x": RNG.normal(size=(8, 8)), "rate": np.array([0.5])}
    early = ["x"] if is_late else [z]
    both = Both(program, feeds, early, {"c": "c"}, [late, h, z])
    backward = both.check({"c": RNG.normal(size=(8, 8))})
    seed = {"c": RNG.normal(size=(8, 8))}
    for first, again in zip(backward(**seed), backward(**seed), strict=True):
        np.testing.assert_array_equal(first, again)


def test_state_changed_by_both_halves_is_read_with_its_old_value() -> None:
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [8], "float64", is_data=True)
        c = block.create_var("c", [8], "float64", is_data=True)
        rate = block.create_var("rate", [1], "float64", is_data=True)
        state = block.create_var("state", [8], "float64", persistable=True)
        before = ops.multiply(state, c)
        for grad in (x, c):
            names = {"param": state, "grad": grad, "learning_rate": rate}
            block.append_op("sgd", names, {"param_out": "state"})
            between = ops.multiply(state, c)
    feeds = {"x": RNG.normal(size=8), "rate": np.array([0.5])}
    late = {"c": RNG.normal(size=8)}
    results = [before.name, between.name, "state"]
    both = Both(program, feeds, ["x"], {"c": "c"}, results, {"state": np.ones(8)})
    for _ in range(2):
        both.check(late)
        states = [scope.find_var("state").numpy() for scope in both.scopes]
        np.testing.assert_array_equal(*states)


def test_values_computed_only_from_parameters_are_updated_in_both_halves() -> None:
    def build(x: Any, w: Any) -> Any:
        return ops.matmul(ops.matmul(x, ops.exp(w)), ops.exp(w))

    both = both_of(build, w=W)
    for _ in range(2):
        both.check({"dy": RNG.normal(size=(6, 8))})
        values = RNG.normal(size=(8, 8))
        for scope in both.scopes:
            scope.var("w").set(values)


def test_a_backward_pass_can_run_after_another_forward_pass() -> None:
    both = both_of(lambda x, w: ops.tanh(ops.dropout(ops.matmul(x, w))), w=W)
    seed = RNG.normal(size=(6, 8))
    expected = [both.one(**both.feeds, dy=seed)[1:] for _ in range(2)]
    backwards = [both.two(**both.feeds)[1] for _ in range(2)]
    for backward, gradients in zip(backwards[::-1], expected[::-1], strict=True):
        for _ in range(2):
            for result, array in zip(backward(seed), gradients, strict=True):
                np.testing.assert_array_equal(result, array)


def test_each_batch_size_has_its_own_halves() -> None:
    ow.release_memory()  # memory kept from other tests would leave no room
    both = both_of(lambda x, w: ops.tanh(ops.matmul(x, w)), w=W)
    backwards = []
    for n in (3, 6, 3):
        both.feeds["x"] = RNG.normal(size=(n, 8))
        backwards.append(both.check({"dy": RNG.normal(size=(n, 8))}))
    assert backwards[0].func is backwards[2].func
    with pytest.raises(FeedError, match=r"feed 'dy': shape must be \(3, 8\), got \(6, 8\)"):
        backwards[0](np.ones((6, 8)))
    with pytest.raises(FeedError, match=r"feed: 'dy' is missing, got nothing; pass dy=array"):
        backwards[0]()


def test_batch_norm_statistics_are_written_by_the_forward_pass() -> None:
    program, startup = ow.Program(), ow.Program()
    with ow.program_guard(program, startup):
        block = program.global_block()
        x = block.create_var("x", [-1, 3, 5, 5], is_data=True)
        nn_inputs = {"x": x}
        for name in ("scale", "bias"):
            nn_inputs[name] = block.create_parameter(name, [3])
        for name in ("mean", "variance"):
            nn_inputs[name] = block.create_var(name, [3], persistable=True)
        outputs = {"mean_out": "mean", "variance_out": "variance"}
        op = block.append_op("batch_norm", nn_inputs, outputs, {"training": True})
        y = ops.relu(block.var(op.output("out")[0]))
        seed = block.create_var("dy", y.shape, is_data=True)
        pairs = ow.append_backward(y, ["x", "scale", "bias"], grads={y: seed})
    values = {"scale": 1, "bias": 0.5, "mean": 0, "variance": 1}
    arrays = {name: np.full(3, value, "float32") for name, value in values.items()}
    images = RNG.normal(size=(4, 3, 5, 5)).astype("float32")
    gradients = [gradient.name for _, gradient in pairs]
    both = Both(program, {"x": images}, [y.name], {"dy": y.name}, gradients, arrays)
    for _ in range(2):
        backward = both.check({"dy": RNG.normal(size=images.shape).astype("float32")})
    before = both.scopes[1].find_var("mean").numpy()
    np.testing.assert_array_equal(before, both.scopes[0].find_var("mean").numpy())
    assert np.abs(before).max() > 0
    backward(np.ones_like(images))
    np.testing.assert_array_equal(before, both.scopes[1].find_var("mean").numpy())


def test_parameter_updates_belong_to_the_backward_half() -> None:
    y, gradients = network_program(product, w=W)
    block = y.block
    rate = block.create_parameter("rate", [1], "float64")
    names = {"param": "w", "grad": gradients[1], "learning_rate": rate}
    block.append_op("sgd", names, {"param_out": "w"})
    values = {"w": W, "rate": np.array([0.1])}
    both = Both(block.program, {"x": np.eye(8)}, [y.name], {"dy": y.name}, [gradients[0]], values)
    both.two(**both.feeds)
    np.testing.assert_array_equal(both.scopes[1].find_var("w").numpy(), W)
    for _ in range(2):
        both.check({"dy": RNG.normal(size=(8, 8))})
    w, other = (scope.find_var("w").numpy() for scope in both.scopes)
    np.testing.assert_array_equal(w, other)
    assert not np.array_equal(w, W)


def test_rows_of_embedding_tables_have_gradients() -> None:
    def build(x: Any, table: Any) -> Any:
        ids = ops.cast(ops.abs(x), dtype="int64")
        return ops.add(ops.square(ops.embedding(table, ids)), ops.reshape(x, shape=[-1, 8, 1]))

    both_of(build, table=RNG.normal(size=(9, 3))).check({"dy": RNG.normal(size=(6, 8, 3))})


def test_passes_do_not_make_a_forward_result_depend_on_a_late_feed() -> None:
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [4, 8], "float32", is_data=True)
        c = block.create_var("c", [4, 8], "float32", is_data=True)
        y = ops.relu(x)
        z = ops.multiply(ops.add(y, c), 2.0)
    feeds = {"x": RNG.normal(size=(4, 8)).astype("float32")}
    both = Both(program, feeds, [y.name], {"c": "c"}, [z.name])
    both.check({"c": RNG.normal(size=(4, 8)).astype("float32")})


def test_a_forward_result_that_depends_on_a_late_feed_is_refused() -> None:
    y, gradients = network_program(product, w=W)
    scope = ow.Scope()
    scope.var("w").set(W)
    call = ow.cut(y.block.program, ["x"], gradients, {"dy": y}, [], scope=scope)
    with pytest.raises(FeedError, match=r"'x_grad' depends on a late feed \(\['dy'\]\); name it"):
        call(x=np.eye(8))


def test_invalid_late_feeds_are_refused() -> None:
    y, gradients = network_program(product, w=W)
    with pytest.raises(FeedError, match=r"late feed 'dy' must be known, got \(-1, 8\); name a"):
        ow.cut(y.block.program, ["x"], [y], ["dy"], gradients)
    with pytest.raises(FeedError, match=r"late_feed must name a variable, got none"):
        ow.cut(y.block.program, ["x"], [y], [], gradients)
    y.block.create_var("other", [8, 7], "float64")
    message = r"late feed 'dy' must be float64 \(8, 7\) as 'other', got float64 \(-1, 8\)"
    with pytest.raises(FeedError, match=message):
        ow.cut(y.block.program, ["x"], [y], {"dy": "other"}, gradients)


def test_shapes_that_depend_on_values_are_refused() -> None:
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        x = block.create_var("x", [8], "float64", is_data=True)
        c = block.create_var("c", [1], "float64", is_data=True)
        places = ops.nonzero(x)
        y = ops.multiply(x, c)
    call = ow.cut(program, [x], [places], [c], [y])
    with pytest.raises(ProgramError, match=r"cut: shapes must be known before the run, got nonz"):
        call(x=np.ones(8))
