"""Passes, each with one defect."""

import numpy as np

from opwright.op import OpMaker, same_shape_as

SLOW_RELU = (
    OpMaker("broken_pass_results.slow_relu")
    .add_comment("out = max(x, 0).")
    .add_input("x", "any shape, float")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(same_shape_as("x"), plan_only=True)
)


def slow_relu(x, out):
    for place in np.ndindex(x.shape):
        out[place] = x[place] if x[place] > 0 or np.isnan(x[place]) else 0


def swapped(graph):
    """relu(x - y) becomes relu(y - x)."""
    _swap(graph, turn_back=False)


def swapped_fixed(graph):
    """relu(x - y) becomes relu(-(y - x))."""
    _swap(graph, turn_back=True)


def _swap(graph, turn_back):
    edit = graph.edit()
    for relu in graph.of_type("relu"):
        source = relu.inputs[0][0].op
        if source is None or source.type != "subtract":
            continue
        (x,), (y,) = source.inputs
        if x.meta != y.meta or x.meta.dtype not in ("float32", "float64"):
            continue
        between, turned = (graph.value(name, x.meta) for name in ("swapped", "turned"))
        new = [graph.make("subtract", {"x": y, "y": x}, {"out": between}, like=source)]
        if turn_back:
            ends = {"x": between}, {"out": turned}
            new.append(graph.make("scale", *ends, {"scale": -1.0}, like=source))
            between = turned
        made = graph.make("relu", {"x": between}, {"out": relu.outputs[0][0]}, like=relu)
        edit.fuse([source, relu], [*new, made])
    edit.apply()


def unobserved(graph):
    """exp(tanh(x)) becomes exp(x)."""
    edit = graph.edit()
    for exp in graph.of_type("exp"):
        source = exp.inputs[0][0].op
        if source is not None and source.type == "tanh":
            x, out = source.inputs[0][0], exp.outputs[0][0]
            edit.fuse([source, exp], [graph.make("exp", {"x": x}, {"out": out}, like=exp)])
    edit.apply()


def never(graph):
    """Searches for an operator that reads its own result; no such operator exists."""
    for softplus in graph.of_type("softplus"):
        if softplus.inputs[0][0].op is softplus:
            raise AssertionError("an operator that reads its own result")


def slow(graph):
    edit = graph.edit()
    for relu in graph.of_type("relu"):
        x, out = relu.inputs[0][0], relu.outputs[0][0]
        made = graph.make("broken_pass_results.slow_relu", {"x": x}, {"out": out}, like=relu)
        if graph.has_kernel(made):
            edit.fuse([relu], [made])
    edit.apply()
