"""``Network.run`` runs a block or a list of operators on the variables of a scope."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError, ProgramError


def _chain():
    network = ow.Network()
    network.add_op(ow.Operator("square", x="a", out="b"))
    network.add_op(ow.Operator("add", x="b", y="a", out="c"))
    network.add_op(ow.Operator("relu", x="c", out="d"))
    return network


def _scope(**arrays):
    scope = ow.Scope()
    for name, array in arrays.items():
        scope.var(name).set(np.asarray(array, np.float32))
    return scope


def test_every_written_variable_is_in_the_scope():
    scope = _scope(a=[-1.0, 2.0])
    _chain().run(scope)
    np.testing.assert_allclose(scope.find_var("b").numpy(), [1, 4])
    np.testing.assert_allclose(scope.find_var("c").numpy(), [0, 6])
    np.testing.assert_allclose(scope.find_var("d").numpy(), [0, 6])


def test_a_range_runs_only_its_operators():
    scope = _scope(a=[3.0], b=[10.0])
    _chain().run(scope, first=1, last=1)
    np.testing.assert_allclose(scope.find_var("c").numpy(), [13])
    assert scope.find_var("d") is None


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (3, None, r"first must be in \[0, 3\), got 3"),
        (None, 7, r"last must be in \[0, 3\), got 7"),
        (2, 0, "first must not be after last, got 2 and 0"),
        (True, None, "first must be an index, got True"),
    ],
)
def test_a_range_outside_the_network_is_refused(first, last, text):
    with pytest.raises(ProgramError, match=text):
        _chain().run(_scope(a=[1.0]), first, last)


def test_add_op_returns_the_index_and_new_operators_run():
    network = _chain()
    assert network.add_op(ow.Operator("negative", x="d", out="e")) == 3
    scope = _scope(a=[2.0])
    network.run(scope)
    np.testing.assert_allclose(scope.find_var("e").numpy(), [-6])


def test_operators_added_to_a_network_run_after_the_operators_of_its_block():
    program = ow.Program()
    block = program.global_block()
    block.create_var("a", [2])
    block.append_op("square", {"x": "a"}, {"out": "b"})
    network = ow.Network(block)
    assert network.add_op(ow.Operator("negative", x="b", out="c")) == 1
    scope = _scope(a=[1.0, 2.0])
    network.run(scope)
    np.testing.assert_allclose(scope.find_var("c").numpy(), [-1, -4])


def test_a_variable_with_a_different_shape_is_replaced():
    scope = _scope(a=[1.0, 2.0])
    network = _chain()
    network.run(scope)
    scope.var("a").set(np.ones((3, 2), np.float32))
    network.run(scope)
    assert scope.find_var("d").shape == (3, 2)


def test_the_error_for_reading_an_unwritten_value_names_operator_slot_and_variable():
    with pytest.raises(ProgramError, match=r"square: x must be written before it is read, got 'a'"):
        _chain().run(ow.Scope())


def test_two_operators_can_write_the_same_variable():
    network = ow.Network(
        [ow.Operator("square", x="a", out="b"), ow.Operator("add", x="b", y="a", out="b")]
    )
    scope = _scope(a=[3.0])
    network.run(scope)
    np.testing.assert_allclose(scope.find_var("b").numpy(), [12])


def test_an_operator_can_overwrite_its_input():
    network = ow.Network([ow.Operator("matmul", x="a", y="a", out="a")])
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    scope = _scope(a=a)
    network.run(scope)
    np.testing.assert_allclose(scope.find_var("a").numpy(), a @ a)


def test_a_persistable_cannot_change_its_shape_within_a_network():
    ops = [ow.Operator("reshape", x="a", out="a", shape=[4])]
    with pytest.raises(ProgramError, match="keeps one shape and dtype within a network"):
        ow.Network(ops).run(_scope(a=np.ones((2, 2))))


def test_the_error_for_a_failing_kernel_names_operator_values_package_and_outputs(
    reference_kernels,
):
    ops = [
        ow.Operator("square", x="a", out="b"),
        ow.Operator("one_hot", x="ids", out="c", depth=3),
    ]
    scope = _scope(a=[1.0])
    scope.var("ids").set(np.array([7]))
    text = (
        r"(?s)one_hot\[cpu\]: operator 1 failed in its kernel 'numpy' of opwright-std .*"
        r"inputs: ids int64\[1\].*already updated: b"
    )
    with pytest.raises(KernelError, match=text) as caught:
        ow.Network(ops).run(scope)
    assert isinstance(caught.value.__cause__, ValueError)
    np.testing.assert_allclose(scope.find_var("b").numpy(), [1])
    scope.var("ids").set(np.array([2]))
    ow.Network(ops).run(scope)
    np.testing.assert_allclose(scope.find_var("c").numpy(), [[0, 0, 1]])


def test_networks_accept_only_blocks_or_operators():
    with pytest.raises(ProgramError, match="must be given a Block or Operators, got int"):
        ow.Network(3)
    with pytest.raises(ProgramError, match="must be given an Operator, got str"):
        ow.Network(["relu"])


def test_the_default_scope_is_used_and_can_be_replaced():
    scope = _scope(a=[2.0])
    with ow.scope_guard(scope):
        _chain().run()
    np.testing.assert_allclose(scope.find_var("d").numpy(), [6])


def test_child_scopes_read_from_their_parents_and_write_only_themselves():
    parent = _scope(a=[2.0])
    child = parent.new_scope()
    _chain().run(child)
    assert parent.find_var("d") is None
    np.testing.assert_allclose(child.find_var("d").numpy(), [6])
