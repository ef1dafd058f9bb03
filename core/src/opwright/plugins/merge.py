"""Merges the records of plugins into registries; a plugin that clashes is quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from opwright.plugins.scan import PluginRecord
from opwright.records import NamedTuple
from opwright.registry import (
    AnnexRegistry,
    DeviceRegistry,
    KernelRegistry,
    OpRegistry,
    OptionRegistry,
    Package,
    PassRegistry,
    PluginFailure,
    PluginReport,
)
from opwright.registry.import_notes import ImportNotes


class Registries(NamedTuple):
    """The registries of a Context, in the order of the hooks, and the report that errors quote."""

    ops: OpRegistry
    kernels: KernelRegistry
    devices: DeviceRegistry
    passes: PassRegistry
    options: OptionRegistry
    annexes: AnnexRegistry
    report: PluginReport


def make_registries(report: PluginReport | None = None) -> Registries:
    """Return empty registries whose errors quote one report."""
    report = report or PluginReport()
    ops = OpRegistry(report)
    return Registries(
        ops,
        KernelRegistry(ops, report),
        DeviceRegistry(report),
        PassRegistry(report),
        OptionRegistry(report),
        AnnexRegistry(report),
        report,
    )


def merge(
    records: Iterable[PluginRecord],
    failures: Iterable[PluginFailure] = (),
    disabled: Iterable[Package] = (),
    notes: ImportNotes | None = None,
) -> Registries:
    """Return registries filled from sorted records; of two plugins that clash the first stays.

    `failures` are plugins that did not load, to which those that clash are added. OPWRIGHT_PLUGINS
    disables `disabled`. `notes` records later imports while they last.
    """
    registries = make_registries(PluginReport(notes=notes))
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
    yield from _name_clashes(record, registries.ops, loaded)


def _name_clashes(
    record: PluginRecord, ops: OpRegistry, loaded: list[Package]
) -> Iterator[tuple[str, Package]]:
    name = record.source.name
    for package in loaded:
        if package.plugin == name:
            yield f"{name}: name of a plugin is used", package
    # opwright.ops.NAME cannot be an operator and hold the operators of a plugin at once.
    owner = ops.find_owner(name)
    if owner is not None and any("." in op.type for op in record.ops):
        yield f"{name}: name of an operator and of a plugin is used", owner
