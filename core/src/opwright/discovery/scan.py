"""Finds the entry points of installed plugins by reading file names, without importing anything.

``importlib.metadata.entry_points`` takes 28–35 ms. This module takes 0.4–1.9 ms for 20–400
distributions, because it opens ``entry_points.txt`` of each and searches for one word. Zip files
and third-party finders are read through ``importlib.metadata``. A `PluginRecord` contains the
registrations of a plugin as plain data, for the index.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from opwright.errors import FormatError
from opwright.foreign import describe_error, show
from opwright.packages import (
    AnnexRegistration,
    DeviceRegistration,
    KernelRegistration,
    OpRegistration,
    OptionRegistration,
    Package,
    PassRegistration,
)
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import Distribution


GROUP: Final = "opwright.plugins"
"""The entry-point group of plugins."""

_CORE: Final = "opwright"

_OWN: Final = re.compile(rb"^Requires-Dist: ([\w.-]+) *; *extra", re.MULTILINE)
"""A line in the metadata of the core with a distribution that an extra installs."""

_MOST_BYTES: Final = 1 << 24
"""The maximum size of a metadata file in bytes."""


class Source(NamedTuple):
    """An entry point. In the plugin group, it stands for an installed plugin, without importing it.

    Names, version and target are strings as returned by `show`.
    """

    name: str  # name of the entry point and of the plugin: "acme"
    target: str  # "module" or "module:attribute"
    distribution: str  # "opwright-acme"
    version: str
    location: str  # the folder of its metadata, or a description
    stamp: int  # when entry_points.txt changed, in ns, to detect new installs; 0 without the file

    @property
    def package(self) -> Package:
        """The package to which the entry point belongs."""
        return Package(self.name, self.distribution, self.version)

    @property
    def label(self) -> str:
        """The distribution and version, such as ``opwright-acme 1.0``."""
        return self.package.label


def scan(
    paths: Sequence[str] | None = None,
    finders: Iterable[object] | None = None,
    group: str = GROUP,
    faults: list[str] | None = None,
) -> list[Source]:
    """Return the entry points of a group, official packages first, then by distribution and name.

    Official distributions are those that extras of the core install, in the order of its metadata.
    Modules of plugins are not imported. Unreadable files are skipped, because metadata is written
    by third parties and most of it is unrelated to opwright.

    Parameters
    ----------
    paths : sequence of str, optional
        Folders and zip files; by default ``sys.path``. If two distributions have the same name, the
        first on the path is used, as for imports.
    finders : iterable, optional
        Import finders that may know further distributions; by default ``sys.meta_path``.
    group : str
        The group of entry points, by default plugins.
    faults : list of str, optional
        Receives a line for each unreadable file, with its location and the reason.
    """
    seen: set[str] = set()
    own: list[str] = []
    sources: list[Source] = []
    faults = [] if faults is None else faults
    entries: Iterable[object] = sys.path if paths is None else paths
    for path in entries:
        if not isinstance(path, str):  # the import system ignores it, too
            continue
        folder = path or os.curdir
        with _reporting(folder, faults):
            listed = _list_distributions(folder, faults)
            if listed is None:
                slow = _zip_distributions(folder)
                sources += _scan_slowly(slow, group, seen, folder, faults)
                continue
            for item in listed:
                if item.distribution not in seen:
                    seen.add(item.distribution)
                    with _reporting(item.location, faults):
                        sources += _read_sources(item, group)
                        own += _read_own(item) if item.distribution == _CORE else ()
    for finder in sys.meta_path if finders is None else finders:
        where = (finder if isinstance(finder, type) else type(finder)).__qualname__
        with _reporting(where, faults):
            sources += _scan_slowly(_custom_distributions(finder), group, seen, where, faults)
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(own))}
    return sorted(
        sources, key=lambda s: (ranks.get(s.distribution, len(ranks)), s.distribution, s.name)
    )


@contextlib.contextmanager
def _reporting(where: str, faults: list[str]) -> Iterator[None]:
    """Report any exception of a block that reads third-party files."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a finder may raise anything
        faults.append(f"{show(where, '')}: {describe_error(error)}")


def _read_own(core: Source) -> list[str]:
    """Return the distributions that extras of the core install, in the order of its metadata."""
    content, _ = _read_file(f"{core.location}/METADATA") or (b"", 0)
    return [normalize(name.decode()) for name in _OWN.findall(content)]


def normalize(name: str) -> str:
    """Return a distribution name as compared by packaging: ``Opwright_Acme`` → opwright-acme."""
    return name.lower().replace("_", "-").replace(".", "-")


