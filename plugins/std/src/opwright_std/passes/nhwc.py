"""``nhwc``: convert images to channels last where convolution kernels prefer it.

oneDNN convolves plain NHWC images twice as fast as plain NCHW images, and the tensor-core kernels
of cuDNN transpose NCHW images on each call. Kernels declare the preferred layout. The pass converts
such convolutions, and the operators between them that do not depend on the axis order. A converted
operator reads the channels-last results of its predecessors, and is followed by a transposition for
all other readers. Most of these transpositions are dead code. The remaining transpositions are at
the ends of a chain of converted operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from opwright.op import Meta
from opwright.rewriting import Edit, Graph, LoweredOp, Value
from opwright_std.passes.elementwise import CHAIN, KINDS
from opwright_std.passes.nhwc_axes import AXES, find_inverse, split_channels

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)

IMAGES: dict[str, frozenset[str]] = {
    "conv2d": frozenset({"x", "out"}),
    "conv2d_grad": frozenset({"x", "out_grad", "x_grad"}),
    "conv2d_transpose": frozenset({"x", "out"}),
    ".conv2d_fused": frozenset({"x", "residual", "out"}),
    "max_pool2d": frozenset({"x", "out", "index"}),
    "max_pool2d_grad": frozenset({"x", "index", "out_grad", "x_grad"}),
    "avg_pool2d": frozenset({"x", "out"}),
    "avg_pool2d_grad": frozenset({"x", "out_grad", "x_grad"}),
    "adaptive_avg_pool2d": frozenset({"x", "out"}),
    "adaptive_avg_pool2d_grad": frozenset({"x", "out_grad", "x_grad"}),
    "interpolate": frozenset({"x", "out"}),
    "interpolate_grad": frozenset({"x", "out_grad", "x_grad"}),
    "adaptive_max_pool2d": frozenset({"x", "out", "index"}),
    "adaptive_max_pool2d_grad": frozenset({"x", "index", "out_grad", "x_grad"}),
}
"""Operators with a data_format, and their image slots. A dot marks operators of the device."""

CONVOLUTIONS = ("conv2d", "conv2d_grad", "conv2d_transpose", ".conv2d_fused")
"""Operators converted if their kernel prefers it; other operators only next to these."""

_NORM_GRAD = frozenset({"x", "out", "out_grad", "x_grad", "residual_grad"})

NORMS = {
    "batch_norm": frozenset({"x", "out"}),
    "batch_norm_grad": frozenset({"x", "out_grad", "x_grad"}),
    "std.batch_norm_activation": frozenset({"x", "residual", "out"}),
    "std.batch_norm_activation_grad": _NORM_GRAD,
    "std.batch_norm_halves": frozenset({"x", "residual", "out"}),
    "std.batch_norm_halves_grad": _NORM_GRAD,
}
"""With channels last, these are the strides of a matrix with one row per pixel."""

ELEMENTWISE = frozenset([*KINDS, CHAIN, "add_n", "assign", "cast", "cast_like"])
"""Element-wise operators on images, with broadcast operands."""


def nhwc(graph: Graph) -> None:
    """Convert the convolutions of a graph and the operators between them."""
    types = [f"{graph.device}{kind}" if kind[0] == "." else kind for kind in CONVOLUTIONS]
    if not graph.of_type(*types) or graph.definition("transpose") is None:
        return
    if _turn_all(graph):
        _pass_by(graph)


def _kind(graph: Graph, op: LoweredOp) -> str:
    """Return the operator's name in the tables above."""
    name = op.type.removeprefix(graph.device)
    return name if name.startswith(".") else op.type


