"""The common part of the registries of operators, devices, passes and options: entries by name."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar

from opwright._runtime import Epoch
from opwright.errors import RegistrationError
from opwright.registry.package import Package, PluginReport


class Owned(Protocol):
    """An entry, which one package has registered."""

    @property
    def package(self) -> Package:
        """The package that has registered it."""


_Entry = TypeVar("_Entry", bound=Owned)


class NamedRegistry(Generic[_Entry]):
    """Entries by name; a name belongs to the package that registered it first.

    Errors about missing entries quote `report`, whose epoch every addition advances.
    """

    noun: ClassVar[str]
    """What the entries are called in messages."""

    def __init__(self, report: PluginReport | None = None) -> None:
        self._report = report or PluginReport()
        self._entries: dict[str, _Entry] = {}

    @property
    def epoch(self) -> Epoch:
        """What every addition advances."""
        return self._report.epoch

    def enter(self, registration: Any, package: Package) -> None:
        """Add a registration that has been checked already."""
        self._entries[registration.name] = self._make_entry(registration, package)
        self.epoch.advance()

    def _make_entry(self, registration: Any, package: Package) -> _Entry:
        raise NotImplementedError

    def _add(self, registration: Any, package: Package) -> None:
        self._check_free(registration.name, package)
        self.enter(registration, package)

    def find_owner(self, name: str) -> Package | None:
        """Return the package that has registered this name, or None."""
        entry = self._entries.get(name)
        return None if entry is None else entry.package

    def _check_free(self, name: str, package: Package) -> None:
        owner = self.find_owner(name)
        if owner is not None:
            raise RegistrationError(
                f"{name}: {self.noun} is registered twice, by {owner.label} and {package.label}; "
                "uninstall one of them"
            )
