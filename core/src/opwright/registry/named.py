"""The common part of the registries: registrations by name, and their objects.

A registration names an object as ``"module:attribute"``; its module is imported at first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from opwright._runtime import Epoch
from opwright.errors import OpwrightError, RegistrationError
from opwright.packages.package import Package
from opwright.packages.quarantine import PluginReport
from opwright.targets.opening import LibraryTable, load_target


class Entry:
    """One registration and its package; fields of the registration are read as attributes.

    Attributes
    ----------
    key : object
        Its name in messages.
    registration : object
        As the plugin's hook gave it.
    package : Package
        The package that provides it.
    """

    registration: Any = None  # so that an object in the middle of a copy does not look itself up

    def __init__(
        self, key: Any, registration: Any, package: Package, libraries: LibraryTable
    ) -> None:
        self.key = key
        self.registration = registration
        self.package = package
        self._libraries = libraries
        self._loaded: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return a field of the registration."""
        return getattr(self.registration, name)

    def __repr__(self) -> str:
        noun = type(self.registration).__name__.removesuffix("Registration").lower()
        return f"<{noun} {self.key!r} of {self.package.label}>"

    def load(self) -> Any:
        """Return the object that the plugin named, imported once.

        PluginError if it cannot be imported, RegistrationError if it is of the wrong kind.
        """
        if self._loaded is None:
            # Concurrent threads store equal results: no lock is needed.
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Any:
        target = self.registration.target
        if isinstance(target, str):
            return load_target(target, str(self.key), self.package, self._libraries.notes)
        return target


_Entry = TypeVar("_Entry")


class NamedRegistry(Generic[_Entry]):
    """Registrations by name; a name belongs to the package that registered it first.

    Errors about missing entries quote `report`, whose epoch every addition advances. `libraries`
    are the open compiled libraries, shared with other registries.
    """

    noun: ClassVar[str]
    """The name of the entries in messages."""

    entry_type: ClassVar[Any] = Entry
    """Makes an entry of name, registration, package and libraries."""

    name_of: ClassVar[attrgetter[str]] = attrgetter("name")
    """Returns the name of a registration."""

    def __init__(
        self, report: PluginReport | None = None, libraries: LibraryTable | None = None
    ) -> None:
        self._report = report or PluginReport()
        self.libraries = libraries or LibraryTable()
        self._registered: dict[str, tuple[Any, Package]] = {}
        self._entries: dict[str, _Entry] = {}

    @property
    def epoch(self) -> Epoch:
        """The epoch that every addition increments."""
        return self._report.epoch

    def enter(self, registrations: Sequence[Any], package: Package) -> None:
        """Add registrations that have been checked already."""
        self._registered.update((self.name_of(item), (item, package)) for item in registrations)
        self.epoch.advance()

    def _add(self, registration: Any, package: Package) -> None:
        clash = self.find_clash([registration])
        if clash is not None:
            raise RegistrationError(
                f"{clash[0]}: {self.noun} is registered twice, by {clash[1].label} and "
                f"{package.label}; uninstall one of them"
            )
        self.enter([registration], package)

    def find_clash(self, registrations: Sequence[Any]) -> tuple[str, Package] | None:
        """Return the first name that is taken already, and the package that has it; or None."""
        for name in map(self.name_of, registrations):
            owner = self.find_owner(name)
            if owner is not None:
                return name, owner
        return None

    def find_owner(self, name: str) -> Package | None:
        """Return the package that has registered this name, or None."""
        registered = self._registered.get(name)
        return None if registered is None else registered[1]

    def find(self, name: str) -> _Entry | None:
        """Return the entry of this name, or None where no plugin provides it."""
        return self._find(name)

    def _find(self, name: str) -> _Entry | None:
        entry = self._entries.get(name)
        return self._make(name) if entry is None else entry

    def _make(self, name: str) -> _Entry | None:
        if name not in self._registered:
            return None
        entry: _Entry = self.entry_type(name, *self._registered[name], self.libraries)
        return self._entries.setdefault(name, entry)

    def get(self, name: str) -> _Entry:
        """Return the entry of this name, or raise the error of `not_found`."""
        entry = self.find(name)
        if entry is None:
            raise self.not_found(name)
        return entry

    def not_found(self, name: str) -> OpwrightError:
        """Return the error for a name that no plugin has registered."""
        raise NotImplementedError

    def _all(self) -> list[_Entry]:
        """Return every entry, in the order of registration."""
        return [entry for entry in map(self._find, self._registered) if entry is not None]
