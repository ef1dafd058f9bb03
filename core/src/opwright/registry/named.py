"""Registries of objects by name, with a common base: passes, options and annexes.

A registration names an object as ``"module:attribute"``; its module is imported at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from opwright._runtime import Epoch
from opwright.errors import (
    MissingRequirementError,
    OpwrightError,
    RegistrationError,
    SettingError,
)
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.quarantine import PluginReport, advise_plugin
from opwright.packages.registrations import ANY, PHASES, key_text
from opwright.packages.rules import make_annex, make_option, make_pass
from opwright.targets.opening import LibraryTable, load_target


class Entry:
    """One registration and its package; fields of the registration are available as attributes.

    Attributes
    ----------
    key : object
        Its name in messages.
    registration : object
        The registration as given by the hook of the plugin.
    package : Package
        The package that provides it.
    """

    registration: Any = None  # prevents recursion while an object is being copied

    def __init__(
        self, key: Any, registration: Any, package: Package, libraries: LibraryTable
    ) -> None:
        self.key = key
        self.registration = registration
        self.package = package
        self._libraries = libraries
        self._loaded: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return a field of the registration and cache it, since lowering reads fields often."""
        value = getattr(self.registration, name)
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        noun = type(self.registration).__name__.removesuffix("Registration").lower()
        return f"<{noun} {self.key!r} of {self.package.label}>"

    def load(self) -> Any:
        """Return the object that the plugin named, imported once.

        Raises PluginError if it cannot be imported, and RegistrationError if it has the wrong type.
        """
        if self._loaded is None:
            # Concurrent threads store equal results, so no lock is needed.
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

    Errors about missing entries quote `report`, whose epoch is incremented by every addition.
    `libraries` are the open compiled libraries, shared with other registries.
    """

    noun: ClassVar[str]
    """The noun for entries in messages."""

    entry_type: ClassVar[Any] = Entry
    """Creates an entry from name, registration, package and libraries."""

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
        """Return the first name that is already taken, and its package, or None."""
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
        """Return the entry of this name, or None if no plugin provides it."""
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
        """Return the entry of this name, or raise the error from `not_found`."""
        entry = self.find(name)
        if entry is None:
            raise self.not_found(name)
        return entry

    def not_found(self, name: str) -> OpwrightError:
        """Return the error for a name that no plugin has registered."""
        raise NotImplementedError

    def _all(self) -> list[_Entry]:
        """Return all entries, in the order of registration."""
        names = [*self._registered]  # a copy, as other threads may register more meanwhile
        return [entry for entry in map(self._find, names) if entry is not None]


class PassEntry(Entry):
    """One registered pass."""

    def _load(self) -> Callable[..., Any]:
        function = super()._load()
        if not callable(function):
            raise RegistrationError(
                f"{self.name}: a pass must be a function, got {function!r} from "
                f"{self.package.label}; name one in the hook"
            )
        return function  # type: ignore[no-any-return]


class PassRegistry(NamedRegistry[PassEntry]):
    """Passes by name, phase and device."""

    entry_type = PassEntry
    noun = "pass"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._of_phases: dict[tuple[tuple[str, ...], str], tuple[PassEntry, ...]] = {}

    def add(
        self,
        name: str,
        *,
        phase: str,
        function: str | Callable[..., Any],
        package: Package,
        device: str = ANY,
        operators: Iterable[str] = (),
    ) -> None:
        """Add one pass; `function` is ``"module:attribute"`` or the function itself.

        `operators` is as in `opwright.plugin.PassRegistrar.add`. Raises RegistrationError for a
        name that is taken, or anything malformed.
        """
        self._add(make_pass(name, phase, function, device, operators), package)

    def not_found(self, name: str) -> RegistrationError:
        """Return the error for an unknown pass, which suggests the most similar pass."""
        known = hint(name, self._registered, "passes")
        return RegistrationError(f"{name}: no pass of this name is registered{known}")

    def entries(self) -> tuple[PassEntry, ...]:
        """Return all passes, in the order in which they run."""
        return tuple(entry for phase in PHASES for entry in self._in_phase(phase))

    def names(self) -> tuple[str, ...]:
        """Return the names of all passes, in the order in which they run."""
        return tuple(entry.name for entry in self.entries())

    def of_phases(self, phases: Iterable[str], device: str) -> tuple[PassEntry, ...]:
        """Return the passes of some phases for one device, in the order in which they run.

        Within a phase, passes for this device come before passes for any device. Each group is
        ordered by plugin, official plugins first and other plugins by distribution, and within a
        plugin by registration.
        """
        key = (tuple(phases), device)
        chosen = self._of_phases.get(key)
        if chosen is None:
            entries = (entry for phase in key[0] for entry in self._in_phase(phase))
            chosen = tuple(entry for entry in entries if entry.device in (device, ANY))
            self._of_phases[key] = chosen
        return chosen

    def enter(self, registrations: Sequence[Any], package: Package) -> None:
        """Add registrations that have been checked already."""
        super().enter(registrations, package)
        self._of_phases.clear()

    def _in_phase(self, phase: str) -> list[PassEntry]:
        entries = [entry for entry in self._all() if entry.phase == phase]
        return sorted(entries, key=lambda entry: entry.device == ANY)  # stable


class OptionRegistry(NamedRegistry[Entry]):
    """Options by name, which kernels read in ``prepare``.

    Options are part of the keys of plans and prepared kernels, so every change takes effect. Do not
    use environment variables instead.
    """

    noun = "option"

    def add(self, name: str, *, default: object, comment: str, package: Package) -> None:
        """Declare one option, by its name without the plugin prefix.

        RegistrationError for a name that is taken, or anything malformed.
        """
        self._add(make_option(name, default, comment, package), package)

    def entries(self) -> tuple[Entry, ...]:
        """Return all options, sorted by name."""
        return tuple(sorted(self._all(), key=lambda entry: entry.name))

    def check(
        self, who: str, chosen: object, before: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the options that differ from their defaults, sorted by name.

        Options in `before` apply if `chosen` does not name them. Raises SettingError, with `who` as
        prefix, for an unknown option or a value of the wrong type.
        """
        if not isinstance(chosen, Mapping):
            example = next(iter(self._registered), "acme.fast_exp")
            raise SettingError(
                f"{who}: options must be a dict of names and values, got {chosen!r}; "
                f"write {{{example!r}: ...}}"
            )
        for name, value in chosen.items():
            entry = self.find(name)
            if entry is None:
                known = hint(str(name), self._registered, "options")
                raise SettingError(f"{who}: unknown option, got {name!r}{known}")
            if type(value) is not type(entry.default):  # True is an int, but not a number here
                kind = type(entry.default)
                noun = "an int" if kind is int else f"a {kind.__name__}"
                raise SettingError(
                    f"{who}: option {name!r} must be {noun}, got {value!r}; {entry.comment}"
                )
        merged = {**(before or {}), **chosen}
        values = {entry: merged.get(entry.name, entry.default) for entry in self.entries()}
        return {entry.name: value for entry, value in values.items() if value != entry.default}

    def fill(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all options, chosen or default."""
        items = self._registered.items()
        return {name: chosen.get(name, option.default) for name, (option, _) in items}


class AnnexRegistry(NamedRegistry[Entry]):
    """Annexes by topic and subject; each pair belongs to one plugin.

    The core does not interpret annexes. The package that uses a topic defines its subjects and the
    type of its objects.
    """

    noun = "annex"

    def add(self, topic: str, subject: str, target: object, package: Package) -> None:
        """Add one annex; `target` is ``"module:attribute"`` or the object itself.

        Raises RegistrationError for a pair that is taken, or a malformed argument.
        """
        self._add(make_annex(topic, subject, target), package)

    def entries(self, topic: str) -> tuple[Entry, ...]:
        """Return all annexes of a topic, sorted by subject, without imports."""
        entries = (entry for entry in self._all() if entry.topic == topic)
        return tuple(sorted(entries, key=lambda entry: entry.subject))

    def find(self, topic: str, subject: str) -> Entry | None:  # type: ignore[override]  # of two names
        """Return one annex, without importing it, or None if no plugin names it."""
        return self._find(key_text(topic, subject))

    def get(self, topic: str, subject: str) -> Entry:  # type: ignore[override]  # likewise
        """Return one annex, without importing it.

        Raises MissingRequirementError if no plugin names it, with a similar subject, plugins that
        failed to load, and the package to install.
        """
        entry = self.find(topic, subject)
        if entry is not None:
            return entry
        subjects = [entry.subject for entry in self.entries(topic)]
        near = hint(subject, subjects, "subjects") if subjects else ""
        title = f"{key_text(topic, subject)}: no plugin provides this annex{near}"
        advice = advise_plugin(topic, self._report)
        raise MissingRequirementError(self._report.explain(title, advice, topic), advice=advice)
