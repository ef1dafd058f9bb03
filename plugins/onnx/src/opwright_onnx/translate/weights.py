"""Locates the weight bytes of a model, so protobuf does not read or copy them.

A model has a field for its graph, the graph has a field for each initializer, and an initializer
has a field for its bytes: https://protobuf.dev/programming-guides/encoding. A model in any other
form is parsed entirely by protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from opwright_onnx.dtypes import Array
from opwright_onnx.messages import write_varint

Buffer = memoryview

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""The field numbers of ModelProto, GraphProto and TensorProto."""

MIN_BYTES: Final = 4096
"""The minimum size in bytes of weights that are stripped."""

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


_LINE: Final = 64
"""The alignment of arrays in bytes."""


class _FormError(Exception):
    """Raised for a message in a form that only protobuf can check."""


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int  # start of the field
    content: int  # start of its content
    end: int


def split_weights(data: Buffer) -> tuple[bytes, dict[int, Buffer]] | None:
    """Return a model without the bytes of large initializers, and these bytes by position.

    Parameters
    ----------
    data : memoryview
        A model.

    Returns
    -------
    tuple, or None
        The model without the `raw_data` of some graph initializers, and a mapping from their
        positions to these bytes. None if there are no such initializers, or the model has a
        different form.
    """
    weights: dict[int, Buffer] = {}
    try:
        graphs = [field for field in _walk(data, 0, len(data)) if field.number == GRAPH]
        if len(graphs) != 1 or graphs[0].wire_type != _DELIMITED:
            return None
        (graph,) = graphs
        parts = list(_strip_graph(data, graph, weights))
    except _FormError:
        return None
    if not weights:
        return None
    content = b"".join(parts)
    head = write_varint(GRAPH << 3 | _DELIMITED) + write_varint(len(content))
    return b"".join([data[: graph.start], head, content, data[graph.end :]]), weights


def _strip_graph(
    data: Buffer, graph: _Field, weights: dict[int, Buffer]
) -> Iterator[Buffer | bytes]:
    """Yield the content of a graph without large weights; add these weights to `weights`."""
    position, kept = -1, graph.content
    for field in _walk(data, graph.content, graph.end):
        if field.number != INITIALIZER or field.wire_type != _DELIMITED:
            continue
        position += 1
        if field.end - field.content < MIN_BYTES:
            continue
        raw = [inner for inner in _walk(data, field.content, field.end) if inner.number == RAW_DATA]
        if len(raw) != 1 or raw[0].wire_type != _DELIMITED:
            continue
        weights[position] = data[raw[0].content : raw[0].end]
        length = field.end - field.content - (raw[0].end - raw[0].start)
        yield data[kept : field.start]
        yield write_varint(INITIALIZER << 3 | _DELIMITED) + write_varint(length)
        yield data[field.content : raw[0].start]
        yield data[raw[0].end : field.end]
        kept = field.end
    yield data[kept : graph.end]


def _walk(data: Buffer, start: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message in order."""
    place = start
    while place < end:
        tag, content = _read_varint(data, place, end)
        wire_type = tag & 7
        if wire_type == _DELIMITED:
            length, content = _read_varint(data, content, end)
            last = content + length
        elif wire_type == _VARINT:
            last = _read_varint(data, content, end)[1]
        elif wire_type in (_FIXED64, _FIXED32):
            last = content + (8 if wire_type == _FIXED64 else 4)
        else:
            raise _FormError
        if last > end:
            raise _FormError
        yield _Field(tag >> 3, wire_type, place, content, last)
        place = last


def _read_varint(data: Buffer, place: int, end: int) -> tuple[int, int]:
    """Decode a protobuf varint; return the number and the position after the varint."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= end:
            raise _FormError
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise _FormError


def own_arrays(
    arrays: Mapping[str, Array], weights: Mapping[int, Buffer], trainable: bool
) -> dict[str, Array]:
    """Return contiguous, aligned arrays that are not views of the file.

    Copied weights share one block of memory with huge pages; read-only weights can use the memory
    of a message.
    """
    file = np.empty(0, np.uint8)
    for view in weights.values():  # all views belong to one file
        whole: Any = view.obj
        file = np.frombuffer(whole, np.uint8)
        break
    copied = {
        name: array
        for name, array in arrays.items()
        if not (array.flags.c_contiguous and array.flags.aligned)
        or np.may_share_memory(array, file)
        or (trainable and not array.flags.writeable)
    }
    memory = np.empty(sum(array.nbytes + _LINE for array in copied.values()) + _LINE, np.uint8)
    end = -memory.ctypes.data % _LINE
    owned = dict(arrays)
    for name, array in copied.items():
        part = memory[end : end + array.nbytes].view(array.dtype).reshape(array.shape)
        part[...] = array
        owned[name] = part
        end += -(-array.nbytes // _LINE) * _LINE
    return owned
