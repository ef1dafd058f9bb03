"""Passes of a compiled network are switched by name, and raise if they remove a value."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.discovery.discover import Settings
from opwright.errors import PluginError
from opwright.lowering.rewriting.passes import find_violation
from opwright.rewriting import Meta, make_if_served

from .toy_graphs import TOY, VEC, fuse_add_relu, graph_of, op, sgd


def _compiled(context, function, phase="fuse", operators=(), **options):
    context.passes.add("toy_pass", phase=phase, function=function, package=TOY, operators=operators)
    program = ow.Program()
    block = program.global_block()
    for name in ("x", "y"):
        block.create_var(name, [4])
    block.append_op("add", {"x": "x", "y": "y"}, {"out": "h"})
    block.append_op("relu", {"x": "h"}, {"out": "out"})
    network = ow.Network(block)
    call = network.compile(feed=["x", "y"], fetch=["out"], scope=ow.Scope(), **options)
    x, y = np.array([1, -2, 3, -4], np.float32), np.ones(4, np.float32)
    (out,) = call(x=x, y=y)
    np.testing.assert_array_equal(out, np.maximum(x + y, 0))
    return network.placement().operators


@pytest.mark.parametrize(
    ("passes", "operators"),
    [(None, 1), (["toy_pass"], 1), ([], 2), (["-toy_pass"], 2)],
)
def test_a_pass_is_switched_on_and_off_by_its_name(context, passes, operators):
    assert _compiled(context, fuse_add_relu, passes=passes) == operators


def test_unknown_pass_names_raise(context):
    with pytest.raises(PluginError, match="unknown pass, got 'toy_fuss'"):
        _compiled(context, fuse_add_relu, passes=["-toy_fuss"])
    context.passes.add("other", phase="fuse", function=fuse_add_relu, package=TOY)
    program = ow.Program()
    program.global_block().create_var("x", [4])
    program.global_block().append_op("relu", {"x": "x"}, {"out": "z"})
    network = ow.Network(program.global_block())
    call = network.compile(feed=["x"], fetch=["z"], passes=["-toy_pass", "other"])
    with pytest.raises(PluginError, match="one or the other"):
        call(x=np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("operators", "count"),
    [(["relu"], 1), (["exp", "add"], 1), (["*.relu"], 1), (["exp"], 2), (["*.exp"], 2)],
)
def test_a_pass_runs_only_if_the_graph_has_an_operator_that_it_names(context, operators, count):
    assert _compiled(context, fuse_add_relu, operators=operators) == count


def test_a_pass_is_not_imported_if_the_graph_has_no_operator_that_it_names(context):
    assert _compiled(context, "no_such_module:toy_pass", operators=["exp"]) == 2


def test_a_star_matches_operators_of_any_plugin(context):
    graph = graph_of([op("tanh", "out", "x")], ("x",))
    graph.ops[0].type = "acme.tanh"
    assert "*.tanh" in graph.type_names()
    assert "tanh" not in graph.type_names()


def _drop_first(graph):
    graph.ops = graph.ops[1:]


def _drop_last(graph):
    graph.ops = graph.ops[:-1]


def _turn_round(graph):
    graph.ops.reverse()


@pytest.mark.parametrize(
    ("function", "blamed"),
    [(_drop_first, "relu reads h"), (_drop_last, "out .* is fetched"), (_turn_round, "reads h")],
)
def test_the_error_for_a_removed_value_names_the_pass_and_the_value(context, function, blamed):
    with pytest.raises(PluginError, match=f"pass 'toy_pass' of opwright-toy 1.0 .*{blamed}"):
        _compiled(context, function)


def test_a_pass_may_assign_any_iterable_of_operators(context):
    def assign(graph):
        graph.ops = tuple(graph.ops)

    assert _compiled(context, assign) == 2


def test_a_pass_may_use_numpy_integers_in_shapes_and_a_frozenset_of_operators(context):
    def fuse(graph):
        add, relu = graph.ops
        (x,), (y,) = add.inputs
        shape = [np.int64(2), np.int32(2)]
        assert graph.view(x, Meta(shape, "float32")).meta == ((2, 2), "float32")
        assert graph.value("h", Meta(np.array(shape), "float32")).meta == ((2, 2), "float32")
        assert graph.uses().stays_within(add.outputs[0][0], frozenset([relu]))
        definition = graph.definition("toy.add_relu")
        slots = {"x": x, "y": y}, {"out": relu.outputs[0]}
        made = make_if_served(graph, definition, *slots, {}, relu)
        edit = graph.edit()
        assert edit.fuse([add, relu], [made])
        edit.apply()

    assert _compiled(context, fuse) == 1


def _assign_none(graph):
    graph.ops = None


def _delete_operators(graph):
    del graph.ops


@pytest.mark.parametrize("function", [_assign_none, _delete_operators])
def test_a_pass_without_a_list_of_operators_raises(context, function):
    with pytest.raises(PluginError, match="pass 'toy_pass' of opwright-toy 1.0 failed"):
        _compiled(context, function)


def test_strict_mode_detects_a_pass_that_edits_an_operator_directly(context, monkeypatch):
    def edit(graph):
        stranger = graph.value("stranger", VEC)
        graph.ops[1].inputs = ((stranger,),)

    monkeypatch.setattr(context, "settings", Settings(strict=True))
    with pytest.raises(PluginError, match="relu reads stranger"):
        _compiled(context, edit)


def test_a_pass_that_removes_the_write_of_a_persistable_is_detected(context):
    graph = graph_of([sgd("w", "x"), sgd("w", "y")], ("x", "y"), ("x",), ("w",), ("w",))
    graph.ops.pop()
    assert "persistable w" in find_violation(graph)
    graph.ops.pop()
    assert "persistable w" in find_violation(graph)


def test_a_read_of_overwritten_memory_is_detected(context):
    ops = [op("tanh", "out", "w"), sgd("w", "x")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    assert find_violation(graph) is None
    graph.ops.reverse()
    assert "tanh reads w" in find_violation(graph)


def test_a_pass_that_runs_after_kernel_selection_must_choose_its_kernels(context):
    assert _compiled(context, fuse_add_relu, "memory") == 1


def test_an_operator_without_a_kernel_is_detected(context):
    def fuse(graph):
        add, relu = graph.ops
        (x,), (y,) = add.inputs
        made = graph.make("toy.add_relu", {"x": x, "y": y}, {"out": relu.outputs[0]}, like=add)
        edit = graph.edit()
        assert edit.fuse([add, relu], [made])
        edit.apply()

    with pytest.raises(PluginError, match="toy_pass.* toy.add_relu has no kernel"):
        _compiled(context, fuse, "memory")
