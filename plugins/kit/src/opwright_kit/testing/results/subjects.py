"""The contents of a distribution: the package itself, its operators, kernels and passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from opwright import Context
from opwright.errors import CommandError
from opwright.kernel import KernelEntry
from opwright.op import OpDefinition
from opwright.plugin import PluginFailure, PluginRecord, hint


@dataclass(frozen=True)
class PackageSubject:
    """A distribution with its plugins.

    Attributes
    ----------
    name, version : str
        Name and version of the distribution.
    records : tuple of PluginRecord
        The registrations of its hooks, one for each entry point.
    failures : tuple of PluginFailure
        Its plugins that were not loaded, and targets that could not be.
    """

    name: str
    version: str
    records: tuple[PluginRecord, ...]
    failures: tuple[PluginFailure, ...]


@dataclass(frozen=True)
class OperatorSubject:
    """An operator that the distribution provides.

    Attributes
    ----------
    name : str
        The operator type.
    context : Context
        Where it is registered.
    """

    name: str
    context: Context

    @property
    def definition(self) -> OpDefinition:
        """The definition, loaded."""
        return self.context.ops.get(self.name)


@dataclass(frozen=True)
class KernelSubject:
    """The kernels of one operator, device and library: one entry for each dtype.

    Attributes
    ----------
    op_type, device, library : str
        The key without the dtype.
    entries : tuple of KernelEntry
    context : Context
        Where they are registered.
    """

    op_type: str
    device: str
    library: str
    entries: tuple[KernelEntry, ...]
    context: Context

    @property
    def name(self) -> str:
        """The name of these kernels in messages: ``softmax[cpu, numpy]``."""
        return f"{self.op_type}[{self.device}, {self.library}]"

    @property
    def definition(self) -> OpDefinition:
        """The loaded definition of the operator."""
        return self.context.ops.get(self.op_type)


@dataclass(frozen=True)
class PassSubject:
    """A pass that the distribution provides.

    Attributes
    ----------
    pass_name, device : str
        The pass runs for this device.
    context : Context
        Where it is registered.
    """

    pass_name: str
    device: str
    context: Context

    @property
    def name(self) -> str:
        """The name of the pass in messages: ``pass fuse_add_relu``."""
        return f"pass {self.pass_name}"


Subject: TypeAlias = PackageSubject | OperatorSubject | KernelSubject | PassSubject


def find_subjects(distribution: str, context: Context) -> tuple[PackageSubject, list[Subject]]:
    """Return the package, and all subjects, beginning with the package, without importing them.

    Parameters
    ----------
    distribution : str
        The name of the distribution, as pip knows it; case and ``-``, ``_``, ``.`` do not matter.

    Raises
    ------
    CommandError
        If no plugin comes from such a distribution; lists the installed distributions.
    """
    normal = _normal(distribution)
    records = [r for r in context.records if _normal(r.package.distribution) == normal]
    failures = [f for f in context.failures if _normal(f.package.distribution) == normal]
    packages = [r.package for r in records] + [f.package for f in failures]
    if not packages:
        _fail_unknown(distribution, context)
    package = PackageSubject(
        packages[0].distribution, packages[0].version, tuple(records), tuple(failures)
    )
    operators = sorted(op.type for record in records for op in record.ops)
    return package, [
        package,
        *(OperatorSubject(op_type, context) for op_type in operators),
        *_find_kernels(records, context),
        *(
            PassSubject(entry.name, entry.registration.device, context)
            for entry in context.passes.entries()
            if entry.package in packages
        ),
    ]


def _find_kernels(records: Iterable[PluginRecord], context: Context) -> list[KernelSubject]:
    groups: dict[tuple[str, str, str], list[KernelEntry]] = {}
    for record in records:
        for op_type in sorted({kernel.op_type for kernel in record.kernels}):
            for entry in context.kernels.entries(op_type):
                if entry.package == record.package:
                    key = (op_type, entry.device, entry.library)
                    groups.setdefault(key, []).append(entry)
    return [KernelSubject(*key, tuple(entries), context) for key, entries in groups.items()]


def select_subjects(package: PackageSubject, subjects: list[Subject], name: str) -> list[Subject]:
    """Return the subjects of this name, or of this operator type with its kernels.

    Raises
    ------
    CommandError
        If there is none; suggests the nearest name.
    """
    matches = [s for s in subjects if name in (s.name, getattr(s, "op_type", None))]
    if not matches:
        known = sorted({s.name for s in subjects})
        failures = "".join(f"; a plugin of it failed to load: {f.reason}" for f in package.failures)
        raise CommandError(
            f"check: {package.name} provides nothing of this name, got {name!r}"
            f"{failures or hint(name, known, 'operators and kernels')}"
        )
    return matches


def _normal(distribution: str) -> str:
    return distribution.lower().replace("_", "-").replace(".", "-")


def _fail_unknown(distribution: str, context: Context) -> NoReturn:
    installed = {record.package.distribution for record in context.records}
    installed |= {failure.package.distribution for failure in context.failures}
    installed |= {package.distribution for package in context.report.disabled}
    if not installed:
        raise CommandError(
            f"check: no plugin is installed, got {distribution!r}; pip install {distribution}"
        )
    disabled = {_normal(package.distribution) for package in context.report.disabled}
    if _normal(distribution) in disabled:
        raise CommandError(
            f"check: OPWRIGHT_PLUGINS excludes this distribution, got {distribution!r}; "
            "name its plugin there, or unset it"
        )
    prefixed = f"opwright-{_normal(distribution)}"
    near = [name for name in sorted(installed) if _normal(name) == prefixed]
    known = hint(near[0] if near else distribution, sorted(installed), "distributions")
    raise CommandError(
        f"check: no installed distribution of this name provides a plugin, got {distribution!r}"
        f"{known}; see: opwright plugins"
    )
