"""Merges the records of plugins into registries; a plugin that clashes is quarantined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from opwright.plugins.record import PluginRecord
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
    """The registries of a Context, and the report that their errors quote."""

    ops: OpRegistry
    kernels: KernelRegistry
    devices: DeviceRegistry
    passes: PassRegistry
    report: PluginReport
    options: OptionRegistry
    annexes: AnnexRegistry


def make_registries(report: PluginReport | None = None) -> Registries:
    """Return empty registries whose errors quote one report."""
    report = report or PluginReport()
    ops = OpRegistry(report)
    kernels = KernelRegistry(ops, report)
    devices, passes = DeviceRegistry(report), PassRegistry(report)
    options, annexes = OptionRegistry(report), AnnexRegistry(report)
    return Registries(ops, kernels, devices, passes, report, options, annexes)


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
            _enter(record, registries)
            loaded.append(record.package)
        else:
            failed.append(clash)
    report = registries.report
    report.loaded, report.failures = tuple(loaded), tuple(failed)
    report.disabled = tuple(disabled)
    return registries


def _enter(record: PluginRecord, registries: Registries) -> None:
    package = record.package
    registries.ops.enter(record.ops, package)
    registries.kernels.enter(record.kernels, package)
    for device in record.devices:
        registries.devices.enter(device, package)
    for item in record.passes:
        registries.passes.enter(item, package)
    for option in record.options:
        registries.options.enter(option, package)
    for annex in record.annexes:
        registries.annexes.enter(annex, package)


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
    ops, kernels = registries.ops, registries.kernels
    for op in record.ops:
        if owner := ops.find_owner(op.type):
            yield f"{op.type}: operator is registered", owner
    for kernel in record.kernels:
        if taken := kernels.find_clash(kernel):
            yield f"{taken[0]}: kernel is registered", taken[1]
    for registry, registrations in (
        (registries.devices, record.devices),
        (registries.passes, record.passes),
        (registries.annexes, record.annexes),
    ):
        for item in registrations:
            if owner := registry.find_owner(item.name):
                yield f"{item.name}: {registry.noun} is registered", owner
    yield from _name_clashes(record, ops, loaded)


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
