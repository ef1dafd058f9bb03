"""Keeps the registrations of plugins in a file so that later processes do not import plugins.

Each set of installed plugins has its own file, so environments that share a cache folder do not
overwrite each other. If several first processes run concurrently, they write the same content. A
file that is stale, corrupt or not writable only costs time.

The named modules are imported later, so a record may only name modules and libraries of its
own distribution. A record is stored as columns of text, each with a table of its distinct values;
hundreds of kernels are read as quickly as from byte code.
"""

from __future__ import annotations

# pathlib takes 4 ms to import, as long as reading an index.
# ruff: noqa: PTH118, PTH120
import contextlib
import functools
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from opwright.cache_folder import read_trusted, remove_oldest, write_trusted
from opwright.discovery.load import stat_file
from opwright.discovery.scan import PluginRecord, Source, WatchedFile
from opwright.errors import RegistrationError
from opwright.foreign import raise_if_of_signal
from opwright.packages import (
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    PassRegistration,
)
from opwright.packages.rules import check_target

FORMAT: Final = 10
"""Incremented when the format of records changes; indexes with another number are not read."""

_KEPT_FILES: Final = 32
"""The maximum number of indexes in the folder; the oldest are removed."""

_MOST_BYTES: Final = 1 << 26
"""The maximum size of an index in bytes; a plugin needs a few thousand."""

_SEPARATORS: Final = "\x1d\x1e\x1f"
"""Separators of tuple items, by depth."""

_TAGS: Final = {str: "s", int: "i", bool: "b", float: "f", tuple: "t"}

_ALLOWED: Final = bytes([*b"\n\t\x1d\x1e\x1f", *range(0x20, 0x7F), *range(0x80, 0x100)])

_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "s": str,
    "i": int,
    "f": float,
    "b": {"0": False, "1": True}.__getitem__,
}


_GROUPS: Final[tuple[tuple[type[Any], str], ...]] = (
    (Source, "sssssi"),
    (OpRegistration, "ssbt"),
    (KernelRegistration, "sstssitbbbts"),
    (DeviceRegistration, "sss"),
    (PassRegistration, "sssst"),
    (OptionRegistration, "s*s"),
    (AnnexRegistration, "sss"),
    (WatchedFile, "sii"),
    (tuple, "f"),  # the time of loading
)
"""The parts of a record, each with the class of its rows and the tag of each field."""


def index_path(folder: str, sources: Iterable[Source], core_version: str) -> str:
    """Return the path of the index for these plugins, this Python and this core."""
    environment = [FORMAT, core_version, sys.implementation.cache_tag, sys.platform]
    plugins = [[s.distribution, s.name, s.target, s.location] for s in sources]
    data = repr([environment, plugins]).encode()
    # Two checksums are used because importing a cryptographic hash takes longer than the rest of
    # this function. The sources are compared individually when the file is read.
    return os.path.join(folder, f"plugins-{zlib.crc32(data):08x}{zlib.adler32(data):08x}.index")


def key_of(source: Source) -> str:
    """Return the key of a plugin in the index."""
    return f"{source.distribution}:{source.name}={source.target}"


def read(path: str | None, sources: Iterable[Source]) -> tuple[dict[str, PluginRecord], str]:
    """Read the index; return its state, and the records of unchanged plugins by `key_of`.

    The state, for `opwright doctor`, is ``"read"``, ``"read in part"``, ``"absent"``,
    ``"unreadable: <why>"``, ``"corrupt: <why>"``, or ``"off: <why>"`` if there is no path.
    """
    if path is None:
        return {}, "off: there is no cache folder"
    try:
        listed = parse(read_trusted(path, _MOST_BYTES))
        records = {key_of(record.source): record for record in listed}
    except (FileNotFoundError, NotADirectoryError):
        return {}, "absent"
    except OSError as error:
        raise_if_of_signal(error)
        return {}, f"unreadable: {error}"
    except (ValueError, LookupError, StopIteration) as error:
        return {}, f"corrupt: {type(error).__name__}: {error}"
    installed = {key_of(source): source for source in sources}
    fresh = {key: r for key, r in records.items() if _is_valid(r, installed.get(key))}
    return fresh, "read" if len(fresh) == len(installed) else "read in part"


def parse(data: bytes) -> list[PluginRecord]:
    """Parse what `dump` wrote; ValueError, LookupError or StopIteration for any other text."""
    head, _, body = data.partition(b"\n")
    if head != _make_head(body):
        raise ValueError("its checksum or format differs")
    if body.translate(None, _ALLOWED):
        raise ValueError("it contains control characters")
    lines = iter(body.decode().split("\n"))
    return [_parse_record(lines) for _ in range(int(next(lines)))]


def _parse_record(lines: Iterator[str]) -> PluginRecord:
    groups: Any = [_parse_rows(lines, *group) for group in _GROUPS]
    (source,), *registrations, ((load_ms,),) = groups
    return PluginRecord._make([source, *registrations, load_ms, True])


