"""Bodies of dist.route_rows and exchange_rows: compositions with dist.all_to_all.

Devices whose engine lacks kernels for rows run these bodies. Shapes are static, so a GPU can record
the bodies in a graph. Each process therefore sends the maximum number of rows to every other
process, and the receiver discards the surplus rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from opwright.op import BodyContext, Shape
from opwright_dist.groups.world import current_world

_INT64: Final = {"dtype": "int64"}


class _Writer:
    """Emits operators on int64."""

    def __init__(self, b: BodyContext) -> None:
        self.b = b
        self.group = current_world().group(b.attr("group"), b.type)

    def shape(self, name: str | None) -> Shape:
        meta = self.b.meta(name or "")
        return () if meta is None else meta.shape

    def fill(self, shape: Sequence[int], value: int = 0, dtype: str = "int64") -> str:
        attrs = {"shape": list(shape), "value": value, "dtype": dtype}
        return self.b.emit("fill", {}, attrs=attrs)

    def count(self, stop: int) -> str:
        """Emit the integers from 0 to `stop`, exclusive."""
        return self.b.emit("arange", {}, attrs={"stop": stop})

    def binary(self, op_type: str, x: str, y: str | int) -> str:
        other = y if isinstance(y, str) else self.fill([1], y)
        return self.b.emit(op_type, {"x": x, "y": other})

    def where(self, condition: str, x: str, y: str | int) -> str:
        other = y if isinstance(y, str) else self.fill([1], y)
        return self.b.emit("where", {"condition": condition, "x": x, "y": other})

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.b.emit("reshape", {"x": x}, attrs={"shape": list(shape)})

    def cut(self, x: str, start: int, end: int) -> str:
        return self.b.emit("slice", {"x": x}, attrs={"axes": [0], "starts": [start], "ends": [end]})

    def concat(self, *xs: str) -> str:
        return self.b.emit("concat", {"x": xs}, attrs={"axis": 0})

    def gather(self, x: str, index: str) -> str:
        return self.b.emit("gather", {"x": x, "index": index}, attrs={"axis": 0})

    def scatter(self, n: int, index: str, updates: str) -> str:
        """Emit n zeros with updates scattered into them."""
        inputs = {"x": self.fill([n]), "index": index, "updates": updates}
        return self.b.emit("scatter", inputs, attrs={"axis": 0})

    def running_sum(self, x: str) -> str:
        return self.b.emit("cumsum", {"x": x}, attrs={"axis": 0})

    def require(self, condition: str, rule: str) -> None:
        """Emit an assertion that all elements are true."""
        attrs = {"message": f"{self.b.type}: {rule}"}
        self.b.emit_multi("assert_true", {"condition": condition}, attrs=attrs)


def route_rows_body(b: BodyContext) -> None:
    """Sort (process, row) keys; each distinct key is requested once."""
    write = _Writer(b)
    n_processes, size = write.group.size, b.attr("size")
    shape = write.shape(b.input("ids"))
    n, end = prod(shape), n_processes * size
    if n == 0:
        for slot, empty in (("rows", [0]), ("places", shape), ("counts", [n_processes])):
            b.set_output(slot, write.fill(empty))
        return
    sort = b.emit_multi("sort", {"x": _write_keys(write, n, end)}, {"out": 1, "indices": 1})
    ordered, order = sort["out"][0], sort["indices"][0]
    before = write.concat(write.fill([1], -1), write.cut(ordered, 0, n - 1))
    is_new = b.emit("cast", {"x": write.binary("not_equal", ordered, before)}, None, _INT64)
    number = write.binary("subtract", write.running_sum(is_new), 1)
    row = write.binary("add", write.binary("mod", ordered, size), 1)
    row = write.where(write.binary("less", ordered, end), row, 0)
    b.set_output("rows", write.scatter(n, number, row))
    b.set_output("places", write.reshape(write.scatter(n, order, number), shape))
    b.set_output("counts", _write_counts(write, ordered, number, n))


def _write_keys(write: _Writer, n: int, end: int) -> str:
    """Emit a key per id that sorts by process and row; ids without a row get the key `end`."""
    b, n_processes, size = write.b, write.group.size, write.b.attr("size")
    ids = write.reshape(b.emit("cast", {"x": b.input("ids")}, attrs=_INT64), [n])
    least, most = write.binary("greater_equal", ids, 0), write.binary("less", ids, size)
    write.require(write.binary("logical_and", least, most), f"ids must be in [0, {size})")
    process = write.binary("multiply", write.binary("mod", ids, n_processes), size)
    keys = write.binary("add", process, write.binary("floor_divide", ids, n_processes))
    if b.attr("padding_index") == -1:
        return keys
    is_padding = write.binary("equal", ids, b.attr("padding_index"))
    return write.where(is_padding, write.fill([1], end), keys)


def _write_counts(write: _Writer, ordered: str, number: str, n: int) -> str:
    """Emit the number of distinct keys per process, using the position of its first key."""
    n_processes, size = write.group.size, write.b.attr("size")
    begins = write.binary("multiply", write.count(n_processes + 1), size)
    places = write.b.emit("searchsorted", {"x": ordered, "values": begins})
    all_of_them = write.binary("add", write.cut(number, n - 1, n), 1)
    first = write.gather(write.concat(number, all_of_them), places)
    others = write.cut(first, 1, n_processes + 1)
    return write.binary("subtract", others, write.cut(first, 0, n_processes))


def exchange_rows_body(b: BodyContext) -> None:
    """Send padded rows to each process, and keep the counted rows from each process."""
    write = _Writer(b)
    x = b.input("x") or ""
    if write.group.size == 1:
        b.set_output("out", x)
        return
    given, wanted = write.shape(x), write.shape(b.output("out"))
    width = min(given[0], wanted[0])
    if width * prod(given[1:]) == 0:
        dtype = meta.dtype if (meta := b.meta(x)) else "float32"
        b.set_output("out", write.fill(wanted, dtype=dtype))
        return
    sent = _write_sent(write, x, given[0], width)
    attrs = {"axis": 0, "group": b.attr("group")}
    received = b.emit("dist.all_to_all", {"x": sent}, attrs=attrs)
    _write_received(write, received, wanted, width)


def _write_ends(write: _Writer, slot: str, n_rows: int) -> tuple[str, str]:
    """Emit where the rows of each process start and end in the sequence of counted rows."""
    counts = write.b.input(slot) or ""
    ends = write.running_sum(counts)
    is_right = write.binary(
        "logical_and",
        write.binary("greater_equal", counts, 0),
        write.binary("less_equal", ends, n_rows),
    )
    write.require(is_right, f"{slot} must be at least 0 with a sum of at most {n_rows}")
    return write.binary("subtract", ends, counts), ends


def _write_sent(write: _Writer, x: str, n_rows: int, width: int) -> str:
    """Emit the `width` rows that start at the first row of each process."""
    begins, _ = _write_ends(write, "send_counts", n_rows)
    n_processes = write.group.size
    columns = write.reshape(write.count(width), [1, width])
    index = write.binary("add", write.reshape(begins, [n_processes, 1]), columns)
    index = write.binary("minimum", index, n_rows - 1)
    return write.gather(x, write.reshape(index, [n_processes * width]))


def _write_received(write: _Writer, received: str, wanted: Shape, width: int) -> None:
    """Emit the rows counted for this process, padded with zeros."""
    b, n_processes, n_rows = write.b, write.group.size, wanted[0]
    begins, ends = _write_ends(write, "receive_counts", n_rows)
    place = write.count(n_rows)
    attrs = {"side": "right"}
    source = b.emit("searchsorted", {"x": ends, "values": place}, attrs=attrs)
    source = write.binary("minimum", source, n_processes - 1)
    column = write.binary("subtract", place, write.gather(begins, source))
    index = write.binary("add", write.binary("multiply", source, width), column)
    is_row = write.binary("less", place, write.cut(ends, n_processes - 1, n_processes))
    rows = write.gather(received, write.where(is_row, index, 0))
    is_row = write.reshape(is_row, [n_rows, *(1 for _ in wanted[1:])])
    zero = b.emit("fill_like", {"x": write.cut(rows, 0, 1)})
    b.emit("where", {"condition": is_row, "x": rows, "y": zero}, {"out": b.output("out")})