def _turn_all(graph: Graph) -> bool:
    """Insert transpositions around each converted operator."""
    edit = graph.edit()
    turned: set[Value] = set()  # written in channels-last layout, and transposed back
    last: dict[Value, Value] = {}  # images to their channels-last values
    for op in graph.ops:
        kind = _kind(graph, op)
        images = _images_of(op, kind, turned)
        if not images:
            _turn_shuffle(graph, op, edit, turned)
            continue
        turn = _Turn(graph, op, kind, images, last)
        if not _is_served(graph, kind, turn.made):
            continue
        after = turn.turn_back()
        if edit.fuse([op], [*turn.before, turn.made, *after]):
            turned.update(_written(op, images))
            last.update(turn.known)
    return edit.apply()


def _turn_shuffle(graph: Graph, op: LoweredOp, edit: Edit, turned: set[Value]) -> None:
    """Convert a channel shuffle, a transposition of groups of channels, to channels-last layout."""
    split = split_channels(op, turned) if op.type == "transpose" else None
    if split is None:
        return
    (source,), (out,) = op.inputs[0], op.outputs[0]
    image = source.source or source
    last = graph.value(image.name, _turned(image.meta))
    read = graph.view(last, Meta(tuple(split.shape), image.meta.dtype))
    written = graph.value(out.name, Meta(tuple(split.permuted), image.meta.dtype))
    made = [
        graph.make("transpose", {"x": x}, {"out": y}, {"axes": list(axes)}, like=op)
        for x, y, axes in (
            (image, last, TO_NHWC),
            (read, written, split.axes),
            (written, out, split.back),
        )
    ]
    if edit.fuse([op], made):
        turned.add(out)


def _is_served(graph: Graph, kind: str, made: LoweredOp) -> bool:
    """Return whether the converted operator has a kernel; convolution kernels must prefer NHWC."""
    if kind in CONVOLUTIONS:
        return graph.has_preferring_kernel(made, "data_format")
    # The layout does not change an element-wise computation.
    return kind in ELEMENTWISE or graph.has_kernel(made)


def _written(op: LoweredOp, images: frozenset[str]) -> list[Value]:
    slots = zip(op.definition.proto.outputs, op.outputs, strict=True)
    return [value for slot, values in slots if slot.name in images for value in values]


def _images_of(op: LoweredOp, kind: str, turned: set[Value]) -> frozenset[str]:
    """Return the slots to convert to channels last; none if the operator stays unchanged."""
    near = any((value.source or value) in turned for value in op.data_reads())
    if kind in IMAGES:
        wanted = near or kind in CONVOLUTIONS
        return IMAGES[kind] if wanted and op.attrs["data_format"] == "NCHW" else frozenset()
    if not near:
        return frozenset()
    if kind in NORMS:
        return NORMS[kind] if len(op.inputs[0][0].meta.shape) == 4 else frozenset()
    if kind in AXES:
        return AXES[kind].images(op)
    return _elementwise_images(op) if kind in ELEMENTWISE else frozenset()


