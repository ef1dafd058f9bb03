"""Passes: what an edit allows, what it refuses, and that a broken graph is found out."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.context import context_guard, current_context
from opwright.errors import PluginError, ShapeError, SlotError
from opwright.lowering import LowerRequest
from opwright.lowering.build_graph import GraphBuilder
from opwright.lowering.verify import find_fault, last_writes
from opwright.meta import Meta
from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright.registry import Package

TOY = Package("toy", "opwright-toy", "1.0")
VEC = Meta((4,), "float32")


def _toy(type, inputs, **build):
    maker = OpMaker(type).add_comment("A toy.")
    for name in inputs:
        maker.add_input(name, "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("factor", float, "a factor").default(1.0)
    return maker.build(same_shape_as("x"), no_gradient("a toy"), **build)


def _step():
    maker = OpMaker("toy.step").add_comment("param -= factor * x * y, in place.")
    maker.add_input("param", "any shape").add_input("x", "one").add_input("y", "other")
    maker.add_output("param_out", "is param").same_dtype_as("param").aliases("param")
    maker.add_attr("factor", float, "a factor").default(1.0)
    return maker.build(same_shape_as("param"), no_gradient("a toy"))


def add_relu(x, y, out, *, factor):
    np.maximum(factor * (x + y), 0, out=out)


def step(param, x, y, param_out, *, factor):
    np.subtract(param, factor * x * y, out=param_out)


@pytest.fixture
def context():
    made = ow.Context.discover()
    made.ops.add("toy.add_relu", _toy("toy.add_relu", ["x", "y"]), TOY)
    made.ops.add("toy.orphan", _toy("toy.orphan", ["x", "y"]), TOY)
    made.ops.add("toy.step", _step(), TOY)
    for name, kernel in [("toy.add_relu", add_relu), ("toy.step", step)]:
        made.kernels.add(
            name, device="cpu", dtypes=["float32"], kernel=kernel, library="toy", package=TOY
        )
    with context_guard(made):
        yield made


def graph_of(ops, given=("x", "y"), fetches=("out",), persistables=(), lasting=()):
    request = LowerRequest(
        ops,
        current_context(),
        given=dict.fromkeys(given, VEC),
        fetches=fetches,
        persistables=dict.fromkeys(persistables, VEC),
        lasting=frozenset(lasting),
    )
    return GraphBuilder(request).build()


def op(type, out, x, **slots):
    return ow.Operator(type, x=x, out=out, **slots)


def sgd(param, grad):
    return ow.Operator("toy.step", param=param, x=grad, y="x", param_out=param)


def types(graph):
    return [op.type for op in graph.ops]


def fuse_add_relu(graph, operator="toy.add_relu", at=None):
    edit = graph.edit()
    for relu in graph.of_type("relu"):
        ((source,),) = relu.inputs
        add = source.op
        if add is None or add.type != "add":
            continue
        (x,), (y,) = add.inputs
        made = graph.make(operator, {"x": x, "y": [y]}, {"out": relu.outputs[0]}, like=relu)
        if graph.has_kernel(made):
            edit.fuse([add, relu], [made], add if at == "first" else None)
    return edit.apply()


CHAIN = [("add", "h", "x", {"y": "y"}), ("relu", "out", "h", {})]


def chain(*extra):
    return [op(type, out, x, **slots) for type, out, x, slots in [*CHAIN, *extra]]


# What fuses, and what does not


def test_operators_are_fused_where_nobody_else_reads_what_is_between(context):
    graph = graph_of(chain())
    fetched = graph.sinks[0][0]
    assert fuse_add_relu(graph)
    assert types(graph) == ["toy.add_relu"]
    assert fetched.op is graph.ops[0]
    assert graph.ops[0].attrs["factor"] == 1.0
    assert find_fault(graph, {}) is None


@pytest.mark.parametrize(
    "case",
    [
        {"ops": chain(("tanh", "z", "h", {})), "fetches": ("out", "z")},
        {"ops": chain(), "fetches": ("out", "h")},
        {"ops": chain(), "lasting": ("h",)},
    ],
    ids=["read by another", "fetched", "persistable"],
)
def test_operators_stay_where_what_is_between_is_needed(context, case):
    graph = graph_of(**case)
    before = list(graph.ops)
    assert not fuse_add_relu(graph)
    assert graph.ops == before


def test_a_value_whose_shape_alone_is_read_may_go(context):
    graph = graph_of(chain(("fill_like", "z", "h", {"value": 2.0})), fetches=("out", "z"))
    assert fuse_add_relu(graph)
    assert types(graph) == ["toy.add_relu", "fill_like"]
    assert find_fault(graph, {}) is None


def test_an_operator_without_a_kernel_for_it_is_left_alone(context):
    graph = graph_of(chain())
    assert not fuse_add_relu(graph, "toy.orphan")
    assert graph.definition("toy.missing") is None


def test_a_pinned_kernel_is_not_fused_away(context):
    with context_guard(context.with_pins({"add": "numpy"})):
        assert not fuse_add_relu(graph_of(chain()))
    with context_guard(context.with_pins({"*": "numpy"})):
        assert not fuse_add_relu(graph_of(chain()))
    with context_guard(context.with_pins({"*": "toy"})):
        assert fuse_add_relu(graph_of(chain()))


# The order of reads and writes


def _update(*between):
    """``g = x * y; w -= g * x`` with operators between."""
    return [
        op("multiply", "g", "x", y="y"),
        *between,
        sgd("w", "g"),
    ]


def _merge_update(graph, at=-1):
    """Merge the product and the update; the update is ``toy.step`` of the product's inputs."""
    (product,) = graph.of_type("multiply")
    (update,) = graph.of_type("toy.step")
    (w,), _, _ = update.inputs
    (x,), (y,) = product.inputs
    made = graph.make(
        "toy.step", {"param": w, "x": x, "y": y}, {"param_out": update.outputs[0]}, like=update
    )
    edit = graph.edit()
    done = edit.fuse([product, update], [made], (product, update)[at])
    edit.apply()
    return done


