"""The parameters file: safetensors, with a checksum and the digest of its program.

The format itself has neither. Both are in the metadata, which other safetensors readers ignore.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from opwright.describe.dtypes import Array, dtype_from_numpy, dtype_to_numpy
from opwright.describe.meta import Meta, Shape, shapes_match
from opwright.errors import FormatError
from opwright.program.files.disk import Chunk, StrPath, is_local, map_file, read_chunks
from opwright.program.files.safetensors_file import (
    Tensor,
    data_of,
    encode,
    read_array,
    read_header,
    view_array,
)
from opwright.records import NamedTuple

if TYPE_CHECKING:
    pass

Arrays: TypeAlias = "dict[str, Array]"
Expected = Mapping[str, tuple[Shape | None, str]]
"""Shape and dtype of each variable; any shape fits None, any dimension fits -1."""

_PROGRAM_KEY: Final = "opwright.program"
_CHECKSUM_KEY: Final = "opwright.crc32"
_MAX_LISTED: Final = 5
_MAPPED_BYTES: Final = 1 << 20  # what is smaller, is read as quickly


class ParamsMark(NamedTuple):
    """The identity of a parameters file: the SHA-256 of its program, and its own CRC-32."""

    program: str
    checksum: str


def digest_of(program: bytes) -> str:
    """Return the SHA-256 of a program."""
    try:  # as Python's `random` does: hashlib loads OpenSSL, 3 ms
        sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:
        from hashlib import sha256
    digest: str = sha256(program).hexdigest()
    return digest


def mark_of(arrays: Mapping[str, Array], program: bytes) -> ParamsMark:
    """Return the mark of the file that holds these arrays for a program."""
    return ParamsMark(digest_of(program), _checksum_of(arrays))


def encode_params(arrays: Arrays, mark: ParamsMark) -> list[Chunk]:
    """Return the bytes of a parameters file; FormatError where `read_params` would refuse them."""
    return encode(arrays, {_PROGRAM_KEY: mark.program, _CHECKSUM_KEY: mark.checksum})


def _checksum(tensors: Iterable[tuple[str, str, Shape, Iterable[Chunk]]]) -> str:
    """Return the CRC-32 of names, dtypes, shapes and data, in the order of names."""
    crc = 0
    for name, dtype, shape, chunks in tensors:
        crc = zlib.crc32(f"{name}\0{dtype}\0{shape}\0".encode(), crc)
        for chunk in chunks:
            crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}"


def _checksum_of(arrays: Mapping[str, Array]) -> str:
    return _checksum(
        (name, dtype_from_numpy(array.dtype), array.shape, [data_of(array)])
        for name, array in sorted(arrays.items())
    )


def _checksum_in(path: StrPath, handle: int, tensors: Mapping[str, Tensor]) -> str:
    """Return the checksum of tensors in an open file, which is read in parts: as of arrays."""
    return _checksum(
        (name, meta.dtype, meta.shape, read_chunks(path, handle, begin, end))
        for name, (meta, begin, end) in sorted(tensors.items())
    )


def read_mark(path: StrPath, handle: int) -> ParamsMark:
    """Return the mark of an open parameters file; FormatError if it is truncated or foreign."""
    return _mark_in(path, read_header(path, handle)[0])


def _mark_in(path: StrPath, metadata: Mapping[str, str]) -> ParamsMark:
    program = metadata.get(_PROGRAM_KEY)
    if program is None:
        raise FormatError(f"{path}: not written by opwright.save, got no program that it is for")
    return ParamsMark(program, metadata.get(_CHECKSUM_KEY, ""))


def check_belongs(path: StrPath, mark: ParamsMark, program: bytes) -> None:
    """Raise FormatError unless a parameters file was written with the program."""
    if mark.program != digest_of(program):
        raise FormatError(
            f"{path}: must be the parameters that were saved with the program, got those of "
            "another program; save both again"
        )


def read_params(path: StrPath, handle: int, expected: Expected, *, mapped: bool = False) -> Arrays:
    """Return the arrays of an open parameters file, all of `expected` and no others.

    With `mapped` those of a large file on a local disk lie in a map of it, see `map_file`. Names,
    dtypes and shapes are compared before any data is read. FormatError if the file is truncated,
    foreign or damaged, or if tensors are missing, extra or of another shape.
    """
    metadata, tensors = read_header(path, handle)
    mark = _mark_in(path, metadata)
    _check_metas(path, tensors, expected)
    whole = None
    if mapped and os.fstat(handle).st_size >= _MAPPED_BYTES and is_local(handle):
        whole = map_file(path, handle, os.fstat(handle).st_size)
    if whole is None:
        arrays = {name: read_array(path, handle, name, tensors[name]) for name in expected}
        checksum = _checksum_of(arrays)
    else:
        # Read, not through the map: a file that is cut off meanwhile is an error, and no crash.
        checksum = _checksum_in(path, handle, tensors)
        arrays = _map_arrays(path, handle, tensors, whole)
    if checksum != mark.checksum:
        raise FormatError(
            f"{path}: damaged, or not written by opwright.save, got data that does not have its "
            "checksum; save it again"
        )
    return arrays


def _map_arrays(path: StrPath, handle: int, tensors: Mapping[str, Tensor], whole: Array) -> Arrays:
    """Return tensors as parts of a map; bools, which are looked through, and odd ones are read."""
    arrays = {}
    for name, tensor in tensors.items():
        item_bytes = dtype_to_numpy(tensor.meta.dtype).itemsize
        if tensor.meta.dtype == "bool" or tensor.begin % item_bytes:
            arrays[name] = read_array(path, handle, name, tensor)
        else:
            arrays[name] = view_array(path, name, tensor, whole[tensor.begin : tensor.end])
    return arrays


def _check_metas(path: StrPath, tensors: Mapping[str, Tensor], expected: Expected) -> None:
    problems = [f"{name!r} is missing" for name in expected if name not in tensors]
    problems += [
        f"{name!r} is no variable of the program" for name in tensors if name not in expected
    ]
    for name, (meta, _, _) in tensors.items():
        shape, dtype = expected.get(name, meta)
        want = Meta(meta.shape if shape is None else shape, dtype)
        if meta.dtype != dtype or not shapes_match(meta.shape, want.shape):
            problems.append(f"{name!r} must be {want}, got {meta}")
    if problems:
        more = f"; and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
        raise FormatError(
            f"{path}: does not fit the program: {'; '.join(problems[:_MAX_LISTED])}{more}"
        )