def _elementwise_images(op: LoweredOp) -> frozenset[str]:
    """Return all slots of an element-wise operator that writes images."""
    shapes = {value.meta.shape for value in op.writes()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 4 or prod(shape) == 1 or op.children:
        return frozenset()
    slots = (*op.definition.proto.inputs, *op.definition.proto.outputs)
    return frozenset(slot.name for slot in slots)


class _Turn:
    """One operator in channels-last layout, with the transpositions around it.

    Attributes
    ----------
    before : list of LoweredOp
        Transpositions of inputs that no operator has written in channels-last layout.
    made : LoweredOp
    known : dict of Value to Value
        Images that it reads or writes, mapped to their channels-last values.
    """

    def __init__(
        self,
        graph: Graph,
        op: LoweredOp,
        kind: str,
        images: frozenset[str],
        last: Mapping[Value, Value],
    ) -> None:
        self._graph = graph
        self._op = op
        self._images = images
        self._kind = kind
        self._rows = kind in NORMS
        self._last = last
        self._written: list[tuple[Value, Value]] = []
        self.known: dict[Value, Value] = {}
        self.before: list[LoweredOp] = []
        self.made = self._make()

    def turn_back(self) -> list[LoweredOp]:
        """Return the transpositions of the outputs back to channels first."""
        return [self._transpose(last, value, TO_NCHW) for value, last in self._written]

    def _make(self) -> LoweredOp:
        op, proto = self._op, self._op.definition.proto
        inputs = {
            slot.name: [self._read(slot.name, slot.shape_only, value) for value in values]
            for slot, values in zip(proto.inputs, op.inputs, strict=True)
            if values
        }
        outputs = {
            slot.name: [self._write(slot.name, value) for value in values]
            for slot, values in zip(proto.outputs, op.outputs, strict=True)
            if values
        }
        attrs: dict[str, Any] = {k: v for k, v in op.attrs.items() if v is not None}
        if "data_format" in attrs:
            attrs["data_format"] = "NHWC"
        if self._kind in AXES:
            attrs |= AXES[self._kind].turn(op)
        return self._graph.make(op.definition, inputs, outputs, attrs, like=op)

    def _is_image(self, slot: str, value: Value) -> bool:
        if slot not in self._images or prod(value.meta.shape) == 1:
            return False
        return len(value.meta.shape) == 4 or self._kind in ELEMENTWISE

    def _read(self, slot: str, shape_only: bool, value: Value) -> Value:
        if not self._is_image(slot, value):
            return value
        last = self.known.get(value) or self._last.get(value)
        if last is not None:
            return self._flat(last)
        image = _as_image(value.meta)
        meta = _turned(image)
        if shape_only or _is_same(image.shape):
            return self._flat(self._graph.view(value, meta))
        source = value if image == value.meta else self._graph.view(value, image)
        self.known[value] = last = self._graph.value(value.name, meta)
        self.before.append(self._transpose(source, last, TO_NHWC))
        return self._flat(last)

    def _write(self, slot: str, value: Value) -> Value:
        if not self._is_image(slot, value):
            return value
        meta = _turned(value.meta)
        written = self._graph.value(value.name, _rows(meta) if self._rows else meta)
        self.known[value] = self._graph.view(written, meta) if self._rows else written
        self._written.append((value, self.known[value]))
        return written

    def _transpose(self, source: Value, out: Value, axes: Sequence[int]) -> LoweredOp:
        slots = ({"x": source}, {"out": out}, {"axes": axes})
        return self._graph.make("transpose", *slots, like=self._op)

    def _flat(self, value: Value) -> Value:
        return self._graph.view(value, _rows(value.meta)) if self._rows else value


def _as_image(meta: Meta) -> Meta:
    """Pad an operand with leading axes, as broadcasting does."""
    return Meta((1,) * (4 - len(meta.shape)) + tuple(meta.shape), meta.dtype)


def _turned(meta: Meta) -> Meta:
    n, channels, height, width = meta.shape
    return Meta((n, height, width, channels), meta.dtype)


def _rows(meta: Meta) -> Meta:
    return Meta((prod(meta.shape[:3]), meta.shape[3]), meta.dtype)


def _is_same(shape: Sequence[int]) -> bool:
    """Return whether the memory layouts of both orders are equal."""
    return shape[1] == 1 or shape[2] * shape[3] == 1


def _pass_by(graph: Graph) -> None:
    """Replace a transposition that undoes a previous one by the source of the previous one.

    If both orders have the same memory layout, the readers get a view of the same memory.
    """
    edit = graph.edit()
    for op in graph.of_type("transpose"):
        (source,), (out,), axes = op.inputs[0], op.outputs[0], tuple(op.attrs["axes"])
        undone = find_inverse(op)
        if axes == TO_NCHW and _is_same(out.meta.shape):
            edit.bypass(op, graph.view(edit.current(source), out.meta))
        elif undone is not None:
            same = undone.meta == out.meta
            edit.bypass(op, undone if same else graph.view(undone, out.meta))
    edit.apply()
