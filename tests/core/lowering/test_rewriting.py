"""Edits of a graph are applied only if they cannot change a result."""

from __future__ import annotations

import pytest

from opwright import context_guard
from opwright.errors import PluginError, ShapeError, SlotError
from opwright.lowering.graph.uses import Uses
from opwright.lowering.rewriting.passes import find_violation
from opwright.op import Meta
from opwright.rewriting import make_if_served

from .toy_graphs import VEC, chain, fuse_add_relu, graph_of, op, sgd, types

# Fusible and non-fusible operators


def test_operators_are_fused_if_the_intermediate_value_has_no_other_reader(context):
    graph = graph_of(chain())
    fetched = graph.sinks[0][0]
    assert fuse_add_relu(graph)
    assert types(graph) == ["toy.add_relu"]
    assert fetched.op is graph.ops[0]
    assert graph.ops[0].attrs["factor"] == 1.0
    assert find_violation(graph) is None


@pytest.mark.parametrize(
    "case",
    [
        {"ops": chain(("tanh", "z", "h", {})), "fetches": ("out", "z")},
        {"ops": chain(), "fetches": ("out", "h")},
        {"ops": chain(), "lasting": ("h",)},
    ],
    ids=["read by another", "fetched", "persistable"],
)
def test_operators_are_not_fused_if_the_intermediate_value_is_needed(context, case):
    graph = graph_of(**case)
    before = list(graph.ops)
    assert not fuse_add_relu(graph)
    assert graph.ops == before


def test_a_value_read_only_for_its_shape_can_be_dropped(context):
    graph = graph_of(chain(("fill_like", "z", "h", {"value": 2.0})), fetches=("out", "z"))
    assert fuse_add_relu(graph)
    assert types(graph) == ["toy.add_relu", "fill_like"]
    assert find_violation(graph) is None


def test_operators_are_not_fused_if_the_fused_operator_has_no_kernel(context):
    graph = graph_of(chain())
    assert not fuse_add_relu(graph, "toy.orphan")
    assert graph.definition("toy.missing") is None


def test_an_operator_type_is_supported_if_the_device_of_the_plan_has_a_kernel(context):
    graph = graph_of(chain())
    asked = ("toy.add_relu", "toy.orphan", "toy.missing")
    assert [graph.is_served(op_type) for op_type in asked] == [True, False, False]


def test_an_operator_with_a_pinned_kernel_is_not_fused(context):
    with context_guard(context.with_pins({"add": "numpy"})):
        assert not fuse_add_relu(graph_of(chain()))
    with context_guard(context.with_pins({"*": "numpy"})):
        assert not fuse_add_relu(graph_of(chain()))
    with context_guard(context.with_pins({"*": "toy"})):
        assert fuse_add_relu(graph_of(chain()))


@pytest.mark.parametrize(("pins", "done"), [({"add": "numpy"}, True), ({"*": "toy"}, False)])
def test_a_pin_also_applies_to_operators_that_an_edit_adds(context, pins, done):
    with context_guard(context.with_pins(pins)):
        graph = graph_of(chain())
        add = graph.ops[0]
        (x,), (y,), (out,) = *add.inputs, add.outputs[0]
        between = graph.value("between", x.meta)
        first = graph.make("toy.add_relu", {"x": x, "y": y}, {"out": between}, like=add)
        second = graph.make("add", {"x": between, "y": y}, {"out": out}, like=add)
        assert graph.edit().fuse([add], [first, second]) == done


# The order of reads and writes


def _update(*between):
    """Return ``g = x * y; w -= g`` with operators in between."""
    return [
        op("multiply", "g", "x", y="y"),
        *between,
        sgd("w", "g"),
    ]


def _merge_update(graph, at=-1):
    """Fuse product and update into one ``toy.step`` that reads the inputs of the product."""
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


def test_a_fused_update_writes_its_parameter_in_place(context):
    graph = _updated(op("tanh", "t", "w"), fetches=("w", "t"))
    assert _merge_update(graph)
    assert types(graph) == ["tanh", "toy.step"]
    assert find_violation(graph) is None


def test_an_update_does_not_move_before_another_reader_of_its_parameter(context):
    graph = _updated(op("tanh", "t", "w"), fetches=("w", "t"))
    product, _, update = graph.ops
    assert not graph.uses().may_move(update, product)
    assert graph.uses().may_move(product, update)
    assert not _merge_update(graph, at=0)
    assert _merge_update(_updated(op("tanh", "t", "x"), fetches=("w", "t")), at=0)


