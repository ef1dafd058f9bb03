"""Reads and writes the file of a `Lock`: JSON with a line for each kernel and pass.

It may come from anyone, like a program: its size is bounded, and each name in it is safe in a
message and in a command for pip.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.disk import check_format, open_regular, read_small, replace_file
from opwright.errors import FileMissingError, FileTakenError, FormatError

_FORMAT: Final = "opwright.lock"
_VERSION: Final = 1
_MAX_BYTES: Final = 8 << 20


class LockedKernel(NamedTuple):
    """A kernel: its key, and the distribution and version that provide it."""

    operator: str
    device: str
    dtype: str
    library: str
    package: str
    version: str


class LockedPass(NamedTuple):
    """A pass that rewrites the plan, and the distribution and version that provide it."""

    name: str
    package: str
    version: str


Fields = tuple[str, tuple[LockedKernel, ...], tuple[LockedPass, ...]]
"""The device, the kernels and the passes of a lock."""

_NAME: Final = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.*+!-]{0,127}")


def write_lock(
    name: str, device: str, kernels: Iterable[LockedKernel], passes: Iterable[LockedPass]
) -> None:
    """Write a temporary file and rename it; only a lock is replaced. See `Lock.save`."""
    path = Path(name)
    if path.exists():
        try:
            read_lock(name)
        except FormatError as error:
            raise FileTakenError(
                f"{path}: must be new or a lock that is replaced, got another file; choose another "
                "path, or remove it"
            ) from error
    elif not path.parent.is_dir():
        raise FileMissingError(f"{path}: its folder must exist, got none; make it first")
    text = (
        f'{{\n  "format": "{_FORMAT}",\n  "format_version": {_VERSION},\n'
        f'  "device": {json.dumps(device)},\n'
        f'  "kernels": {_format(kernels)},\n  "passes": {_format(passes)}\n}}\n'
    )
    _check_writable(text)
    replace_file(path, [text.encode()])


def _check_writable(text: str) -> None:
    """FormatError where `read_lock` would refuse the text."""
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError(f"{len(text)} bytes, of at most {_MAX_BYTES}")
        _parse(Path("lock"), text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"lock: Lock.load must accept the written text, got {ascii(str(error))[1:160]}; lock a "
            "network of other kernels"
        ) from None


def _format(rows: Iterable[LockedKernel | LockedPass]) -> str:
    lines = ",\n".join(f"    {json.dumps(row._asdict())}" for row in rows)
    return f"[\n{lines}\n  ]" if lines else "[]"


def read_lock(name: str) -> Fields:
    """Return the fields of the lock in a file; see `Lock.load`."""
    path = Path(name)
    try:
        with open_regular(path, follow=True) as handle:
            data = read_small(path, handle, _MAX_BYTES)
    except FileNotFoundError:
        raise FileMissingError(
            f"{path}: no such file; write it with opwright lock, or network.lock().save(path)"
        ) from None
    try:
        return _parse(path, data)
    except FormatError:
        raise
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FormatError(
            f"{path}: damaged, or no lock of opwright, got "
            f"{ascii(f'{type(error).__name__}: {error}')[1:160]}; write it again with opwright "
            "lock, or network.lock().save(path)"
        ) from None


def _parse(path: Path, data: bytes | str) -> Fields:
    content = json.loads(data)
    check_format(path, content, _FORMAT, _VERSION, ", or write the lock again")
    kernels = [LockedKernel(*_names(row, LockedKernel._fields)) for row in content["kernels"]]
    passes = [LockedPass(*_names(row, LockedPass._fields)) for row in content["passes"]]
    _check_once([row[:4] for row in kernels])
    _check_once([row[:1] for row in passes])
    (device,) = _names(content, ("device",))
    return device, tuple(kernels), tuple(passes)


def _names(row: Any, fields: Sequence[str]) -> list[str]:
    names = [row[field] for field in fields]
    for field, name in zip(fields, names, strict=True):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{field} {name!r:.80}")
    return names


def _check_once(keys: list[tuple[str, ...]]) -> None:
    seen: set[tuple[str, ...]] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"{', '.join(key)} twice")
        seen.add(key)
