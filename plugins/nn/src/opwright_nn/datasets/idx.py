"""Reader of IDX files, the format of MNIST, plain or gzipped.

Format: two zero bytes, a type code, the number of axes, each axis as a big-endian uint32, then
the elements in C order, big-endian (http://yann.lecun.com/exdb/mnist).
"""

from __future__ import annotations

import gzip
import math
import operator
import os
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from opwright.errors import FormatError
from opwright.plugin import path_of
from opwright_nn import arguments

__all__ = ["read"]

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20


@arguments.suggest
def read(path: str | os.PathLike[str], max_bytes: int = 1 << 30) -> npt.NDArray[np.generic[Any]]:
    """Read one IDX file into an array of native byte order.

    Parameters
    ----------
    path : str or path
        The file; gzip is recognized by its content, not by its name.
    max_bytes : int, at least 0
        The size limit of the array. The header of a file cannot be trusted: four bytes can claim
        terabytes.

    Returns
    -------
    ndarray of uint8, int8, int16, int32, float32 or float64
        With the shape in the header.

    Raises
    ------
    FormatError
        The file has an invalid magic number or type code, no axes or more than 64, fewer or more
        bytes than its header claims, a damaged gzip stream, or claims more than `max_bytes`.
    OSError
        The file cannot be opened.
    """
    name = path_of("idx.read", path, "file")
    limit = _check_limit(max_bytes)
    with open(name, "rb") as plain:
        if plain.peek(2)[:2] != _GZIP_MAGIC:
            return _read_stream(name, plain, limit)
        try:
            with gzip.GzipFile(fileobj=plain) as unzipped:
                return _read_stream(name, unzipped, limit)  # type: ignore[arg-type]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                f"{name}: the gzip stream must be complete, got: {error}; fetch the file again"
            ) from error


def _check_limit(max_bytes: int) -> int:
    try:
        limit = operator.index(max_bytes)
    except TypeError:
        limit = -1
    if limit < 0 or isinstance(max_bytes, bool):
        raise FormatError(
            f"idx.read: max_bytes must be an int of at least 0, got {max_bytes!r}; omit it "
            "for 1 GiB"
        )
    return limit


def _read_stream(name: str, stream: BinaryIO, limit: int) -> npt.NDArray[np.generic[Any]]:
    dtype, shape = _read_header(name, stream)
    size = math.prod(shape) * dtype.itemsize
    if size > limit:
        raise FormatError(
            f"{name}: an IDX file may hold at most {limit} bytes here, got a header that announces "
            f"{size} (shape {list(shape)}); raise max_bytes if the file is trusted"
        )
    data = _read_bytes(name, stream, size, "elements")
    if stream.read(1):
        raise FormatError(
            f"{name}: an IDX file must end after its elements, got more than the {size} bytes of "
            f"shape {list(shape)}; fetch the file again"
        )
    try:
        return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    except ValueError as error:  # without elements, the header may declare any axes
        raise FormatError(
            f"{name}: an IDX file must have axes that an array can have, got {len(shape)} axes of "
            f"shape {str(list(shape))[:100]}: {error}; fetch the file again"
        ) from None


def _read_header(name: str, stream: BinaryIO) -> tuple[np.dtype[Any], tuple[int, ...]]:
    magic = _read_bytes(name, stream, 4, "the magic number")
    if magic[:2] != b"\0\0" or magic[2] not in _DTYPES or magic[3] == 0:
        raise FormatError(
            f"{name}: an IDX file must begin with 00 00, a type code of "
            f"{', '.join(f'{code:02x}' for code in _DTYPES)} and a number of axes, "
            f"got {magic.hex(' ')}; pass the path of an IDX file"
        )
    axes = magic[3]
    header = _read_bytes(name, stream, 4 * axes, "the shape")
    return np.dtype(_DTYPES[magic[2]]), struct.unpack(f">{axes}I", header)


def _read_bytes(name: str, stream: BinaryIO, size: int, what: str) -> bytearray:
    # The file is read in chunks, so memory grows with its content, not as its header claims.
    data = bytearray()
    while len(data) < size:
        chunk = stream.read(min(size - len(data), _CHUNK_BYTES))
        if not chunk:
            raise FormatError(
                f"{name}: {what} must have {size} bytes, got {len(data)} before the end of the "
                "file; the file is truncated, fetch it again"
            )
        data += chunk
    return data
