"""For pass authors: the graph, and the tools to change it.

A pass is a function of a `Graph`, named in the hook ``opwright_passes``. The function searches for
a pattern, creates its replacement, and passes it to an `Edit`:

>>> def fuse_add_relu(graph: Graph) -> None:
...     edit = graph.edit()
...     for relu in graph.of_type("relu"):
...         ((source,),) = relu.inputs
...         add = source.op
...         if add is None or add.type != "add":
...             continue
...         (x,), (y,) = add.inputs
...         made = graph.make(
...             "acme.add_relu", {"x": x, "y": y}, {"out": relu.outputs[0]}, like=relu
...         )
...         if graph.has_kernel(made):
...             edit.fuse([add, relu], [made])
...     edit.apply()

`Edit.fuse`, `Edit.exchange` and `Edit.bypass` refuse edits that could change results because other
operators or fetches need a lost value, memory is overwritten in between, or a kernel is pinned. A
pass must not change inputs, outputs or attributes of an operator already in the graph.
"""

from __future__ import annotations

from opwright.describe.meta import Meta
from opwright.lowering import LoweredPlan
from opwright.lowering.graph.signature import size_bytes
from opwright.lowering.graph.uses import Uses
from opwright.lowering.graph.values import Buffer, External, LoweredOp, Role, Value
from opwright.lowering.rewriting.edit import Edit
from opwright.lowering.rewriting.pass_graph import PassGraph as Graph
from opwright.lowering.rewriting.slots import (
    input_of,
    make_if_served,
    other_input,
    output_of,
    writer_of,
)

__all__ = [
    "Graph",
    "LoweredOp",
    "LoweredPlan",
    "Value",
    "Meta",
    "Edit",
    "Uses",
    "Buffer",
    "External",
    "Role",
    "size_bytes",
    "input_of",
    "output_of",
    "other_input",
    "writer_of",
    "make_if_served",
]
