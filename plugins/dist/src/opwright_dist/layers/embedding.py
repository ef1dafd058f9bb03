"""`embedding` with a table distributed over n processes, each of which stores every n-th row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_dist.groups.world import WORLD, current_world
from opwright_dist.layers.parameters import divide, mark
from opwright_dist.names import TABLE
from opwright_nn import arguments, checks, operators
from opwright_nn import layers as nn_layers
from opwright_nn.initializer import Normal
from opwright_nn.layers.inputs import Input, find_input
from opwright_nn.layers.layer import Layer, begin
from opwright_nn.parameters.param_attr import ParamLike

_WHO = "dist.embedding"


@arguments.suggest
@ow.transaction()
def embedding(
    ids: Input,
    size: Iterable[int],
    *,
    group: str = WORLD,
    padding_index: int = -1,
    sparse: bool = False,
    dtype: object = "float32",
    name: str | None = None,
    param_attr: ParamLike | None = None,
) -> ow.Variable:
    """Append a lookup of `ids` in a table whose rows are distributed over n processes.

    The row of id i is on process ``i % n``, so the load is balanced even if small ids are frequent,
    as in a vocabulary sorted by frequency. Each process sends its distinct ids to the owners of
    their rows, receives the rows, and sends their gradients back. Only requested rows are
    transferred, and none are dropped. All processes must have the same number of ids.

    Gradients are computed for the mean of the process losses, with equal weights, as for
    `data_parallel` over the same group.

    Parameters
    ----------
    ids : Variable or str, int32 or int64
        Each in [0, rows).
    size : (rows, columns)
        The shape of the complete table.
    group : str
        The processes that own the rows.
    padding_index : int
        The id whose vector is zero and not trained, or -1 if there is no such id.
    sparse : bool
        Whether optimizers update only the rows that any process looked up.
    dtype : str or NumPy dtype
        The dtype of the table, a float.
    name : str, optional
        The prefix of its variable names.
    param_attr : ParamAttr or Initializer, optional
        For ``<name>_w_param``, with 1 + ⌈rows / n⌉ rows per process. The first row is zero, for ids
        without a row. By default normal with standard deviation ``columns ** -0.5``, with the same
        numbers as in a single process.

    Returns
    -------
    Variable
        Its shape is the shape of `ids` followed by `columns`.

    Raises
    ------
    AttributeValueError
        If a size or `padding_index` is out of range.
    DistError
        If the group is unknown.
    """
    ids = find_input(_WHO, "ids", ids, "int64")
    rows, columns = _check_size(size)
    padding = checks.check_int(_WHO, "padding_index", padding_index, at_least=-1, at_most=rows - 1)
    n_processes = current_world().group(group, _WHO).size
    layer = begin("embedding", name)
    part = {"group": group, "axis": 0, "layout": TABLE, "size": rows}
    attr = divide(_WHO, "param_attr", param_attr, Normal(0.0, columns**-0.5), part)
    route = _append_route(layer, ids, {"size": rows, "padding_index": padding, "group": group})
    found = nn_layers.embedding(
        route.exchange("asked", route.wanted, route.counts, route.asked_counts),
        [1 + -(-rows // n_processes), columns],
        padding_index=0,
        sparse=sparse,
        dtype=dtype,
        name=layer.name,
        param_attr=attr,
    )
    answers = route.exchange("answers", found, route.asked_counts, route.counts, like=route.wanted)
    table = layer.block.var(attr.name or f"{layer.name}_w_param")
    shared = mark(answers, layer.part("parts"), [table], [0], group, rows=rows + 1)
    inputs = {"x": shared, "index": route.places}
    return operators.append(layer.block, "gather", inputs, {"axis": 0}, name=layer.part("vectors"))


def _check_size(size: Iterable[int]) -> Sequence[int]:
    shape = checks.check_ints(_WHO, "size", size)
    if len(shape) != 2 or min(shape) < 1:
        raise AttributeValueError(
            f"{_WHO}: size must be [rows, columns], both at least 1, got {shape}; write "
            "size=[1000, 64]"
        )
    return shape


class _Route(NamedTuple):
    """The rows that this process requests, and how many rows each process requests from it.

    Attributes
    ----------
    layer : Layer
    group : str
    wanted, places, counts : str
        The outputs of ``dist.route_rows``.
    asked_counts : str
        The number of rows that each process requests from this process.
    """

    layer: Layer
    group: str
    wanted: str
    places: str
    counts: str
    asked_counts: str

    def exchange(
        self,
        name: str,
        x: str | ow.Variable,
        send: str,
        receive: str,
        **like: str,
    ) -> ow.Variable:
        """Append an exchange of rows of x with the given counts."""
        inputs = {"x": x, "send_counts": send, "receive_counts": receive, **like}
        attrs = {"group": self.group}
        name = self.layer.part(name)
        return operators.append(self.layer.block, "dist.exchange_rows", inputs, attrs, name=name)


def _append_route(layer: Layer, ids: ow.Variable, attrs: Mapping[str, Any]) -> _Route:
    slots = ("rows", "places", "counts")
    names = {slot: layer.part(slot) for slot in slots}
    routed = layer.block.append_op("dist.route_rows", {"ids": ids}, names, attrs)
    wanted, places, counts = (routed.output(slot)[0] for slot in slots)
    group = {"group": attrs["group"]}
    asked_counts = operators.append(
        layer.block, "dist.all_to_all", {"x": counts}, group, name=layer.part("asked_counts")
    )
    return _Route(layer, attrs["group"], wanted, places, counts, asked_counts.name)
