"""The parameters file: safetensors, with the program that it belongs to and a checksum.

A safetensors file has no checksum of its own, and nothing in it says which program it is for. Both
stand in its metadata, which any safetensors reader passes over.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from opwright.dtypes import dtype_from_numpy
from opwright.errors import FileMissingError, FormatError
from opwright.meta import Meta, Shape, shapes_match

Arrays = dict[str, NDArray[Any]]
Expected = Mapping[str, tuple[Shape | None, str]]
"""Shape, None where any will do and -1 for any dimension, and dtype of each variable."""

_PROGRAM_KEY: Final = "opwright.program"
_CHECKSUM_KEY: Final = "opwright.crc32"
_MAX_HEADER_BYTES: Final = 32 << 20  # 200,000 tensors; safetensors itself allows three times that
_MAX_LISTED: Final = 5

_DTYPES: Final = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}


def digest_of(program: bytes) -> str:
    """Return what tells one program from all others."""
    return hashlib.sha256(program).hexdigest()


def write_params(path: Path, arrays: Arrays, digest: str) -> None:
    """Write a parameters file; it is on the disk when this returns.

    Raises
    ------
    OSError
        Where the file cannot be written; a part of it may remain.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    ready = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    metadata = {_PROGRAM_KEY: digest, _CHECKSUM_KEY: _checksum(arrays)}
    try:
        save_file(ready, path, metadata)
    except SafetensorError as error:
        raise OSError(f"{path}: cannot be written, got {error}") from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """CRC-32 of names, dtypes, shapes and data, in the order of names."""
    crc = 0
    for name in sorted(arrays):
        array = arrays[name]
        head = f"{name}\0{dtype_from_numpy(array.dtype)}\0{array.shape}\0"
        crc = zlib.crc32(head.encode(), crc)
        crc = zlib.crc32(np.asarray(array, order="C").reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def check_belongs(path: Path, program: bytes) -> None:
    """Raise unless this is the parameters file that was written with a program.

    Raises
    ------
    FileMissingError
        Where there is no file.
    FormatError
        Where it is truncated, foreign, or of another program.
    """
    with _open(path) as file:
        digest = (file.metadata() or {}).get(_PROGRAM_KEY)
    if digest is None:
        raise FormatError(f"{path}: not written by opwright.save, got no program that it is for")
    if digest != digest_of(program):
        raise FormatError(
            f"{path}: must be the parameters that were saved with the program, got those of "
            "another program; save both again"
        )


def read_params(path: Path, expected: Expected) -> Arrays:
    """Return the arrays of a parameters file, all of `expected` and no others.

    Names, dtypes and shapes are compared before any data is read.

    Parameters
    ----------
    path : Path
        The file.
    expected : mapping of str to (shape, dtype)
        The variables that the program keeps.

    Raises
    ------
    FormatError
        Where the file is truncated, foreign or damaged; where tensors are missing, extra or of
        another shape, with their names.
    """
    with _open(path) as file:
        found = {name: _meta_of(path, name, file.get_slice(name)) for name in file.keys()}  # noqa: SIM118
        _check_metas(path, found, expected)
        arrays = {name: file.get_tensor(name) for name in expected}
        metadata = file.metadata() or {}
    if _checksum(arrays) != metadata.get(_CHECKSUM_KEY):
        raise FormatError(
            f"{path}: damaged, or not written by opwright.save, got data that does not have its "
            "checksum; save it again"
        )
    return arrays


def _meta_of(path: Path, name: str, tensor: Any) -> Meta:
    code = str(tensor.get_dtype())
    if code not in _DTYPES:
        raise FormatError(f"{path}: {name!r} has a dtype that opwright has no name for, got {code}")
    return Meta(tuple(tensor.get_shape()), _DTYPES[code])


def _check_metas(path: Path, found: Mapping[str, Meta], expected: Expected) -> None:
    problems = [f"{name!r} is missing" for name in expected if name not in found]
    problems += [
        f"{name!r} is no variable of the program" for name in found if name not in expected
    ]
    for name, meta in found.items():
        shape, dtype = expected.get(name, meta)
        want = Meta(meta.shape if shape is None else shape, dtype)
        if meta.dtype != dtype or not shapes_match(meta.shape, want.shape):
            problems.append(f"{name!r} must be {want}, got {meta}")
    if problems:
        more = f"; and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
        raise FormatError(
            f"{path}: does not fit the program: {'; '.join(problems[:_MAX_LISTED])}{more}"
        )


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file for reading after a look at the size of its header."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise FileMissingError(
            f"{path}: must be beside the program that it was saved with, got no such file; save "
            "both again"
        )
    size = path.stat().st_size
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    if size < 8 or header_bytes > min(size - 8, _MAX_HEADER_BYTES):
        raise FormatError(
            f"{path}: truncated, or no safetensors file, got {size} bytes with a header of "
            f"{header_bytes}, of at most {_MAX_HEADER_BYTES}"
        )
    try:
        with safe_open(path, framework="np") as opened:
            yield opened
    except SafetensorError as error:
        raise FormatError(f"{path}: truncated, or no safetensors file, got {error}") from error