def _list_distributions(folder: str, faults: list[str]) -> list[Source] | None:
    """Return the distributions whose metadata is in a folder, or None if it is not a folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(e.name for e in entries if e.name.endswith((".dist-info", ".egg-info")))
    except NotADirectoryError:
        return None
    except FileNotFoundError:
        return []
    by_name: dict[str, list[Source]] = {}
    for name in names:
        if name.startswith("~"):  # left over by pip from an uninstalled distribution
            continue
        item = _parse_name(folder, name)
        by_name.setdefault(item.distribution, []).append(item)
    listed: list[Source] = []
    for items in by_name.values():
        # Only the metadata shows that "acme-extra-1.0" is not a version of acme.
        is_certain = len(items) == 1 and items[0].version
        listed += items if is_certain else _select_newest(_read_name(i, faults) for i in items)
    return listed


def _select_newest(items: Iterable[Source]) -> list[Source]:
    """Return the newest source of each name, since failed uninstalls leave older sources behind."""
    newest: dict[str, Source] = {}
    for item in items:
        other = newest.setdefault(item.distribution, item)
        if _mtime(item.location) > _mtime(other.location):
            newest[item.distribution] = item
    return list(newest.values())


def _parse_name(folder: str, file_name: str) -> Source:
    """Parse the name of a folder; the version is empty if uncertain."""
    stem = file_name.rpartition(".")[0]
    name, _, rest = stem.partition("-")
    version, _, more = rest.partition("-")
    if more and not more.startswith("py"):  # as an egg-info may continue: "-py3.11"
        version = ""
    return Source("", "", normalize(name), version, os.path.join(folder, file_name), 0)  # noqa: PTH118 - hot


def _read_name(item: Source, faults: list[str]) -> Source:
    """Return a distribution by the name and version in its metadata, if present."""
    fields: dict[str, str] = {}
    with _reporting(item.location, faults):
        metadata = ("/METADATA", "/PKG-INFO") if os.path.isdir(item.location) else ("",)  # noqa: PTH112
        for file in metadata:
            content, _ = _read_file(item.location + file) or (b"", 0)
            head = content.decode("utf-8", "replace").partition("\n\n")[0]
            pairs = (line.partition(":") for line in head.splitlines())
            fields = {name.lower(): value.strip() for name, _, value in pairs} | fields
    name = normalize(fields["name"]) if fields.get("name") else item.distribution
    version = fields.get("version") or item.version or "unknown"
    return item._replace(distribution=name, version=version)


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - hot
    except (FileNotFoundError, PermissionError):
        return 0


def _read_file(path: str) -> tuple[bytes, int] | None:
    """Return the content of a file and its modification time in ns, or None; never blocks."""
    try:  # a file object takes three times as long, and there are hundreds of files
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):  # most distributions have no entry points
        return None
    try:
        status = os.fstat(file)
        if status.st_size > _MOST_BYTES:
            raise FormatError(
                f"{path}: metadata must have at most {_MOST_BYTES} bytes, got {status.st_size}"
            )
        return os.read(file, status.st_size), status.st_mtime_ns
    finally:
        os.close(file)


def _read_sources(item: Source, group: str) -> list[Source]:
    content = _read_file(f"{item.location}/entry_points.txt")
    if content is None or group.encode() not in content[0]:
        return []
    text = content[0].decode("utf-8", "replace")
    return _make_sources(text, group, item._replace(stamp=content[1]))


def _make_sources(text: str, group: str, item: Source) -> list[Source]:
    """Return the entry points of a distribution, given as a source without an entry point."""
    item = item._replace(distribution=show(item.distribution, ""), version=show(item.version, ""))
    points = parse_entry_points(text, group)
    return [item._replace(name=show(name, ""), target=show(target, "")) for name, target in points]


def parse_entry_points(text: str, group: str = GROUP) -> Iterator[tuple[str, str]]:
    """Yield (name, target) of a group in the text of ``entry_points.txt``."""
    current = None
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            current = line[1:-1].strip()
        elif current == group:
            name, _, target = line.partition("=")
            yield name.strip(), target.partition("[")[0].strip()


def _zip_distributions(path: str) -> Iterable[Distribution]:
    if not os.path.isfile(path):  # noqa: PTH113 - hot
        return ()
    from importlib.metadata import distributions  # takes 26 ms; only needed for zip files

    return distributions(path=[path])


def _custom_distributions(finder: object) -> Iterable[Distribution]:
    module = getattr(finder, "__module__", "")
    if module.startswith(("importlib.", "_frozen_importlib", "importlib_metadata")):
        return ()  # these search the paths of `scan`
    find = getattr(finder, "find_distributions", None)
    if find is None:
        return ()
    from importlib.metadata import DistributionFinder

    return find(DistributionFinder.Context())  # type: ignore[no-any-return]


def _scan_slowly(
    distributions: Iterable[Distribution],
    group: str,
    seen: set[str],
    where: str,
    faults: list[str],
) -> list[Source]:
    sources: list[Source] = []
    for distribution in distributions:
        with _reporting(f"{where}, {_location(distribution)}", faults):
            text = distribution.read_text("entry_points.txt") or ""
            metadata = distribution.metadata
            if not metadata["Name"]:
                raise FormatError("metadata must name the distribution, got no Name")
            name = normalize(str(metadata["Name"]))
            version = str(metadata["Version"] or "unknown")
            if name not in seen:
                seen.add(name)
                item = Source("", "", name, version, _location(distribution), 0)
                sources += _make_sources(text, group, item)
    return sources


def _location(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", "") or type(distribution).__qualname__)


class WatchedFile(NamedTuple):
    """A file on which a plugin's registrations depend, with its state when the hooks ran."""

    path: str
    mtime_ns: int
    size_bytes: int


class PluginRecord(NamedTuple):
    """One plugin with all its registrations, without imports of named objects.

    Registrations are in the order of the hooks of the plugin.
    """

    source: Source  # of its entry point
    ops: tuple[OpRegistration, ...] = ()
    kernels: tuple[KernelRegistration, ...] = ()
    devices: tuple[DeviceRegistration, ...] = ()
    passes: tuple[PassRegistration, ...] = ()
    options: tuple[OptionRegistration, ...] = ()
    annexes: tuple[AnnexRegistration, ...] = ()
    files: tuple[WatchedFile, ...] = ()  # unchanged while valid; empty: valid only here
    load_ms: float = 0.0  # time for importing the hook module and running the hooks
    from_index: bool = False  # whether it was read from the index instead

    @property
    def package(self) -> Package:
        """The package of the plugin."""
        return self.source.package
