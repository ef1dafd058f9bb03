"""Plans that are stored in the cache folder, by content, so that later processes skip lowering.

A saved state has a text record, and a bundle without weights for each combination of shapes. The
record lists feeds, results, the positions of the parameters in their file, and all files that took
part in lowering, and is invalid once a file has changed. Missing and damaged files cost only time.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from _thread import RLock
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context as Variables
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright import _runtime
from opwright._version import __version__
from opwright.cache_folder import (
    check_trust,
    find_cache_folder,
    read_switch,
    read_trusted,
    write_trusted,
)
from opwright.context.guard import default_epoch, is_unchanged
from opwright.context.threads import get_num_threads, is_deterministic
from opwright.disk import digest_of, empty_bytes, map_large, open_regular, read_into, read_small
from opwright.errors import FormatError, OpwrightError
from opwright.records import NamedTuple
from opwright.run.loaded import LoadedProgram
from opwright.run.results import ArraySpec

if TYPE_CHECKING:
    from opwright.program import Program

FORMAT: Final = 3
"""Incremented when the format of records changes."""

_SWITCH: Final = "OPWRIGHT_KEEP_PLANS"
_OTHER_PLANS: Final = ("OPWRIGHT_CHECKED", "OPWRIGHT_ISOLATE")
"""Environment variables that disable the storage of plans."""

_MOST_BYTES: Final = 1 << 26
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
_MOST_COPIES: Final = 8
"""Maximum number of known copies of the same parameters, whose checksum is verified once."""

_FILES: Final = ("program.pb", "params.safetensors", "generation.json")


class Place(NamedTuple):
    """A saved state in the cache folder; `stem` is the beginning of all paths.

    `params` is the path of the parameters, and `seen` the result of `see` before they were read;
    `program` and `manifest` are the contents of the other files. A standalone pair has an empty
    manifest.
    """

    stem: str
    params: str
    seen: list[Any]
    program: bytes
    manifest: bytes

    def path_for(self, metas: object) -> str:
        """Return the path of the plan for feeds with these metas."""
        return f"{self.stem}-{zlib.crc32(repr(metas).encode()):08x}.owb"


class Record(NamedTuple):
    """The description of a saved state that has been called; see the module docstring."""

    n_ops: int
    params: Sequence[list[Any]]  # results of `see` for copies with the right checksum
    feeds: tuple[ArraySpec, ...]
    fetches: tuple[ArraySpec, ...]
    program_feeds: tuple[str, ...]
    weights: Sequence[tuple[str, str, Sequence[int], int]]
    files: Sequence[list[Any]]  # likewise


def may_keep() -> bool:
    """Whether this process stores plans and uses stored plans."""
    is_on = read_switch(_SWITCH, default=True) and not any(map(os.environ.get, _OTHER_PLANS))
    return is_on and is_unchanged()


def find_place(path: object) -> Place | None:
    """Return the `Place` of the state saved in a folder, or None if its plans are not stored."""
    folder = find_cache_folder()
    if folder is None or not may_keep() or not isinstance(path, str | os.PathLike):
        return None
    try:
        inner = _find_newest(os.fspath(path))
        program, params, manifest = (os.path.join(inner, name) for name in _FILES)
        seen = see(params)
        texts = _read(program), _read(manifest) if os.path.lexists(manifest) else b""
        begin = 8 + int.from_bytes(_read(params, 8), "little")
        parts = _describe_process().encode(), *texts, _read(params, begin)
    except (OSError, FormatError):  # the code that loads the folder raises a better error
        return None
    stem = os.path.join(folder, "plans", digest_of(b"\0".join(parts))[:32])
    return Place(stem, params, seen, *texts)


def _find_newest(folder: str) -> str:
    """Return the folder of the newest generation, or the folder of a standalone pair.

    Raises OSError if top-level files are not links to the newest generation.
    """
    generations = os.path.join(folder, "generations")
    numbers = os.listdir(generations) if os.path.isdir(generations) else []
    newest = max((name for name in numbers if name.isdecimal()), key=int, default=None)
    if newest is None:
        return folder
    for name in _FILES[:2]:
        if os.readlink(os.path.join(folder, name)) != f"latest/{name}":
            raise OSError(f"{name} is not a link to the newest generation")
    return os.path.join(generations, newest)


def _read(path: str, size_bytes: int | None = None) -> bytes:
    """Return the beginning of a file, or the complete file."""
    with open_regular(path, follow=True) as handle:
        return read_small(path, handle, _MOST_BYTES, size_bytes)


def describe_installed() -> str:
    """Return the Python version, and the versions of all installed distributions."""
    distributions = [
        (folder, sorted(name for name in os.listdir(folder) if name.endswith("-info")))
        for folder in dict.fromkeys(path or os.curdir for path in sys.path)
        if os.path.isdir(folder)
    ]
    found = [item for item in distributions if item[1]]
    return repr((FORMAT, __version__, sys.version, found))


def _describe_process() -> str:
    """Return the settings on which lowering depends, apart from the program and installed files."""
    others = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("OPWRIGHT_") and name != "OPWRIGHT_CACHE_DIR"
    )
    process = get_num_threads(), is_deterministic(), _runtime.describe_processor()
    return f"{describe_installed()} {process} {others}"


# -- records ---------------------------------------------------------------------------------------


def dump_record(record: Record) -> bytes:
    """Return a record as text."""
    body = json.dumps(record).encode()
    return b"opwright plans %d %08x\n" % (FORMAT, zlib.crc32(body)) + body


def parse_record(data: bytes) -> Record:
    """Parse a record that `dump_record` wrote; ValueError for any other text."""
    head, _, body = data.partition(b"\n")
    if head != b"opwright plans %d %08x" % (FORMAT, zlib.crc32(body)):
        raise ValueError("its checksum or format differs")
    record = Record(*json.loads(body))
    feeds, fetches = (
        tuple(
            ArraySpec(name, None if dims is None else tuple(dims), dtype)
            for name, dims, dtype in group
        )
        for group in (record.feeds, record.fetches)
    )
    return record._replace(feeds=feeds, fetches=fetches, program_feeds=tuple(record.program_feeds))


def read_record(stem: str) -> Record | None:
    """Return the record with this stem; None if there is no valid record."""
    try:
        record = parse_record(read_trusted(f"{stem}.record", _MOST_BYTES))
        return record if all(stat_of(file[0]) == file for file in record.files) else None
    except (OSError, ValueError):
        return None


def stat_of(path: str) -> list[Any]:
    """Return a path with the size of its file, and the time of its last change in ns."""
    status = os.stat(path)
    return [path, status.st_size, status.st_mtime_ns]


def see(path: str) -> list[Any]:
    """Return the result of `stat_of`, and an id of the current system boot.

    A file that was not synchronized has the written content only until the system crashes.
    """
    try:
        with open(_BOOT, encoding="ascii") as file:
            return [*stat_of(path), file.read()]
    except FileNotFoundError:
        return [*stat_of(path), time_ns()]  # a unique value


# -- a stored state -------------------------------------------------------------------


class CachedProgram(LoadedProgram):
    """A saved state with stored plans; its program is read at the first access.

    Parameters
    ----------
    place, record
        The place and record of the saved state.
    scope : Scope
        With its parameters.
    trainable : bool
        As for `load`.
    """

    def __init__(
        self, place: Place, record: Record, scope: _runtime.Scope, trainable: bool
    ) -> None:
        self._place, self._record, self._trainable = place, record, trainable
        self._scope, self._structure = scope, scope.structure_version
        self.program_feeds = record.program_feeds
        self._names = tuple(spec.name for spec in record.fetches)
        self.device = "cpu"
        self.choices = {"lock": None, "options": None}
        self._lock = RLock()
        self._uses_plans: bool | None = None  # once it was called
        self._last: tuple[Any, ...] = ()
        names = [spec.name for spec in record.feeds]
        from opwright.run.bundles.opening import PlanSource

        source = PlanSource(record.feeds, self._find_plan)
        label = f"network of {record.n_ops} operators"
        self._plans = _runtime.CompiledNetwork(scope, names, source, None, default_epoch, label)

    def __getattr__(self, name: str) -> Any:
        if name not in ("program", "notes"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        with self._lock:
            if "program" not in vars(self):
                self.program, self.notes = self._read_program()
                self._generation = self.program.generation
                if self._uses_plans:
                    self._find_part()  # calls do not see later changes
        return vars(self)[name]

    def _read_program(self) -> tuple[Program, Mapping[str, Any]]:
        from opwright.program.files.manifest import parse_manifest
        from opwright.program.files.opening import parse_saved
        from opwright.program.program import persistable_variables
        from opwright.program.transforms import freeze

        place = self._place
        notes = parse_manifest(place.params, place.manifest).notes if place.manifest else {}
        program = parse_saved(place.program, notes).program
        for variable in persistable_variables(program):
            variable.shape = self.scope.var(variable.name).shape
        if not self._trainable:
            freeze(program)
        return program, notes

    @property
    def feeds(self) -> tuple[ArraySpec, ...]:
        """The arguments of a call, in order."""
        return self._record.feeds

    @property
    def fetches(self) -> tuple[ArraySpec, ...]:
        """The results of a call, in order."""
        return self._record.fetches

    def report(self) -> Any:
        """Return its feeds, results and parameters and, after the first call, its kernels."""
        if self._last:
            _, compiled = self._called or self._compile()
            names = [spec.name for spec in self._record.feeds]
            shapes = [np.empty(shape, dtype) for shape, dtype in self._last]
            compiled.find_plan(dict(zip(names, shapes, strict=True)))
        return super().report()

    def _callable(self) -> _runtime.CompiledNetwork:
        with self._lock:
            if self._uses_plans is None:
                is_same = "program" not in vars(self) or self.program.generation == self._generation
                self._uses_plans = is_unchanged() and is_same
                self.keep = self.keep if self._uses_plans else None
        return self._plans if self._uses_plans else super()._callable()

    def _find_plan(self, arrays: tuple[Any, ...]) -> Any:
        """Return the stored plan for these feeds, or lower a plan."""
        plan = None
        if is_unchanged() and self.scope.structure_version == self._structure:
            bundle = open_bundle(self._place, self._record, metas_of(arrays))
            with suppress(OpwrightError):  # metas that share a checksum
                plan = bundle and bundle.plan_for(arrays, get_num_threads())
        if plan is not None:
            self._last = tuple((array.shape, array.dtype) for array in arrays)
            return plan
        # Lower in the default Context, even if another Context is current.
        _, compiled = self._called or Variables().run(self._compile)
        return compiled.source(arrays)


def open_bundle(place: Place, record: Record, metas: object) -> _runtime.Bundle | None:
    """Return the stored plan for feeds with these metas, or None if no valid plan exists."""
    from opwright.run.bundles.opening import open_bundle_file

    folders = {os.path.dirname(file[0]): None for file in record.files if file[0].endswith(".so")}
    path = place.path_for(metas)
    try:
        check_trust(path, os.lstat(path))
        return open_bundle_file(path, list(folders))
    except (OSError, OpwrightError):  # missing or damaged
        return None


def metas_of(arrays: Iterable[Any]) -> list[tuple[tuple[int, ...], str]]:
    """Return the shapes and dtypes of arrays, the key of stored plans."""
    return [(tuple(array.shape), str(array.dtype)) for array in arrays]


def open_cached(place: Place, *, mapped: bool, trainable: bool) -> LoadedProgram | None:
    """Return a saved state with its stored plans, or None if there are none."""
    record = read_record(place.stem)
    scope = record and _read_scope(place, record, mapped)
    return CachedProgram(place, record, scope, trainable) if record and scope else None


def _read_scope(place: Place, record: Record, mapped: bool) -> _runtime.Scope | None:
    """Return a scope with the parameters, or None if they are damaged."""
    # Files in a generation, which is recognized by its manifest, are never modified.
    mapped, is_known = mapped and bool(place.manifest), place.seen in record.params
    try:
        with open_regular(place.params, follow=True) as handle:
            if not is_known or not place.manifest:
                from opwright.program.files.manifest import check_params

                check_params(place.params, handle)
            data = map_large(place.params, handle) if mapped else None
            if data is None:
                data = empty_bytes(os.fstat(handle).st_size)
                read_into(place.params, handle, data.data, 0)
        scope = _runtime.Scope()
        for name, dtype, shape, begin in record.weights:
            kind = np.dtype(dtype)
            end = begin + kind.itemsize * int(np.prod(shape, dtype=np.int64))
            scope.var(name).borrow(data[begin:end].view(kind).reshape(shape))
        if not is_known:
            others = [seen for seen in record.params if seen[0] != place.seen[0]]
            record = record._replace(params=[*others, place.seen][-_MOST_COPIES:])
            write_trusted(f"{place.stem}.record", [dump_record(record)])
    except (OSError, FormatError, ValueError):
        return None
    return scope