def _parse_rows(lines: Iterator[str], kind: type[Any], tags: str) -> tuple[Any, ...]:
    columns = [_parse_column(lines, tag) for tag in (tags if next(lines) else "")]
    # A table of one value means that all rows have this value.
    length = max(map(len, columns), default=0)
    columns = [column * length if len(column) == 1 else column for column in columns]
    # like `_make`, in half the time
    return tuple(map(functools.partial(tuple.__new__, kind), zip(*columns, strict=True)))


def _parse_column(lines: Iterator[str], tag: str) -> list[Any]:
    table: list[Any] = next(lines).split("\t")
    if tag != "s":
        table = [_decode(text, tag) for text in table]
    places = next(lines).split()
    if not places:  # the values are in the order of the rows
        return table
    by_place = dict(zip(map(str, range(len(table))), table, strict=True))
    return list(map(by_place.__getitem__, places))  # a third of the time of int()


def _decode(text: str, expected: str = "*", depth: int = 0) -> Any:
    tag, value = text[:1], text[1:]
    if expected not in ("*", tag):
        raise ValueError(f"a value must have the tag {expected!r}, got {text!r}")
    if tag == "t":
        items = value.split(_SEPARATORS[depth]) if value else ()
        return tuple([_decode(item, depth=depth + 1) for item in items])
    return _PARSERS[tag](value)


def _encode(value: Any, expected: str = "*", depth: int = 0) -> str:
    """Return a value as text; ValueError for an unsupported value."""
    tag = _TAGS.get(type(value), "")
    if expected not in ("*", tag) or (isinstance(value, str) and not value.isprintable()):
        raise ValueError(f"an index stores printable strings and numbers, got {value!r}")
    if isinstance(value, tuple):
        return tag + _SEPARATORS[depth].join(_encode(item, depth=depth + 1) for item in value)
    return ("" if expected == "s" else tag) + str(int(value) if tag == "b" else value)


def _encode_record(record: PluginRecord) -> Iterator[str]:
    source, *groups, load_ms, _ = record
    for (_, tags), rows in zip(_GROUPS, ((source,), *groups, ((load_ms,),)), strict=True):
        yield "rows" if rows else ""
        for tag, column in zip(tags if rows else "", zip(*rows, strict=True), strict=True):
            texts = [_encode(value, tag) for value in column]
            table = {text: str(i) for i, text in enumerate(dict.fromkeys(texts))}
            yield "\t".join(table)
            is_plain = len(table) in (1, len(texts))
            yield "" if is_plain else " ".join(map(table.__getitem__, texts))


def dump(records: Iterable[PluginRecord]) -> bytes:
    """Return the content of an index, omitting records with unsafe strings or foreign modules."""
    kept = []
    for record in records:
        with contextlib.suppress(ValueError):
            check_own(record)
            kept += ["\n".join(_encode_record(record))]
    body = "\n".join([str(len(kept)), *kept]).encode()
    return _make_head(body) + b"\n" + body


def _make_head(body: bytes) -> bytes:
    return f"opwright {FORMAT} {zlib.crc32(body):08x}".encode()


def check_own(record: PluginRecord) -> None:
    """Raise RegistrationError unless a record names modules and libraries of its distribution."""
    targets = {op.target for op in record.ops} | {item.target for item in record.passes}
    targets |= {kernel.target for kernel in record.kernels}
    targets |= {kernel.find_refusal for kernel in record.kernels}
    targets |= {annex.target for annex in record.annexes}
    targets |= {target for device in record.devices for target in device[1:]}
    tops = set()
    for module in {target.partition(":")[0] for target in targets if target}:
        check_target(module if module.endswith(".so") else f"{module}:_", "index", libraries=True)
        tops.add(module.partition("/")[0].partition(".")[0])
    tops.discard(record.source.target.partition(":")[0].partition(".")[0])
    foreign = sorted(tops - _list_tops(record.source.location)) if tops else []
    if foreign:
        raise RegistrationError(
            f"index: modules must belong to {record.source.distribution}, got {foreign[0]!r}"
        )


def _list_tops(location: str) -> set[str]:
    """Return the top-level modules of an installed distribution; empty without a list of files.

    Avoids importlib.metadata, which can also read other file lists but takes 17 ms to import.
    """
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(location, "RECORD"), encoding="utf-8") as file:
            tops = {line.partition(",")[0].partition("/")[0] for line in file}
        return {top.removesuffix(".py") for top in tops}
    return set()


def _is_valid(record: PluginRecord, source: Source | None) -> bool:
    if record.source != source or not all(stat_file(file.path) == file for file in record.files):
        return False
    with contextlib.suppress(RegistrationError):
        check_own(record)
        return True
    return False


def write(path: str, records: Iterable[PluginRecord]) -> str:
    """Write the records that may be stored; return ``"written"``, or the reason for a failure.

    No error is raised; without an index, the next process imports the hook modules again.
    """
    data = dump(record for record in records if record.files)
    try:
        write_trusted(path, [data])
        # Every environment that has ever existed leaves a file in the folder.
        remove_oldest(os.path.dirname(path), "plugins-", _KEPT_FILES, _MOST_BYTES)
    except OSError as error:
        raise_if_of_signal(error)
        return f"unwritable: {error}"
    return "written"
