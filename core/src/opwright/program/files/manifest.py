"""The manifest of a generation: sizes and checksums of its files, and the notes of the user."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright.errors import AttributeValueError, FormatError
from opwright.program.files.disk import (
    Chunk,
    StrPath,
    check_format,
    open_regular,
    read_small,
    write_file,
)
from opwright.program.files.params_file import ParamsMark
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST: Final = "generation.json"
PROGRAM: Final = "program.pb"
PARAMS: Final = "params.safetensors"

_FORMAT: Final = "opwright.generation"
_VERSION: Final = 1
_MAX_NOTES_BYTES: Final = 16 << 20
_MAX_NOTES_DEPTH: Final = 64  # JSON is read by recursion: what is deeper depends on who calls
_MAX_BYTES: Final = _MAX_NOTES_BYTES + (1 << 16)


class Manifest(NamedTuple):
    """The sizes of both files, the mark of the parameters, and the argument `notes` of `save`."""

    program_bytes: int
    params_bytes: int
    mark: ParamsMark
    notes: dict[str, Any]


def write_generation(
    folder: Path, program: bytes, params: Iterable[Chunk], manifest: Manifest
) -> None:
    """Write the three files of a generation into an empty folder."""
    content = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "files": {
            PROGRAM: {"size_bytes": manifest.program_bytes, "sha256": manifest.mark.program},
            PARAMS: {"size_bytes": manifest.params_bytes, "crc32": manifest.mark.checksum},
        },
        "notes": manifest.notes,
    }
    write_file(folder / PROGRAM, [program])
    write_file(folder / PARAMS, params)
    write_file(folder / MANIFEST, [json.dumps(content).encode() + b"\n"])


def check_notes(notes: object) -> dict[str, Any]:
    """Return a copy of notes by way of JSON; AttributeValueError if that changes them."""
    if notes is None:
        return {}
    if not isinstance(notes, Mapping) or not all(isinstance(name, str) for name in notes):
        raise AttributeValueError(
            f"save: notes must be a mapping with names, got {notes!r}; write notes={{'epoch': 3}}"
        )
    try:
        text = json.dumps(dict(notes), allow_nan=False)
        copy: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise AttributeValueError(
            f"save: notes must be what JSON can write, got {error}; give numbers, text and lists"
        ) from None
    if _nests_too_deep(copy):
        raise AttributeValueError(
            f"save: notes must nest at most {_MAX_NOTES_DEPTH} deep, got more; keep what is deeper "
            "as text"
        )
    if copy != dict(notes):
        raise AttributeValueError(
            f"save: notes must come back from JSON as they were, got {notes!r}; name everything by "
            "text, and give lists instead of tuples"
        )
    if len(text) > _MAX_NOTES_BYTES:
        raise AttributeValueError(
            f"save: notes must be at most {_MAX_NOTES_BYTES} bytes of JSON, got {len(text)}; keep "
            "what is large in a persistable variable"
        )
    return copy


def _nests_too_deep(notes: object) -> bool:
    level = [notes]
    for _ in range(_MAX_NOTES_DEPTH):
        inner = [list(value.values()) if isinstance(value, dict) else value for value in level]
        level = [item for value in inner if isinstance(value, list) for item in value]
    return any(isinstance(value, dict | list) for value in level)


def read_manifest(path: StrPath, folder: int) -> Manifest:
    """Return the manifest of an open folder; FormatError if it is none, or of a newer format."""
    with open_regular(path, folder) as handle:
        data = read_small(path, handle, _MAX_BYTES)
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
            f"{path}: truncated, or no manifest of opwright.save, got {error!r}; remove the folder "
            "that it is in to load the generation before"
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} instead of text")
    return value


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} instead of a size")
    return value