def test_a_read_does_not_move_after_a_write_to_its_memory(context):
    ops = [op("multiply", "g", "w", y="y"), sgd("w", "x"), op("relu", "out", "g")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    product, _, relu = graph.ops
    assert not graph.uses().may_move(product, relu)
    (w,), (y,) = product.inputs
    made = graph.make("toy.add_relu", {"x": w, "y": y}, {"out": relu.outputs[0]}, like=relu)
    assert not graph.edit().fuse([product, relu], [made])
    assert graph.edit().fuse([product, relu], [made], at=product)


def test_two_updates_of_one_parameter_are_merged(context):
    graph = graph_of([sgd("w", "x"), sgd("w", "y")], ("x", "y"), ("w",), ("w",), ("w",))
    first, second = graph.ops
    slots = {"param": first.inputs[0], "x": first.inputs[1], "y": second.inputs[1]}
    made = graph.make("toy.step", slots, {"param_out": second.outputs[0]}, like=second)
    edit = graph.edit()
    assert edit.fuse([first, second], [made])
    edit.apply()
    assert find_violation(graph) is None


def test_a_lost_update_is_refused(context):
    graph = _updated()
    update = graph.ops[-1]
    assert not graph.edit().fuse([update], [])


# Several changes in one edit


def test_an_operator_can_be_part_of_only_one_change(context):
    graph = graph_of(chain())
    edit = graph.edit()
    add, relu = graph.ops
    (x,), (y,) = add.inputs
    made = graph.make("toy.add_relu", {"x": x, "y": y}, {"out": relu.outputs[0]}, like=relu)
    assert edit.fuse([add, relu], [made])
    assert not edit.fuse([relu], [made])
    assert not edit.bypass(add, x)


def test_a_later_change_must_not_remove_a_value_that_an_earlier_change_reads(context):
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


def test_changes_that_move_operators_in_opposite_directions_are_refused(context):
    ops = [op("exp", "a", "x"), op("exp", "b", "y"), op("relu", "out", "a"), op("abs", "z", "b")]
    graph = graph_of(ops, fetches=("out", "z"))
    first, second, relu, last = graph.ops
    edit = graph.edit()
    again = graph.make("exp", {"x": first.inputs[0]}, {"out": relu.outputs[0]}, like=first)
    other = graph.make("exp", {"x": second.inputs[0]}, {"out": last.outputs[0]}, like=first)
    assert edit.fuse([first, relu], [again])
    assert not edit.fuse([second, last], [other], at=second)
    assert edit.fuse([second, last], [other])


def test_new_operators_can_be_connected_by_a_new_value(context):
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
    assert find_violation(graph) is None


def test_operators_are_looked_up_by_type_after_the_last_edit(context):
    graph = graph_of(chain())
    assert [found.type for found in graph.of_type("relu", "add", "exp")] == ["add", "relu"]
    assert fuse_add_relu(graph)
    assert graph.of_type("relu", "add") == []
    assert graph.of_type("toy.add_relu", "toy.add_relu") == graph.ops
    graph.ops = []
    assert graph.of_type("toy.add_relu") == []


# Bypass and views


def test_readers_of_a_bypassed_operator_read_its_input(context):
    graph = graph_of([op("assign", "a", "x"), op("assign", "b", "a"), op("relu", "out", "b")])
    edit = graph.edit()
    for assign in graph.of_type("assign"):
        assert edit.bypass(assign, edit.current(assign.inputs[0][0]))
    edit.apply()
    assert types(graph) == ["relu"]
    assert graph.ops[0].inputs[0][0].name == "x"
    assert find_violation(graph) is None


def test_the_use_index_is_up_to_date_after_an_edit(context):
    ops = [op("assign", "a", "x"), *chain(), op("relu", "b", "a"), op("add", "c", "a", y="b")]
    # Without these additional operators, the edit would change half of the graph and rebuild the
    # index.
    ops += [op("tanh", f"z{i}", "b") for i in range(6)]
    graph = graph_of(ops, fetches=("out", "c", *(f"z{i}" for i in range(6))))
    first = graph.uses()
    assert fuse_add_relu(graph)
    edit = graph.edit()
    (assign,) = graph.of_type("assign")
    assert edit.bypass(assign, assign.inputs[0][0])
    edit.apply()
    uses, fresh = graph.uses(), Uses(graph)
    assert uses is first
    assert uses.position == fresh.position == {one: i for i, one in enumerate(graph.ops)}
    for value in (*(value for one in graph.ops for value in one.data_reads()), *assign.writes()):
        assert uses.readers(value) == fresh.readers(value)
        assert uses.written_at(value) == fresh.written_at(value)


def test_an_input_overwritten_before_the_read_cannot_replace_the_copy(context):
    ops = [op("assign", "a", "w"), sgd("w", "x"), op("relu", "out", "a")]
    graph = graph_of(ops, persistables=("w",), lasting=("w",))
    assign = graph.ops[0]
    assert not graph.edit().bypass(assign, assign.inputs[0][0])


def test_values_fetched_or_written_in_place_are_not_bypassed(context):
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
    assert find_violation(graph) is None
    assert graph.uses().only_reader(a) is graph.ops[1]
    with pytest.raises(ShapeError, match="view"):
        graph.view(a, Meta((5,), "float32"))


# Making operators


def test_an_operator_created_by_a_pass_is_checked(context):
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


def test_invalid_shapes_raise_instead_of_counting_as_a_missing_kernel(context):
    graph = graph_of(chain())
    add, relu = graph.ops
    wrong = graph.value("wrong", Meta((5,), "float32"))
    with pytest.raises(ShapeError, match="output 'out'"):
        make_if_served(graph, "abs", {"x": add.inputs[0][0]}, {"out": wrong}, {}, relu)


def test_an_edit_refuses_operators_of_another_graph(context):
    graph, other = graph_of(chain()), graph_of(chain())
    with pytest.raises(PluginError, match="operators of the graph"):
        graph.edit().fuse(other.ops, [])
    with pytest.raises(PluginError, match="sources must fit"):
        graph.edit().bypass(graph.ops[0])
