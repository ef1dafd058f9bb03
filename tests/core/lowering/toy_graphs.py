"""Toy operators, graphs built from them, and a pass that fuses an addition and a ReLU."""

from __future__ import annotations

import numpy as np

import opwright as ow
from opwright import current_context
from opwright.lowering import Fetches, Given, LowerRequest, Persistables, Target, lower
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.op import Meta, OpMaker, no_gradient, same_shape_as
from opwright.packages import Package

TOY = Package("toy", "opwright-toy", "1.0")
VEC = Meta((4,), "float32")


def make_toy(type, inputs, **build):
    maker = OpMaker(type).add_comment("A toy.")
    for name in inputs:
        maker.add_input(name, "any shape")
    maker.add_output("out", "as x").same_dtype_as("x")
    maker.add_attr("factor", float, "a factor").default(1.0)
    return maker.build(same_shape_as("x"), no_gradient("a toy"), **build)


def make_step():
    maker = OpMaker("toy.step").add_comment("param -= factor * x * y, in place.")
    maker.add_input("param", "any shape").add_input("x", "one").add_input("y", "other")
    maker.add_output("param_out", "is param").same_dtype_as("param").aliases("param")
    maker.add_attr("factor", float, "a factor").default(1.0)
    return maker.build(same_shape_as("param"), no_gradient("a toy"))


def add_relu(x, y, out, *, factor):
    np.maximum(factor * (x + y), 0, out=out)


def step(param, x, y, param_out, *, factor):
    np.subtract(param, factor * x * y, out=param_out)


def graph_of(ops, given=("x", "y"), fetches=("out",), persistables=(), lasting=()):
    request = LowerRequest(
        ops,
        Target(current_context()),
        Given(dict.fromkeys(given, VEC)),
        Persistables(dict.fromkeys(persistables, VEC), frozenset(lasting)),
        Fetches(fetches),
    )
    return GraphBuilder(request, lower).build()


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
