"""Reads and writes the safetensors format, a JSON header followed by the bytes of the tensors.

Source: https://github.com/huggingface/safetensors, section "Format". Files are read and written
through handles, by copying: see ``docs/decisions/0048-core-reads-and-writes-safetensors-itself.md``
for why. The writer checks its output with the reader, so the reader accepts all written files.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from opwright.describe.dtypes import DTYPES, Array, dtype_from_numpy, dtype_to_numpy, short_dtype
from opwright.describe.meta import Meta
from opwright.disk import LINE_BYTES, Chunk, StrPath, empty_bytes, read_into
from opwright.errors import FormatError
from opwright.program.names import is_text
from opwright.records import NamedTuple

METADATA: Final = "__metadata__"
"""The reserved name of the metadata in a header."""

_LENGTH_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 32 << 20  # 200,000 tensors; the format allows three times as much
_MAX_RANK: Final = 64  # NumPy's

_WRITER: Final = "save: the arrays must be accepted by load"

_STORED_AS: Final = {"int4": "int8", "uint4": "uint8"}
"""Substitutes for dtypes that the format does not name; the metadata lists these tensors."""

_CODES: Final = {
    **{dtype: short_dtype(dtype).upper() for dtype in DTYPES if dtype not in _STORED_AS},
    "float8_e4m3fn": "F8_E4M3",
}  # F32, BF16, I8, BOOL
_DTYPES: Final = {code: dtype for dtype, code in _CODES.items()}


class Tensor(NamedTuple):
    """The meta of a tensor in a file, and its position in bytes from the beginning."""

    meta: Meta
    begin: int
    end: int


Header: TypeAlias = tuple[dict[str, str], dict[str, Tensor]]
"""The metadata by key, and the tensors by name, which fill the file to its end without gaps."""


def encode(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[Chunk]:
    """Return the bytes of a file, its header and then the data of each array, without copies.

    Raises FormatError if `read_header` or `read_array` would not accept them.
    """
    # Arrays are aligned to their item size, and to cache lines if they fill at least one.
    names = sorted(arrays, key=lambda name: _rank(name, arrays[name]))
    header: dict[str, Any] = {METADATA: {**metadata, **_describe_stored(arrays)}}
    chunks: list[Chunk] = []
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        dtype = dtype_from_numpy(array.dtype)
        code = _CODES[_STORED_AS.get(dtype, dtype)]
        _check_name(_WRITER, name)
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
        chunks.append(data_of(array))
        _check_bools(_WRITER, name, array)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(_LENGTH_BYTES + len(text)) % LINE_BYTES)
    length = _check_length(_WRITER, len(text)).to_bytes(_LENGTH_BYTES, "little")
    _parse_header(_WRITER, text, _LENGTH_BYTES + len(text) + end)
    return [length + text, *chunks]


def _rank(name: str, array: Array) -> tuple[bool, int, str]:
    return array.nbytes % LINE_BYTES != 0, -array.dtype.itemsize, name


def data_of(array: Array) -> memoryview:
    """Return the elements of an array as little-endian bytes in C order, copied if needed."""
    stored = _STORED_AS.get(dtype_from_numpy(array.dtype))
    array = array if stored is None else array.astype(stored)
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return np.asarray(little, order="C").reshape(-1).view(np.uint8).data


def read_header(path: StrPath, handle: int) -> Header:
    """Return the header of an open file; FormatError if it contradicts itself or the size."""
    who = _reader(path)
    size_bytes = os.fstat(handle).st_size
    if size_bytes < _LENGTH_BYTES:
        _refuse(who, f"{size_bytes} bytes")
    length = bytearray(_LENGTH_BYTES)
    read_into(path, handle, memoryview(length), 0)
    header_bytes = int.from_bytes(length, "little")
    if _LENGTH_BYTES + header_bytes > size_bytes:
        _refuse(who, f"{size_bytes} bytes and a header of {header_bytes}")
    text = bytearray(_check_length(who, header_bytes))
    read_into(path, handle, memoryview(text), _LENGTH_BYTES)
    return _parse_header(who, text, size_bytes)


def read_array(path: StrPath, handle: int, name: str, tensor: Tensor) -> Array:
    """Return a tensor of an open file as a new array."""
    data = empty_bytes(tensor.end - tensor.begin)
    read_into(path, handle, data.data, tensor.begin)
    return view_array(path, name, tensor, data)


def view_array(path: StrPath, name: str, tensor: Tensor, data: Array) -> Array:
    """Return the bytes of a tensor as an array; FormatError if they are invalid for the dtype."""
    dtype = dtype_to_numpy(tensor.meta.dtype)
    try:
        array = data.view(dtype).reshape(tensor.meta.shape)
    except ValueError as error:  # empty, but dimensions exceed int64
        _refuse(_reader(path), f"shape {tensor.meta.shape}: {error}")
    _check_bools(_reader(path), name, array)
    return array


def _reader(path: StrPath) -> str:
    return f"{path}: truncated, or not a safetensors file"


def _refuse(who: str, got: str) -> NoReturn:
    raise FormatError(f"{who}, got {got}")


# Both the reader and the writer check each rule; `who` begins the message.


def _check_length(who: str, header_bytes: int) -> int:
    if header_bytes > _MAX_HEADER_BYTES:
        _refuse(who, f"a header of {header_bytes} bytes, of at most {_MAX_HEADER_BYTES}")
    return header_bytes


def _check_name(who: str, name: str) -> None:
    if name == METADATA:
        _refuse(who, f"a tensor named {name!r}, which the format reserves; rename it")
    if not is_text(name):
        _refuse(who, f"a tensor named {name[:80]!r}, which is not text: surrogates not allowed")


def _check_bools(who: str, name: str, array: Array) -> None:
    """Raise FormatError for bytes other than 0 and 1, because kernels do not check bools."""
    if array.dtype == np.bool_ and array.size:
        largest = int(array.view(np.uint8).max())
        if largest > 1:
            _refuse(
                who, f"a byte {largest} in {name!r}, of bools, which must be 0 or 1; save it again"
            )


def _describe_stored(arrays: Mapping[str, Array]) -> dict[str, str]:
    named: dict[str, list[str]] = {}
    for name, array in arrays.items():
        dtype = dtype_from_numpy(array.dtype)
        if dtype in _STORED_AS:
            named.setdefault(_key_of(dtype), []).append(name)
    return {key: json.dumps(names) for key, names in named.items()}


def _key_of(dtype: str) -> str:
    return f"opwright.{dtype}"


def _read_stored(who: str, metadata: Mapping[str, str], tensors: dict[str, Tensor]) -> None:
    """Set the dtypes of tensors that the metadata lists."""
    for dtype, stored in _STORED_AS.items():
        text = metadata.get(_key_of(dtype), "[]")
        names = _parse_json(who, text)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            _refuse(who, f"{_key_of(dtype)} that is not a list of names: {text[:80]}")
        for name in names:
            if name not in tensors or tensors[name].meta.dtype != stored:
                _refuse(who, f"{_key_of(dtype)} with {name[:80]!r}, which is not a {stored} tensor")
            tensors[name] = tensors[name]._replace(meta=Meta(tensors[name].meta.shape, dtype))


def _parse_header(who: str, text: bytes | bytearray, size_bytes: int) -> Header:
    """Return the header of a file with the given size in bytes."""
    entries = _parse_json(who, text)
    if not isinstance(entries, dict):
        _refuse(who, f"a header that is not an object: {str(entries)[:80]}")
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _refuse(who, f"metadata that is not a mapping of text: {str(metadata)[:80]}")
    begin = _LENGTH_BYTES + len(text)
    tensors = {name: _read_tensor(who, name, entry, begin) for name, entry in entries.items()}
    _read_stored(who, metadata, tensors)
    _check_order(who, tensors, begin, size_bytes)
    return metadata, tensors


def _parse_json(who: str, text: str | bytes | bytearray) -> Any:
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, object_pairs_hook=_make_dict)
    except (ValueError, RecursionError) as error:
        _refuse(who, f"a header that is not JSON: {error}")


def _make_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name occurs twice")
    return entries


def _read_tensor(who: str, name: str, entry: object, data_begin: int) -> Tensor:
    _check_name(who, name)
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(who, f"{name!r} whose keys are not dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        _refuse(who, f"{name!r} of dtype {str(code)[:80]}, which opwright does not support")
    if not _are_sizes(shape) or len(shape) > _MAX_RANK:
        _refuse(who, f"{name!r} with shape {str(shape)[:80]}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        _refuse(who, f"{name!r} with data_offsets {str(offsets)[:80]}")
    begin, end = offsets
    dtype = _DTYPES[code]
    if end - begin != math.prod(shape) * dtype_to_numpy(dtype).itemsize:
        _refuse(who, f"{name!r} of shape {shape} in {end - begin} bytes")
    return Tensor(Meta(tuple(shape), dtype), data_begin + begin, data_begin + end)


def _are_sizes(values: object) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 1 << 63 for value in values
    )


def _check_order(who: str, tensors: Mapping[str, Tensor], begin: int, size_bytes: int) -> None:
    """Refuse overlaps and gaps, so that each byte after the header belongs to one tensor."""
    position = begin
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin != position:
            _refuse(who, f"a tensor at byte {tensor.begin} where byte {position} is next")
        position = tensor.end
    if position != size_bytes:
        _refuse(who, f"{size_bytes} bytes, but its tensors end at {position}")