def _updated(*between, fetches=("w",)):
    return graph_of(_update(*between), fetches=fetches, persistables=("w",), lasting=("w",))


def test_an_update_takes_over_its_parameter(context):
    graph = _updated(op("tanh", "t", "w"), fetches=("w", "t"))
    lasting = last_writes(graph)
    assert _merge_update(graph)
    assert types(graph) == ["tanh", "toy.step"]
    assert find_fault(graph, lasting) is None


def test_an_update_does_not_move_before_another_reader_of_its_parameter(context):
    graph = _updated(op("tanh", "t", "w"), fetches=("w", "t"))
    product, _, update = graph.ops
    assert not graph.uses().may_move(update, product)
    assert graph.uses().may_move(product, update)
    assert not _merge_update(graph, at=0)
    assert _merge_update(_updated(op("tanh", "t", "x"), fetches=("w", "t")), at=0)


def test_a_read_does_not_move_behind_a_write_of_its_memory(context):
    ops = [op("multiply", "g", "w", y="y"), sgd("w", "x"), op("relu", "out", "g")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    product, _, relu = graph.ops
    assert not graph.uses().may_move(product, relu)
    (w,), (y,) = product.inputs
    made = graph.make("toy.add_relu", {"x": w, "y": y}, {"out": relu.outputs[0]}, like=relu)
    assert not graph.edit().fuse([product, relu], [made])
    assert graph.edit().fuse([product, relu], [made], at=product)


def test_two_updates_of_one_parameter_become_one(context):
    graph = graph_of([sgd("w", "x"), sgd("w", "y")], ("x", "y"), ("w",), ("w",), ("w",))
    lasting = last_writes(graph)
    first, second = graph.ops
    slots = {"param": first.inputs[0], "x": first.inputs[1], "y": second.inputs[1]}
    made = graph.make("toy.step", slots, {"param_out": second.outputs[0]}, like=second)
    edit = graph.edit()
    assert edit.fuse([first, second], [made])
    edit.apply()
    assert find_fault(graph, lasting) is None


def test_a_lost_update_is_refused(context):
    graph = _updated()
    update = graph.ops[-1]
    assert not graph.edit().fuse([update], [])


# Several changes in one edit


def test_an_operator_is_taken_by_one_change_only(context):
    graph = graph_of(chain())
    edit = graph.edit()
    add, relu = graph.ops
    (x,), (y,) = add.inputs
    made = graph.make("toy.add_relu", {"x": x, "y": y}, {"out": relu.outputs[0]}, like=relu)
    assert edit.fuse([add, relu], [made])
    assert not edit.fuse([relu], [made])
    assert not edit.bypass(add, x)


def test_a_value_that_a_change_reads_anew_is_not_lost_by_the_next(context):
    ops = [op("exp", "a", "x"), op("tanh", "b", "a"), op("relu", "out", "y")]
    graph = graph_of([*ops, op("abs", "z", "b")], fetches=("out", "z"))
    exp, tanh, relu, _ = graph.ops
    (a,), (y,) = exp.outputs[0], relu.inputs[0]
    reads_a = graph.make("toy.add_relu", {"x": y, "y": a}, {"out": relu.outputs[0]}, like=relu)
    (x,) = exp.inputs[0]
    direct = graph.make("tanh", {"x": x}, {"out": tanh.outputs[0]}, like=tanh)
    edit = graph.edit()
    assert edit.fuse([relu], [reads_a])
    assert not edit.fuse([exp, tanh], [direct])
    other = graph.edit()
    assert other.fuse([exp, tanh], [direct])
    assert not other.fuse([relu], [reads_a])


def test_moves_to_the_front_and_to_the_back_are_not_mixed(context):
    ops = [op("exp", "a", "x"), op("exp", "b", "y"), op("relu", "out", "a"), op("abs", "z", "b")]
    graph = graph_of(ops, fetches=("out", "z"))
    first, second, relu, last = graph.ops
    edit = graph.edit()
    again = graph.make("exp", {"x": first.inputs[0]}, {"out": relu.outputs[0]}, like=first)
    other = graph.make("exp", {"x": second.inputs[0]}, {"out": last.outputs[0]}, like=first)
    assert edit.fuse([first, relu], [again])
    assert not edit.fuse([second, last], [other], at=second)
    assert edit.fuse([second, last], [other])


def test_a_new_value_joins_new_operators(context):
    graph = graph_of(chain())
    add, relu = graph.ops
    between = graph.value("between", VEC)
    (x,), (y,) = add.inputs
    product = graph.make("multiply", {"x": x, "y": y}, {"out": between}, like=add)
    out = graph.make("abs", {"x": between}, {"out": relu.outputs[0]}, like=add)
    edit = graph.edit()
    assert not edit.fuse([add, relu], [out, product])
    assert edit.fuse([add, relu], [product, out])
    edit.apply()
    assert between.op is product
    assert find_fault(graph, {}) is None


# Bypass and views


def test_readers_read_what_stands_in_for_an_operator_without_effect(context):
    graph = graph_of([op("assign", "a", "x"), op("assign", "b", "a"), op("relu", "out", "b")])
    edit = graph.edit()
    for assign in graph.of_type("assign"):
        assert edit.bypass(assign, edit.current(assign.inputs[0][0]))
    edit.apply()
    assert types(graph) == ["relu"]
    assert graph.ops[0].inputs[0][0].name == "x"
    assert find_fault(graph, {}) is None


def test_a_bypassed_value_must_live_as_long_as_it_is_read(context):
    ops = [op("assign", "a", "w"), sgd("w", "x"), op("relu", "out", "a")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    assign = graph.ops[0]
    assert not graph.edit().bypass(assign, assign.inputs[0][0])


def test_what_is_fetched_or_written_in_place_is_not_bypassed(context):
    graph = graph_of([op("assign", "out", "x")])
    assert not graph.edit().bypass(graph.ops[0], graph.ops[0].inputs[0][0])
    graph = graph_of([op("assign", "a", "x"), sgd("a", "y")], fetches=("a",))
    assert not graph.edit().bypass(graph.ops[0], graph.ops[0].inputs[0][0])


def test_a_view_shows_the_same_data_in_another_shape(context):
    graph = graph_of([op("exp", "a", "x"), op("relu", "out", "a")])
    exp, relu = graph.ops
    (a,) = exp.outputs[0]
    view = graph.view(a, Meta((2, 2), "float32"))
    again = graph.view(view, Meta((4,), "float32"))
    assert again.source is a
    edit = graph.edit()
    assert edit.fuse(
        [relu], [graph.make("relu", {"x": again}, {"out": relu.outputs[0]}, like=relu)]
    )
    edit.apply()
    assert find_fault(graph, {}) is None
    assert graph.uses().only_reader(a) is graph.ops[1]
    with pytest.raises(ShapeError, match="view"):
        graph.view(a, Meta((5,), "float32"))


# Making operators


def test_a_made_operator_is_checked(context):
    graph = graph_of(chain())
    add, relu = graph.ops
    (x,), (y,) = add.inputs
    (out,) = relu.outputs[0]
    with pytest.raises(SlotError, match="unknown input"):
        graph.make("toy.add_relu", {"x": x, "z": y}, {"out": out}, like=add)
    wrong = graph.value("wrong", Meta((5,), "float32"))
    with pytest.raises(ShapeError, match="output 'out'"):
        graph.make("toy.add_relu", {"x": x, "y": y}, {"out": wrong}, like=add)
    with pytest.raises(SlotError, match="memory of input"):
        graph.make("toy.step", {"param": x, "x": x, "y": y}, {"param_out": out}, like=add)
    with pytest.raises(SlotError, match="a view"):
        graph.make("abs", {"x": x}, {"out": graph.view(out, VEC)}, like=add)


def test_an_edit_knows_only_operators_of_its_graph(context):
    graph, other = graph_of(chain()), graph_of(chain())
    with pytest.raises(PluginError, match="operators of the graph"):
        graph.edit().fuse(other.ops, [])
    with pytest.raises(PluginError, match="sources must fit"):
        graph.edit().bypass(graph.ops[0])


# Passes in a compiled network


def _compiled(context, function, **options):
    context.passes.add("toy_pass", phase="fuse", function=function, package=TOY)
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
def test_a_pass_is_switched_by_its_name(context, passes, operators):
    assert _compiled(context, fuse_add_relu, passes=passes) == operators


def test_names_of_passes_are_checked(context):
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
def test_a_pass_that_loses_a_value_is_named_with_the_value(context, function, blamed):
    with pytest.raises(PluginError, match=f"pass 'toy_pass' of opwright-toy 1.0 .*{blamed}"):
        _compiled(context, function)


def test_a_pass_that_edits_an_operator_by_hand_is_found_in_strict_mode(context, monkeypatch):
    def edit(graph):
        stranger = graph.value("stranger", VEC)
        graph.ops[1].inputs = ((stranger,),)

    monkeypatch.setenv("OPWRIGHT_STRICT", "1")
    with pytest.raises(PluginError, match="relu reads stranger"):
        _compiled(context, edit)


def test_a_pass_that_loses_the_write_of_a_persistable_is_found(context):
    graph = graph_of([sgd("w", "x"), sgd("w", "y")], ("x", "y"), ("x",), ("w",), ("w",))
    lasting = last_writes(graph)
    graph.ops.pop()
    assert "persistable w" in find_fault(graph, lasting)
    graph.ops.pop()
    assert "persistable w" in find_fault(graph, lasting)


def test_a_read_of_overwritten_memory_is_found(context):
    ops = [op("tanh", "out", "w"), sgd("w", "x")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    lasting = last_writes(graph)
    assert find_fault(graph, lasting) is None
    graph.ops.reverse()
    assert "tanh reads w" in find_fault(graph, lasting)
