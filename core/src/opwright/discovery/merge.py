"""Merges the records of plugins into registries: each enters whole, or is quarantined whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from opwright.discovery.record import PluginRecord
from opwright.registry import (
    DeviceRegistry,
    KernelRegistry,
    OpRegistry,
    Package,
    PassRegistry,
    PluginFailure,
    PluginReport,
)


class Registries(NamedTuple):
    """What a Context holds."""

    ops: OpRegistry
    kernels: KernelRegistry
    devices: DeviceRegistry
    passes: PassRegistry
    report: PluginReport


def make_registries(report: PluginReport | None = None) -> Registries:
    """Return empty registries whose errors quote one report."""
    report = report or PluginReport()
    ops = OpRegistry(report)
    kernels = KernelRegistry(ops, report)
    return Registries(ops, kernels, DeviceRegistry(report), PassRegistry(), report)


def merge(
    records: Iterable[PluginRecord],
    failures: Iterable[PluginFailure] = (),
    disabled: Iterable[Package] = (),
) -> Registries:
    """Return registries filled from records, in their order: of two that clash the first stays.

    Parameters
    ----------
    records : iterable of PluginRecord
        Plugins that loaded, sorted.
    failures : iterable of PluginFailure
        Plugins that did not; those that clash are added to them.
    disabled : iterable of Package
        Plugins that OPWRIGHT_PLUGINS leaves out.
    """
    registries = make_registries()
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
    for op in record.ops:
        registries.ops.enter(op, package)
    for kernel in record.kernels:
        registries.kernels.enter(kernel, package)
    for device in record.devices:
        registries.devices.enter(device, package)
    for item in record.passes:
        registries.passes.enter(item, package)


def _find_clash(
    record: PluginRecord, registries: Registries, loaded: list[Package]
) -> PluginFailure | None:
    """Return the failure of a plugin that brings what another one has brought, or None."""
    package = record.package
    for what, owner in _claims(record, registries, loaded):
        if owner is not None:
            reason = f"{what} twice, by {owner.label} and {package.label}"
            return PluginFailure(package, reason, "", _advise(owner, package))
    return None


def _claims(
    record: PluginRecord, registries: Registries, loaded: list[Package]
) -> Iterator[tuple[str, Package | None]]:
    for op in record.ops:
        yield f"{op.type}: operator is registered", registries.ops.find_clash(op.type)
    for kernel in record.kernels:
        key, owner = registries.kernels.find_clash(kernel) or ("", None)
        yield f"{key}: kernel is registered", owner
    for device in record.devices:
        yield f"{device.name}: device is registered", registries.devices.find_clash(device.name)
    for item in record.passes:
        yield f"{item.name}: pass is registered", registries.passes.find_clash(item.name)
    yield from _name_claims(record, registries.ops.find_clash, loaded)


def _name_claims(
    record: PluginRecord, find_owner: Callable[[str], Package | None], loaded: list[Package]
) -> Iterator[tuple[str, Package | None]]:
    name = record.source.name
    same = [package for package in loaded if package.plugin == name]
    yield f"{name}: name of a plugin is used", same[0] if same else None
    if any("." in op.type for op in record.ops):
        # opwright.ops.NAME cannot be an operator and hold the operators of a plugin at once.
        yield (
            f"{name}: name of an operator and of a plugin is used",
            find_owner(name),
        )


def _advise(owner: Package, package: Package) -> str:
    if owner.distribution in {package.distribution, "opwright"}:
        return f"pip install --upgrade {package.distribution}"
    return f"pip uninstall {package.distribution} (or {owner.distribution})"
