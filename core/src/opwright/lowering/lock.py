"""Lock: the kernels and passes of a plan, by package and version, and plans that hold to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from opwright.errors import LockError
from opwright.registry import ANY, KernelEntry, KernelRegistry, Package, PassEntry
from opwright.registry.registrations import key_text

if TYPE_CHECKING:
    from opwright.lowering.request import Target
    from opwright.plugins.context import Context

_WAY_OUT: Final = "to write the lock again: opwright lock, or network.lock().save(path)"


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


class Choices:
    """What was chosen for all plans of one callable, their bodies and what follows them included.

    Passes ask for kernels, and rewrite by the answer: a kernel counts although a later pass
    replaces its operator.

    Attributes
    ----------
    kernels : dict of KernelEntry to bool
        Each kernel, and whether a pin of another library put it behind that.
    passes : dict of PassEntry to None
        The passes that ran, in order.
    """

    __slots__ = ("kernels", "passes")

    def __init__(self) -> None:
        self.kernels: dict[KernelEntry, bool] = {}
        self.passes: dict[PassEntry, None] = {}

    def add_kernel(self, entry: KernelEntry, context: Context) -> None:
        """Note a kernel that was chosen under the pins of a Context."""
        self.kernels[entry] = context.pins.get(ANY) not in {None, entry.library}


@dataclass(frozen=True)
class Lock:
    """Which kernel of which package and version serves each operator, and which passes run.

    `Network.lock` makes one, ``Network.compile(lock=...)`` holds to one.

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
        """Return the lock of everything that was chosen for a target."""
        chosen = dict(target.choices.kernels)
        ordered = sorted(
            KernelRegistry.sort(chosen), key=lambda entry: (entry.op_type, chosen[entry])
        )
        passes = tuple(map(_lock_pass, list(target.choices.passes)))
        return Lock(target.device.kind, tuple(map(_lock_kernel, ordered)), passes)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Lock:
        """Return the lock in a file; nothing in it is run.

        Raises
        ------
        FileMissingError
            Where there is no such file.
        FormatError
            Where it is too large, damaged, foreign or of a newer format.
        """
        from opwright.lowering.lock_file import read_lock  # and json with it

        return read_lock(os.fspath(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file of JSON, with a line for each kernel and pass.

        Raises
        ------
        FileTakenError
            Where the file exists and is no lock.
        OSError
            Where it cannot be written; an old file is unchanged.
        """
        from opwright.lowering.lock_file import write_lock

        write_lock(os.fspath(path), self)

    @cached_property
    def _positions(self) -> dict[LockedKernel, int]:
        return {row: position for position, row in enumerate(self.kernels)}

    @cached_property
    def _packages(self) -> frozenset[tuple[str, str]]:
        rows: list[LockedKernel | LockedPass] = [*self.kernels, *self.passes]
        return frozenset((row.package, row.version) for row in rows)

    def includes(self, package: Package) -> bool:
        """Whether any kernel or pass of this version of a package is locked."""
        return (package.distribution, package.version) in self._packages

    def select(self, candidates: Iterable[KernelEntry]) -> tuple[KernelEntry, ...]:
        """Return the locked ones of some candidates, in the order of the lock."""
        rows = ((self._positions.get(_lock_kernel(entry)), entry) for entry in candidates)
        found = [(position, entry) for position, entry in rows if position is not None]
        return tuple(entry for _, entry in sorted(found, key=lambda pair: pair[0]))

    def check(self, context: Context, device: str) -> None:
        """Raise LockError where what is installed differs, with every difference."""
        differences = []
        if device != self.device:
            differences.append(f"device: locked {self.device}, found {device}")
        lacking: list[LockedKernel | LockedPass] = []
        for row in self.kernels:
            entries = context.kernels.entries(row.operator)
            installed = next((_lock_kernel(e) for e in entries if tuple(e.key) == row[:4]), None)
            if installed != row:
                lacking.append(row)
                found = "none" if installed is None else _label(installed)
                differences.append(f"{_key(row)}: locked {_label(row)}, found {found}")
        for locked in self.passes:
            entry = context.passes.find(locked.name)
            if entry is None or _lock_pass(entry) != locked:
                lacking.append(locked)
                found = "none" if entry is None else entry.package.label
                label = f"{locked.package} {locked.version}"
                differences.append(f"pass {locked.name}: locked {label}, found {found}")
        if differences:
            raise make_lock_error(differences, lacking, context)


def describe_unserved(
    op_type: str,
    device: str,
    dtype: str,
    refusals: Iterable[tuple[KernelEntry, str]],
    candidates: Sequence[KernelEntry],
) -> str:
    """Return how an operator differs from the lock: its kernels refuse, or it has none there."""
    texts = [f"locked {_label(_lock_kernel(entry))} {reason}" for entry, reason in refusals]
    locked = "; ".join(texts) or "locked none"
    found = " or ".join(_label(_lock_kernel(entry)) for entry in candidates)
    return f"{key_text(op_type, device, dtype)}: {locked}, found {found}"


def _lock_kernel(entry: KernelEntry) -> LockedKernel:
    return LockedKernel(*entry.key, entry.package.distribution, entry.package.version)


def _lock_pass(entry: PassEntry) -> LockedPass:
    return LockedPass(entry.name, entry.package.distribution, entry.package.version)


def _key(row: LockedKernel) -> str:
    return key_text(row.operator, row.device, row.dtype)


def _label(row: LockedKernel) -> str:
    return f"{row.library} of {row.package} {row.version}"


def make_lock_error(
    differences: Iterable[str], lacking: Sequence[LockedKernel | LockedPass], context: Context
) -> LockError:
    """Return the error with every difference, each once, and the ways out."""
    listed = list(dict.fromkeys(differences))
    lines = [f"lock: kernels and passes must be the locked ones, got {len(listed)} that differ"]
    lines += [f"  {line}" for line in listed]
    lines += [f"  {line}" for line in context.report.lines()]
    if lacking:
        wanted = dict.fromkeys(f"{row.package}=={row.version}" for row in lacking)
        lines.append(f"  to get what is locked: pip install {' '.join(wanted)}")
    return LockError("\n".join([*lines, f"  {_WAY_OUT}"]))
