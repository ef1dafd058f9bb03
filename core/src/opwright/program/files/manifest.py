"""The parameters and the manifest of a generation; the manifest has sizes, checksums and notes.

Parameters are a safetensors file with a checksum and the digest of its program. The safetensors
format has neither, so both are in the metadata, which other readers ignore.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opwright.describe.dtypes import Array, dtype_from_numpy, dtype_to_numpy
from opwright.describe.meta import Meta, Shape, shapes_match
from opwright.disk import (
    Chunk,
    StrPath,
    check_format,
    digest_of,
    map_large,
    open_regular,
    read_chunks,
    read_small,
    write_file,
)
from opwright.errors import AttributeValueError, FormatError
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
    from pathlib import Path


Arrays: TypeAlias = "dict[str, Array]"
Expected = Mapping[str, tuple[Shape | None, str]]
"""The shape and dtype of each variable; None matches any shape, and -1 any dimension."""

_PROGRAM_KEY: Final = "opwright.program"
_CHECKSUM_KEY: Final = "opwright.crc32"
_MAX_LISTED: Final = 5


class ParamsMark(NamedTuple):
    """The identity of a parameters file: the SHA-256 of its program and its own CRC-32."""

    program: str
    checksum: str


def mark_of(arrays: Mapping[str, Array], program: bytes) -> ParamsMark:
    """Return the mark of a parameters file with these arrays."""
    return ParamsMark(digest_of(program), _checksum_of(arrays))


def encode_params(arrays: Arrays, mark: ParamsMark) -> list[Chunk]:
    """Return the bytes of a parameters file; FormatError if `read_params` would not accept them."""
    return encode(arrays, {_PROGRAM_KEY: mark.program, _CHECKSUM_KEY: mark.checksum})


def _checksum(tensors: Iterable[tuple[str, str, Shape, Iterable[Chunk]]]) -> str:
    """Return the CRC-32 of names, dtypes, shapes and data, in order of names."""
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
    """Return the checksum of the tensors in an open file, which is read in chunks."""
    return _checksum(
        (name, meta.dtype, meta.shape, read_chunks(path, handle, begin, end))
        for name, (meta, begin, end) in sorted(tensors.items())
    )


def read_mark(path: StrPath, handle: int) -> ParamsMark:
    """Read the mark of an open parameters file; FormatError if the file is truncated or foreign."""
    return _mark_in(path, read_header(path, handle)[0])


def _mark_in(path: StrPath, metadata: Mapping[str, str]) -> ParamsMark:
    program = metadata.get(_PROGRAM_KEY)
    if program is None:
        raise FormatError(f"{path}: not written by opwright.save, got no checksum of its program")
    return ParamsMark(program, metadata.get(_CHECKSUM_KEY, ""))


def check_belongs(path: StrPath, mark: ParamsMark, program: bytes) -> None:
    """Raise FormatError unless a parameters file was written with the program."""
    if mark.program != digest_of(program):
        raise FormatError(
            f"{path}: must be the parameters that were saved with the program, got parameters "
            "of another program; save both again"
        )


def read_params(path: StrPath, handle: int, expected: Expected, *, mapped: bool = False) -> Arrays:
    """Return the arrays of an open parameters file, which must be exactly those in `expected`.

    With `mapped` the parameters of a large file on a local disk are memory-mapped, see `map_file`.
    Names, dtypes and shapes are compared before any data is read. Raises FormatError if the file is
    truncated, foreign or damaged, or if tensors are missing, superfluous or of a wrong shape.
    """
    metadata, tensors = read_header(path, handle)
    mark = _mark_in(path, metadata)
    _check_metas(path, tensors, expected)
    whole = map_large(path, handle) if mapped else None
    if whole is None:
        arrays = {name: read_array(path, handle, name, tensors[name]) for name in expected}
        checksum = _checksum_of(arrays)
    else:
        # Read, not mapped, so that truncating the file meanwhile causes an error, not a crash.
        checksum = _checksum_in(path, handle, tensors)
        arrays = _map_arrays(path, handle, tensors, whole)
    _compare(path, checksum, mark)
    return arrays


def check_params(path: StrPath, handle: int) -> None:
    """Raise FormatError if an open parameters file does not match its checksum."""
    metadata, tensors = read_header(path, handle)
    _compare(path, _checksum_in(path, handle, tensors), _mark_in(path, metadata))


def _compare(path: StrPath, checksum: str, mark: ParamsMark) -> None:
    if checksum != mark.checksum:
        raise FormatError(
            f"{path}: damaged, or not written by opwright.save, got data that does not match its "
            "checksum; save it again"
        )


def _map_arrays(path: StrPath, handle: int, tensors: Mapping[str, Tensor], whole: Array) -> Arrays:
    """Return tensors as views of a map; unaligned tensors, and bools for validation, are read."""
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
        f"{name!r} is not a variable of the program" for name in tensors if name not in expected
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


MANIFEST: Final = "generation.json"
PROGRAM: Final = "program.pb"
PARAMS: Final = "params.safetensors"

_FORMAT: Final = "opwright.generation"
_VERSION: Final = 1
_MAX_NOTES_BYTES: Final = 16 << 20
_MAX_NOTES_DEPTH: Final = 64  # JSON is parsed recursively, on the stack of the caller
_MAX_BYTES: Final = _MAX_NOTES_BYTES + (1 << 16)


class Manifest(NamedTuple):
    """Sizes and checksums of both files, and the argument `notes` of `save`."""

    program_bytes: int
    params_bytes: int
    mark: ParamsMark
    notes: dict[str, Any]


def list_files(
    program: bytes, params: Iterable[Chunk], manifest: Manifest
) -> dict[str, Iterable[Chunk]]:
    """Return the contents of the three files of a generation, by name."""
    content = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "files": {
            PROGRAM: {"size_bytes": manifest.program_bytes, "sha256": manifest.mark.program},
            PARAMS: {"size_bytes": manifest.params_bytes, "crc32": manifest.mark.checksum},
        },
        "notes": manifest.notes,
    }
    return {PROGRAM: [program], PARAMS: params, MANIFEST: [json.dumps(content).encode() + b"\n"]}


def write_generation(folder: Path, files: Mapping[str, Iterable[Chunk]]) -> None:
    """Write files into an empty folder."""
    for name, chunks in files.items():
        write_file(folder / name, chunks)


def check_notes(notes: object) -> dict[str, Any]:
    """Convert notes to JSON and back; raise AttributeValueError if that changes them."""
    if notes is None:
        return {}
    if not isinstance(notes, Mapping) or not all(isinstance(name, str) for name in notes):
        raise AttributeValueError(
            f"save: notes must be a mapping with string keys, got {notes!r}; write "
            "notes={'epoch': 3}"
        )
    try:
        text = json.dumps(dict(notes), allow_nan=False)
        copy: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise AttributeValueError(
            f"save: notes must be representable in JSON, got {error}; use numbers, strings "
            "and lists"
        ) from None
    if _nests_too_deep(copy):
        raise AttributeValueError(
            f"save: notes must nest at most {_MAX_NOTES_DEPTH} deep, got more; write deeper values "
            "as strings"
        )
    if copy != dict(notes):
        raise AttributeValueError(
            f"save: notes must be unchanged by a round trip through JSON, got {notes!r}; use "
            "strings as keys, and lists instead of tuples"
        )
    if len(text) > _MAX_NOTES_BYTES:
        raise AttributeValueError(
            f"save: notes must be at most {_MAX_NOTES_BYTES} bytes of JSON, got {len(text)}; keep "
            "large values in a persistable variable"
        )
    return copy


def _nests_too_deep(notes: object) -> bool:
    level = [notes]
    for _ in range(_MAX_NOTES_DEPTH):
        inner = [list(value.values()) if isinstance(value, dict) else value for value in level]
        level = [item for value in inner if isinstance(value, list) for item in value]
    return any(isinstance(value, dict | list) for value in level)


def read_manifest(path: StrPath, folder: int) -> Manifest:
    """Read the manifest of an open folder; FormatError if it is invalid or of a newer format."""
    with open_regular(path, folder) as handle:
        return parse_manifest(path, read_small(path, handle, _MAX_BYTES))


def parse_manifest(path: StrPath, data: bytes) -> Manifest:
    """Parse the manifest in `data`; `path` is for messages."""
    try:
        content = json.loads(data)
        check_format(path, content, _FORMAT, _VERSION)
        program, params = content["files"][PROGRAM], content["files"][PARAMS]
        mark = ParamsMark(_text(program["sha256"]), _text(params["crc32"]))
        sizes = _size(program["size_bytes"]), _size(params["size_bytes"])
        return Manifest(*sizes, mark, dict(content["notes"]))
    except FormatError:
        raise
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FormatError(
            f"{path}: truncated, or not a manifest of opwright.save, got {error!r}; remove the "
            "folder that contains it to load the previous generation"
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} instead of a string")
    return value


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} instead of a size")
    return value
