"""`Lock`: the kernels and passes, by package and version, that later plans must use.

A lock file is JSON with a line for each kernel and pass. Like a program, it may be from an
untrusted source, so its size is limited, and each name is safe in messages and in a pip command.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.context.context import Context
from opwright.disk import check_format, open_regular, path_of, read_small, replace_file
from opwright.errors import FileMissingError, FileTakenError, FormatError, LockError
from opwright.lowering.request import Target
from opwright.packages import Package
from opwright.packages.registrations import key_text
from opwright.registry import KernelEntry, KernelRegistry, PassEntry

_WAY_OUT: Final = "to write the lock again: opwright lock, or network.lock().save(path)"
_FORMAT: Final = "opwright.lock"
_VERSION: Final = 1
_MAX_BYTES: Final = 8 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.*+!-]{0,127}")


class LockedKernel(NamedTuple):
    """The key of a kernel, and name and version of the distribution that provides it."""

    operator: str
    device: str
    dtype: str
    library: str
    package: str
    version: str


class LockedPass(NamedTuple):
    """A pass that rewrites the plan, and name and version of the distribution that provides it."""

    name: str
    package: str
    version: str


class Lock(NamedTuple):
    """The kernels, with packages and versions, that run each operator, and the passes that run.

    `Network.lock` returns a lock, and ``Network.compile(lock=...)`` uses it.

    Attributes
    ----------
    device : str
        Device type of the plans.
    kernels : tuple of LockedKernel
        By operator type; kernels of one type in the order in which they are tried.
    passes : tuple of LockedPass
        In the order in which they run.
    """

    device: str
    kernels: tuple[LockedKernel, ...]
    passes: tuple[LockedPass, ...]

    @staticmethod
    def of(target: Target) -> Lock:
        """Return a lock of all choices for a target."""
        kernels = dict(target.chosen_kernels)
        ordered = sorted(
            KernelRegistry.sort(kernels), key=lambda entry: (entry.op_type, kernels[entry])
        )
        passes = tuple(map(_lock_pass, list(target.chosen_passes)))
        return Lock(target.device.kind, tuple(map(_lock_kernel, ordered)), passes)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Lock:
        """Load a lock from a file; no code in the file is run.

        Raises
        ------
        FileMissingError
            If there is no such file.
        FormatError
            If it is too large, damaged, foreign or of a newer format.
        """
        return _read(Path(path_of("Lock.load", path, "file")))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file of JSON, with a line for each kernel and pass.

        Raises
        ------
        FileTakenError
            If the file exists and is not a lock.
        FileMissingError
            If its folder does not exist.
        OSError
            If it cannot be written; an old file is unchanged.
        """
        _write(Path(path_of("Lock.save", path, "file")), self)

    def includes(self, package: Package) -> bool:
        """Whether any kernel or pass of this version of a package is locked."""
        return package[1:] in {row[-2:] for row in (*self.kernels, *self.passes)}

    def select(self, candidates: Iterable[KernelEntry]) -> tuple[KernelEntry, ...]:
        """Return the candidates that are locked, in the order of the lock."""
        by_row = {_lock_kernel(entry): entry for entry in candidates}
        return tuple([by_row[row] for row in self.kernels if row in by_row])

    def check(self, context: Context, device: str) -> None:
        """Raise LockError if installed kernels or passes differ, with every difference."""
        differences = []
        if device != self.device:
            differences.append(f"device: locked {self.device}, found {device}")
        missing: list[LockedKernel | LockedPass] = []
        for row in self.kernels:
            entries = context.kernels.entries(row.operator)
            installed = next((_lock_kernel(e) for e in entries if tuple(e.key) == row[:4]), None)
            if installed != row:
                missing.append(row)
                label = "none" if installed is None else _label(installed)
                differences.append(f"{key_text(*row[:3])}: locked {_label(row)}, found {label}")
        for locked in self.passes:
            entry = context.passes.find(locked.name)
            if entry is None or _lock_pass(entry) != locked:
                missing.append(locked)
                label = "none" if entry is None else entry.package.label
                version = f"{locked.package} {locked.version}"
                differences.append(f"pass {locked.name}: locked {version}, found {label}")
        if differences:
            raise make_lock_error(differences, missing, context)


