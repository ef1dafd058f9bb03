"""Discovers installed plugins and fills the registries; conflicting plugins are quarantined."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opwright._version import __version__
from opwright.cache_folder import find_cache_folder, read_switch
from opwright.discovery import index
from opwright.discovery.load import load_all, strict_error
from opwright.discovery.scan import PluginRecord, Source, scan
from opwright.errors import SettingError
from opwright.messages.names import hint
from opwright.packages import Package, PluginFailure, PluginReport
from opwright.packages.import_notes import NO_NOTES, ImportNotes
from opwright.records import NamedTuple
from opwright.registry import (
    AnnexRegistry,
    DeviceRegistry,
    KernelRegistry,
    OpRegistry,
    OptionRegistry,
    PassRegistry,
)
from opwright.targets.opening import LibraryTable


class Registries(NamedTuple):
    """The registries of a Context, in the order of the hooks, and the report that errors quote."""

    ops: OpRegistry
    kernels: KernelRegistry
    devices: DeviceRegistry
    passes: PassRegistry
    options: OptionRegistry
    annexes: AnnexRegistry
    report: PluginReport


def make_registries(notes: ImportNotes = NO_NOTES) -> Registries:
    """Return empty registries whose errors quote one report; `notes` records later imports."""
    report = PluginReport()
    shared = (report, LibraryTable(notes))
    ops = OpRegistry(*shared)
    return Registries(
        ops,
        KernelRegistry(ops, report),
        DeviceRegistry(*shared),
        PassRegistry(*shared),
        OptionRegistry(*shared),
        AnnexRegistry(*shared),
        report,
    )


def merge(
    records: Iterable[PluginRecord],
    failures: Iterable[PluginFailure] = (),
    disabled: Iterable[Package] = (),
    notes: ImportNotes = NO_NOTES,
) -> Registries:
    """Return registries filled from sorted records; of conflicting plugins, the first one is kept.

    `failures` are plugins that did not load; conflicting plugins are appended. OPWRIGHT_PLUGINS
    disables `disabled`. `notes` records later imports as they run.
    """
    registries = make_registries(notes)
    loaded: list[Package] = []
    failed = list(failures)
    for record in records:
        clash = _find_clash(record, registries, loaded)
        if clash is None:
            for registry, registrations in _pair(record, registries):
                if registrations:
                    registry.enter(registrations, record.package)
            loaded.append(record.package)
        else:
            failed.append(clash)
    report = registries.report
    report.loaded, report.failures = tuple(loaded), tuple(failed)
    report.disabled = tuple(disabled)
    return registries


def _pair(record: PluginRecord, registries: Registries) -> Iterator[tuple[Any, Any]]:
    """Yield each registry with the registrations of a plugin for it."""
    return zip(registries[:-1], record[1 : len(registries)], strict=True)


def _find_clash(
    record: PluginRecord, registries: Registries, loaded: list[Package]
) -> PluginFailure | None:
    package = record.package
    for what, owner in _clashes(record, registries, loaded):
        reason = f"{what} twice, by {owner.label} and {package.label}"
        if owner.distribution in {package.distribution, "opwright"}:
            advice = f"pip install --upgrade {package.distribution}"
        else:
            advice = f"pip uninstall {package.distribution} (or {owner.distribution})"
        return PluginFailure(package, reason, "", advice)
    return None


def _clashes(
    record: PluginRecord, registries: Registries, loaded: list[Package]
) -> Iterator[tuple[str, Package]]:
    for registry, registrations in _pair(record, registries):
        if clash := registry.find_clash(registrations):
            yield f"{clash[0]}: {registry.noun} is registered", clash[1]
    name = record.source.name
    for package in loaded:
        if package.plugin == name:
            yield f"{name}: name of a plugin is used", package
    # opwright.ops.NAME cannot be both an operator and the namespace of a plugin.
    owner = registries.ops.find_owner(name)
    if owner is not None and any("." in op.type for op in record.ops):
        yield f"{name}: name of an operator and of a plugin is used", owner


class Settings(NamedTuple):
    """The environment variables for plugins; a list consists of names separated by commas."""

    allowed: tuple[str, ...] | None = None  # OPWRIGHT_PLUGINS: only these are loaded; None: all
    strict: bool = False  # OPWRIGHT_STRICT=1: the first failure is an error
    cache_folder: str | None = None  # folder of the index and of import notes; None: nowhere
    checked: bool = False  # OPWRIGHT_CHECKED=1: plans check how kernels access arguments
    isolated: tuple[str, ...] = ()  # OPWRIGHT_ISOLATE: host kernels run in other processes

    @staticmethod
    def from_environment() -> Settings:
        """Read the environment variables; an empty variable counts as unset.

        Raises SettingError for a switch that is neither 0 nor 1.
        """
        return Settings(
            _read_names("OPWRIGHT_PLUGINS") or None,
            read_switch("OPWRIGHT_STRICT"),
            find_cache_folder(),
            read_switch("OPWRIGHT_CHECKED"),
            _read_names("OPWRIGHT_ISOLATE"),
        )


def _read_names(name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, os.environ.get(name, "").split(","))))


def discover(
    paths: Sequence[str] | None, settings: Settings
) -> tuple[Registries, tuple[PluginRecord, ...]]:
    """Find the installed plugins; return registries filled by them, and all loaded plugins.

    `paths` is by default ``sys.path``. The records include conflicting plugins, too. Raises
    SettingError for an unknown name in OPWRIGHT_PLUGINS, and PluginError for any failure with
    OPWRIGHT_STRICT=1.
    """
    sources = scan(paths)
    allowed = select_allowed(sources, settings.allowed)
    folder = settings.cache_folder
    path = None if folder is None else index.index_path(folder, sources, __version__)
    known, state = index.read(path, sources)
    notes = ImportNotes(folder)
    records, failures = _load_missing(allowed, known, settings.strict, notes)
    disabled = [source.package for source in sources if source not in allowed]
    registries = merge(records, failures, disabled, notes)
    fresh = {index.key_of(r.source): r for r in records if not r.from_index and r.files}
    if fresh and path is not None:
        # Records of plugins that OPWRIGHT_PLUGINS currently disables are kept.
        written = index.write(path, {**known, **fresh}.values())
        is_broken = state.startswith(("corrupt", "unreadable"))
        state = f"{state}; {written}" if is_broken else written
    registries.report.index_state = state
    if settings.strict and registries.report.failures:
        raise strict_error(registries.report.failures[0])
    return registries, tuple(records)


def select_allowed(sources: list[Source], names: tuple[str, ...] | None) -> list[Source]:
    """Return the sources of the named plugins, or all sources for None.

    Raises SettingError for a name that no installed plugin has.
    """
    if names is None:
        return sources
    known = sorted({source.name for source in sources})
    for name in names:
        if name not in known:
            raise SettingError(
                f"OPWRIGHT_PLUGINS: no plugin of this name is installed, got {name!r}"
                f"{hint(name, known, 'installed plugins')}"
            )
    return [source for source in sources if source.name in names]


def _load_missing(
    sources: list[Source],
    known: Mapping[str, PluginRecord],
    strict: bool,
    notes: ImportNotes,
) -> tuple[list[PluginRecord], list[PluginFailure]]:
    """Return the sources' records, in order, from the index or loaded, and the failures."""
    missing = [source for source in sources if index.key_of(source) not in known]
    loaded, failures = load_all(missing, strict, notes)
    by_key = {**known, **{index.key_of(record.source): record for record in loaded}}
    return [by_key[key] for key in map(index.key_of, sources) if key in by_key], failures
