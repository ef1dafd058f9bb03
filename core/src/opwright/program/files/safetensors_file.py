"""Reads and writes the safetensors format: a header of JSON, then the bytes of the tensors.

Source: https://github.com/huggingface/safetensors, section "Format". Files are read and written
through handles, by copying: see ``docs/decisions/0048-own-safetensors-reader.md`` for why.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from opwright.describe.dtypes import DTYPES, dtype_from_numpy, dtype_to_numpy, short_dtype
from opwright.describe.meta import Meta
from opwright.errors import FormatError
from opwright.program.files.disk import Chunk, read_into

_METADATA: Final = "__metadata__"
_LENGTH_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 32 << 20  # 200,000 tensors; the format allows three times as many
_MAX_RANK: Final = 64  # NumPy's

_DTYPES: Final = {short_dtype(dtype).upper(): dtype for dtype in DTYPES}  # F32, BF16, I8, BOOL


class Tensor(NamedTuple):
    """Meta and place of a tensor in a file, in bytes from the beginning."""

    meta: Meta
    begin: int
    end: int


class Header(NamedTuple):
    """Free text by key, and the tensors by name: they fill the file up to its end, without gaps."""

    metadata: dict[str, str]
    tensors: dict[str, Tensor]


def encode(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> Iterator[Chunk]:
    """Yield the bytes of a file: its header, then the data of each array, without copies."""
    # The widest first: each then begins at a multiple of its item size.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        code = short_dtype(dtype_from_numpy(array.dtype)).upper()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    yield len(text).to_bytes(_LENGTH_BYTES, "little") + text
    for name in names:
        yield data_of(arrays[name])


def data_of(array: NDArray[Any]) -> memoryview:
    """Return the elements of an array as little-endian bytes in C order, copied if needed."""
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return np.asarray(little, order="C").reshape(-1).view(np.uint8).data


def read_header(path: Path, handle: int) -> Header:
    """Return the header of an open file; FormatError if that contradicts itself or the size."""
    size_bytes = os.fstat(handle).st_size
    if size_bytes < _LENGTH_BYTES:
        _refuse(path, f"{size_bytes} bytes")
    length = bytearray(_LENGTH_BYTES)
    read_into(path, handle, memoryview(length), 0)
    header_bytes = int.from_bytes(length, "little")
    data_begin = _LENGTH_BYTES + header_bytes
    if header_bytes > _MAX_HEADER_BYTES or data_begin > size_bytes:
        _refuse(
            path,
            f"{size_bytes} bytes with a header of {header_bytes}, of at most {_MAX_HEADER_BYTES}",
        )
    text = bytearray(header_bytes)
    read_into(path, handle, memoryview(text), _LENGTH_BYTES)
    entries = _parse(path, text)
    metadata = entries.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _refuse(path, f"metadata that is no mapping of text: {str(metadata)[:80]}")
    tensors = {name: _read_tensor(path, name, entry, data_begin) for name, entry in entries.items()}
    _check_order(path, tensors, data_begin, size_bytes)
    return Header(metadata, tensors)


def read_array(path: Path, handle: int, tensor: Tensor) -> NDArray[Any]:
    """Return a tensor of an open file as a new array."""
    dtype = dtype_to_numpy(tensor.meta.dtype)
    data = np.empty(tensor.end - tensor.begin, np.uint8)
    read_into(path, handle, data.data, tensor.begin)
    try:
        return data.view(dtype).reshape(tensor.meta.shape)
    except ValueError as error:  # no elements, but dimensions beyond an int64
        _refuse(path, f"shape {tensor.meta.shape}: {error}")


def _refuse(path: Path, got: str) -> NoReturn:
    raise FormatError(f"{path}: truncated, or no safetensors file, got {got}")


def _parse(path: Path, text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=_make_dict)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"a header that is no JSON: {error}")
    if not isinstance(header, dict):
        _refuse(path, f"a header that is no object: {str(header)[:80]}")
    return header


def _make_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name stands in it twice")
    return entries


def _read_tensor(path: Path, name: str, entry: object, data_begin: int) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"{name!r} without dtype, shape and data_offsets alone")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise FormatError(f"{path}: {name!r} has a dtype that opwright has no name for, got {code}")
    if not _are_sizes(shape) or len(shape) > _MAX_RANK:
        _refuse(path, f"{name!r} with shape {str(shape)[:80]}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        _refuse(path, f"{name!r} with data_offsets {str(offsets)[:80]}")
    begin, end = offsets
    dtype = _DTYPES[code]
    if end - begin != math.prod(shape) * dtype_to_numpy(dtype).itemsize:
        _refuse(path, f"{name!r} of shape {shape} in {end - begin} bytes")
    return Tensor(Meta(tuple(shape), dtype), data_begin + begin, data_begin + end)


def _are_sizes(values: object) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 1 << 63 for value in values
    )


def _check_order(path: Path, tensors: Mapping[str, Tensor], begin: int, size_bytes: int) -> None:
    """Refuse overlaps and gaps: each byte after the header belongs to exactly one tensor."""
    position = begin
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin != position:
            _refuse(path, f"a tensor at byte {tensor.begin} where byte {position} is next")
        position = tensor.end
    if position != size_bytes:
        _refuse(path, f"{size_bytes} bytes where its tensors end at {position}")