def describe_unserved(
    op_type: str,
    device: str,
    dtype: str,
    refusals: Iterable[tuple[KernelEntry, str]],
    candidates: Sequence[KernelEntry],
) -> str:
    """Describe how an operator differs from the lock: its kernels refuse, or none is locked."""
    texts = [f"locked {_label(_lock_kernel(entry))} {reason}" for entry, reason in refusals]
    locked = "; ".join(texts) or "locked none"
    installed = " or ".join(_label(_lock_kernel(entry)) for entry in candidates)
    return f"{key_text(op_type, device, dtype)}: {locked}, found {installed}"


def _lock_kernel(entry: KernelEntry) -> LockedKernel:
    return LockedKernel(*entry.key, entry.package.distribution, entry.package.version)


def _lock_pass(entry: PassEntry) -> LockedPass:
    return LockedPass(entry.name, entry.package.distribution, entry.package.version)


def _label(row: LockedKernel) -> str:
    return f"{row.library} of {row.package} {row.version}"


def make_lock_error(
    differences: Iterable[str], missing: Sequence[LockedKernel | LockedPass], context: Context
) -> LockError:
    """Return the error that lists each difference once, and the remedies."""
    listed = list(dict.fromkeys(differences))
    lines = [f"lock: kernels and passes must match the lock, got {len(listed)} that differ"]
    lines += [f"  {line}" for line in listed]
    lines += [f"  {line}" for line in context.report.lines()]
    if missing:
        packages = dict.fromkeys(f"{row.package}=={row.version}" for row in missing)
        lines.append(f"  to get what is locked: pip install {' '.join(packages)}")
    return LockError("\n".join([*lines, f"  {_WAY_OUT}"]))


# -- the file --------------------------------------------------------------------------------------


def _write(path: Path, lock: Lock) -> None:
    """Write a temporary file and rename it; an existing file is replaced only if it is a lock."""
    if path.exists():
        try:
            _read(path)
        except FormatError as error:
            raise FileTakenError(
                f"{path}: must be a new file or an old lock, got another file; choose another "
                "path, or remove it"
            ) from error
    elif not path.parent.is_dir():
        raise FileMissingError(f"{path}: its folder must exist, got none; create it first")
    text = (
        f'{{\n  "format": "{_FORMAT}",\n  "format_version": {_VERSION},\n'
        f'  "device": {json.dumps(lock.device)},\n'
        f'  "kernels": {_format(lock.kernels)},\n  "passes": {_format(lock.passes)}\n}}\n'
    )
    _check_writable(text)
    replace_file(path, [text.encode()])


def _check_writable(text: str) -> None:
    """Raise FormatError if `Lock.load` would refuse the text."""
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError(f"{len(text)} bytes, of at most {_MAX_BYTES}")
        _parse(Path("lock"), text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"lock: Lock.load must accept the text, got {_shown(str(error))}; lock a "
            "network with other kernels"
        ) from None


def _shown(text: str) -> str:
    return ascii(text)[1:-1][:160]


def _format(rows: Iterable[LockedKernel | LockedPass]) -> str:
    lines = ",\n".join(f"    {json.dumps(row._asdict())}" for row in rows)
    return f"[\n{lines}\n  ]" if lines else "[]"


def _read(path: Path) -> Lock:
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
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path}: damaged, or not a lock of opwright, got {_shown(str(error))}; write it again "
            "with opwright lock, or network.lock().save(path)"
        ) from None


def _parse(path: Path, data: bytes | str) -> Lock:
    content = json.loads(data)
    check_format(path, content, _FORMAT, _VERSION, ", or write the lock again")
    kernels = [LockedKernel(*row) for row in _rows(content, "kernels", LockedKernel._fields)]
    passes = [LockedPass(*row) for row in _rows(content, "passes", LockedPass._fields)]
    _check_once([row[:4] for row in kernels])
    _check_once([row[:1] for row in passes])
    (device,) = _names(content, ("device",))
    return Lock(device, tuple(kernels), tuple(passes))


def _rows(content: Any, name: str, fields: Sequence[str]) -> list[list[str]]:
    rows = content.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{name} {rows!r:.80}")
    return [_names(row, fields) for row in rows]


def _names(row: Any, fields: Sequence[str]) -> list[str]:
    names = [row.get(field) for field in fields]
    for field, name in zip(fields, names, strict=True):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{field} {name!r:.80}")
    return names


def _check_once(keys: Iterable[tuple[str, ...]]) -> None:
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise ValueError(f"{', '.join(twice[0])} twice")
