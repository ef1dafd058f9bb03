"""Sparse gradients: looked-up rows train as with dense gradients, other rows do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import KernelError, ProgramError
from opwright_nn import layers, optimizer

ROWS, SIZE = 40, 6
TABLE = "words_w_param"
START = nn.initializer.Normal(0.0, 1.0)
LAZY: dict[str, Callable[[], optimizer.Optimizer]] = {
    "sgd": lambda: optimizer.SGD(0.1),
    "momentum": lambda: optimizer.Momentum(0.1, 0.9),
    "nesterov": lambda: optimizer.Momentum(0.1, 0.9, nesterov=True),
    "adagrad": lambda: optimizer.Adagrad(0.1, initial_squares=0.1),
    "adam": lambda: optimizer.Adam(0.1),
}


def look_up(index: ow.Variable, sparse: bool = True, **options: Any) -> ow.Variable:
    shared = nn.ParamAttr(name=TABLE, initializer=START)
    return layers.embedding(
        index, size=(ROWS, SIZE), sparse=sparse, param_attr=shared, dtype="float64", **options
    )


class Training:
    """A loss of looked-up vectors, with its programs and the scope in which they run."""

    def __init__(
        self,
        make: Callable[[], optimizer.Optimizer],
        sparse: Sequence[bool] = (True,),
        padding: Sequence[int] = (),
    ) -> None:
        with ow.program_guard(ow.Program(seed=3), ow.Program(seed=3)) as (main, startup):
            inputs = [layers.data(f"i{n}", [None, 2], "int64") for n in range(len(sparse))]
            vectors = [
                look_up(index, is_sparse, padding_index=(padding or [-1] * 9)[n])
                for n, (index, is_sparse) in enumerate(zip(inputs, sparse, strict=True))
            ]
            self.loss = layers.mean(ow.ops.square(ow.ops.add_n(vectors)))
            ((_, self.gradient),) = make().minimize(self.loss)
        self.program = main
        self.feeds = [index.name for index in inputs]
        self.scope = ow.Scope()
        ow.Network(startup.global_block()).run(self.scope)
        self.network = ow.Network(main.global_block())

    def step(self, *indices: Any, fetch: Sequence[ow.Variable] = ()) -> list[np.ndarray]:
        call = self.network.compile(feed=self.feeds, fetch=[*fetch], scope=self.scope)
        fed = {name: np.array(i) for name, i in zip(self.feeds, indices, strict=True)}
        return list(call(**fed))

    def states(self) -> dict[str, np.ndarray]:
        """Return the table and every state that has one row per table row."""
        found = {v.name: self.scope.find_var(v.name).numpy() for v in self.persistables()}
        return {name: value for name, value in found.items() if value.shape == (ROWS, SIZE)}

    def persistables(self) -> list[ow.Variable]:
        return [v for v in self.program.global_block().vars.values() if v.persistable]

    def types(self) -> set[str]:
        return set(self.network.placement().types)


def batches(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, ROWS, (5, 2)) for _ in range(n)]


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_sparse_steps_match_dense_steps_if_rows_without_gradient_do_not_change(
    kind: str,
) -> None:
    lazy, dense = Training(LAZY[kind]), Training(LAZY[kind], sparse=[False])
    for index in batches(6):
        lazy.step(index)
        dense.step(index)
    for name, value in dense.states().items():
        np.testing.assert_allclose(lazy.states()[name], value, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kind", LAZY)
def test_looked_up_rows_are_updated_as_in_dense_training_and_other_states_are_kept(
    kind: str,
) -> None:
    lazy, dense = Training(LAZY[kind]), Training(LAZY[kind], sparse=[False])
    first, second = batches(2)
    for training in (lazy, dense):
        training.step(first)
    for name, value in lazy.states().items():
        dense.scope.var(name).set(value)
    before = lazy.states()
    for training in (lazy, dense):
        training.step(second)
    named = np.isin(np.arange(ROWS), second)
    assert 0 < named.sum() < ROWS
    for name, value in lazy.states().items():
        np.testing.assert_allclose(value[named], dense.states()[name][named], rtol=1e-13)
        assert (value[named] != before[name][named]).any(), name
        np.testing.assert_array_equal(value[~named], before[name][~named])


@pytest.mark.parametrize("kind", LAZY)
def test_a_step_does_not_compute_a_gradient_with_the_shape_of_the_table(kind: str) -> None:
    training = Training(LAZY[kind])
    training.step([[0, 1]])
    assert "embedding_grad" not in training.types()
    assert f"sparse_{kind.replace('nesterov', 'momentum')}" in training.types()


def test_a_reader_of_the_gradient_receives_a_dense_tensor() -> None:
    training = Training(LAZY["sgd"])
    before = training.states()[TABLE]
    (grad,) = training.step([[7, 7], [2, 9]], fetch=[training.gradient])
    assert grad.shape == (ROWS, SIZE)
    wanted = np.zeros((ROWS, SIZE))
    np.add.at(wanted, [7, 7, 2, 9], 2 * before[[7, 7, 2, 9]] / (4 * SIZE))
    np.testing.assert_allclose(grad, wanted, rtol=1e-13)
    np.testing.assert_allclose(training.states()[TABLE], before - 0.1 * wanted, rtol=1e-6)


def test_the_gradient_of_a_table_has_the_rows_of_both_lookups() -> None:
    lazy = Training(LAZY["adam"], [True, True], padding=[-1, 4])
    dense = Training(LAZY["adam"], [False, False], padding=[-1, 4])
    for training in (lazy, dense):
        training.step([[1, 4], [1, 2]], [[2, 2], [4, 8]])
    assert "embedding_grad" not in lazy.types()
    for name, value in dense.states().items():
        np.testing.assert_allclose(lazy.states()[name], value, rtol=1e-12, atol=1e-15)


def test_the_padding_row_is_not_updated() -> None:
    training = Training(LAZY["momentum"], padding=[4])
    before = training.states()
    training.step([[4, 1], [4, 4]])
    for name, value in training.states().items():
        np.testing.assert_array_equal(value[4], before[name][4])
        assert (value[1] != before[name][1]).all()


def test_a_sum_with_a_dense_gradient_is_dense() -> None:
    mixed = Training(LAZY["adam"], [True, False])
    dense = Training(LAZY["adam"], [False, False])
    for training in (mixed, dense):
        training.step([[1, 4]], [[2, 4]])
    assert {"embedding_grad", "adam"} <= mixed.types()
    for name, value in dense.states().items():
        np.testing.assert_array_equal(mixed.states()[name], value)
    with pytest.raises(ProgramError, match="which is dense; fetch it directly"):
        nn.get_sparse_rows(mixed.gradient)


def test_a_step_without_lookups_is_counted_but_does_not_change_the_table() -> None:
    training = Training(LAZY["adam"])
    before = training.states()
    training.step(np.zeros((0, 2), "int64"))
    for name, value in training.states().items():
        np.testing.assert_array_equal(value, before[name])
    powers = [v.name for v in training.persistables() if v.name.endswith("beta1_power")]
    assert training.scope.var(powers[0]).numpy() == pytest.approx([0.81])


def test_an_id_out_of_range_changes_nothing() -> None:
    training = Training(LAZY["adam"], [True, True])
    training.step([[0, 1]], [[2, 3]])
    before = training.states()
    with pytest.raises(KernelError, match=rf"must be in \[0, {ROWS}\), got {ROWS}"):
        training.step([[0, 1]], [[2, ROWS]])
    for name, value in training.states().items():
        np.testing.assert_array_equal(value, before[name])


DENSE = sorted(set(optimizer.OPTIMIZERS) - {"sgd", "momentum", "adagrad", "adam"})


@pytest.mark.parametrize("kind", DENSE)
def test_an_optimizer_without_a_sparse_operator_refuses_sparse_gradients(kind: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Training(lambda: optimizer.make_optimizer(kind, {"learning_rate": 0.1}))
    who = optimizer.OPTIMIZERS[kind].__name__
    assert str(caught.value) == (
        f"{who}: the gradient of {TABLE!r} must be dense for this optimizer, got the rows of "
        "embedding(sparse=True); pass sparse=False to embedding, or train with SGD, Momentum, "
        "Adagrad or Adam"
    )


def test_accumulation_refuses_sparse_gradients() -> None:
    with pytest.raises(ProgramError, match="Accumulate: the gradient of .* must be dense for this"):
        Training(lambda: optimizer.Accumulate(optimizer.Adam(0.1), steps=2))


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({"clip": nn.clip.ClipByValue(1.0)}, "clip=ClipByValue"),
        ({"clip": nn.clip.ClipByNorm(1.0)}, "clip=ClipByNorm"),
        ({"clip": nn.clip.ClipByGlobalNorm(1.0)}, "clip=ClipByGlobalNorm"),
        ({"regularizer": nn.regularizer.L2(0.1)}, r"regularizer=L2\(0.1\)"),
        ({"regularizer": nn.regularizer.L1(0.1)}, r"regularizer=L1\(0.1\)"),
    ],
)
def test_clips_and_regularizers_refuse_sparse_gradients(
    options: dict[str, Any], reader: str
) -> None:
    what = f"SGD: the gradient of '{TABLE}' must be dense for {reader}, got the rows of embedding"
    with pytest.raises(ProgramError, match=rf"{what}.*sparse=False.*without a "):
        Training(lambda: optimizer.SGD(0.1, **options))


def test_a_refused_gradient_leaves_the_program_unchanged() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        loss = layers.mean(look_up(layers.data("i", [None], "int64")))
        before = main.clone().global_block().ops, len(startup.global_block().ops)
        with pytest.raises(ProgramError, match="must be dense"):
            optimizer.AdamW(0.1).minimize(loss)
        after = main.global_block().ops, len(startup.global_block().ops)
    assert list(map(repr, after[0])) == list(map(repr, before[0]))
    assert after[1] == before[1]


def test_a_subclassed_optimizer_does_not_inherit_the_sparse_operator() -> None:
    class Own(optimizer.SGD):
        op_type = "adagrad"

        def states(self) -> Any:
            return (optimizer.State("squares"),)

    class Renamed(optimizer.SGD):
        pass

    assert Own.sparse_op_type is None
    assert Renamed.sparse_op_type == "sparse_sgd"
    with pytest.raises(ProgramError, match="Own: the gradient"):
        Training(lambda: Own(0.1))


def test_rows_and_values_are_variables_of_the_program() -> None:
    training = Training(LAZY["sgd"], [True, True], padding=[-1, 4])
    found = nn.get_sparse_rows(training.gradient)
    of_input = {rows.name: i for i, rows in enumerate(found.rows)}
    assert found.padding_indices[of_input["i0"]] == -1
    assert found.padding_indices[of_input["i1"]] == 4
    fetch = [training.gradient, *found.rows, *found.values]
    grad, *fetched = training.step([[1, 4]], [[4, 8]], fetch=fetch)
    wanted = np.zeros((ROWS, SIZE))
    pairs = zip(fetched[:2], fetched[2:], found.padding_indices, strict=True)
    for rows, part, padding in pairs:
        np.add.at(wanted, rows[rows != padding], part[rows != padding])
    np.testing.assert_allclose(grad, wanted, rtol=1e-13)


def test_rows_that_are_overwritten_before_the_update_are_refused() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        index = layers.data("i", [None], "int64")
        loss = layers.mean(look_up(index))
        pairs = ow.append_backward(loss)
        main.global_block().append_op("increment", {"x": index}, {"out": index}, {})
        with pytest.raises(ProgramError, match=r"must stay unchanged.*'i', which i = increment"):
            optimizer.SGD(0.1).apply_gradients(pairs)
        with pytest.raises(ProgramError, match="overwrites; make that write to another name"):
            nn.get_sparse_rows(pairs[0][1])


def test_a_loaded_program_trains_with_sparse_gradients() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        loss = layers.mean(look_up(layers.data("i", [None], "int64")))
        ((table, gradient),) = ow.append_backward(loss)
    again = ow.Program.from_proto(main.to_proto())
    startup = ow.Program()
    with ow.program_guard(again, startup):
        nn.optimize(again, "adam", {"learning_rate": 0.1}, {table.name: gradient.name})
    assert again.global_block().ops[-1].type == "sparse_adam"
    text = str(again)
    assert "sparse=True" in text
    assert "rows=[i], values=[" in text


def test_a_model_trains_with_sparse_gradients() -> None:
    model = nn.Model()
    vectors = model.embedding(input="word", size=[ROWS, SIZE], sparse=True)
    loss = model.mean(input=vectors)
    model.backward(loss)
    model.adam(learning_rate=0.1)
    model.fill("word", np.array([3, 3, 5]))
    model.initialize_parameters()
    (table,) = model.parameters
    before = model.scope.var(table.name).numpy()
    model.run()
    moved = (model.scope.var(table.name).numpy() != before).any(axis=1)
    assert np.flatnonzero(moved).tolist() == [3, 5]
