"""The passes that plugins provide: functions that rewrite a lowered list of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opwright.describe.names import hint
from opwright.errors import RegistrationError
from opwright.registry.import_notes import ImportNotes
from opwright.registry.named import NamedRegistry
from opwright.registry.package import Package, PluginReport
from opwright.registry.registrations import PassRegistration, make_pass
from opwright.registry.rules import ANY, PHASES
from opwright.registry.target import load_target


class PassEntry:
    """One registered pass: the fields of its `PassRegistration`, and its package."""

    __slots__ = ("_loaded", "_notes", "device", "name", "operators", "package", "phase", "target")

    def __init__(
        self, registration: PassRegistration, package: Package, notes: ImportNotes | None = None
    ) -> None:
        self.name, self.phase, self.target, self.device, operators = registration
        self.operators = frozenset(operators)
        self.package = package
        self._notes = notes
        self._loaded: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<pass {self.name!r} of {self.package.label}>"

    def load(self) -> Callable[..., Any]:
        """Return the function, imported once.

        PluginError where it cannot be imported, RegistrationError where it cannot be called.
        """
        if self._loaded is None:
            function: object = self.target
            if isinstance(function, str):
                function = load_target(function, self.name, self.package, self._notes)
            if not callable(function):
                raise RegistrationError(
                    f"{self.name}: a pass must be a function, got {function!r} from "
                    f"{self.package.label}; name one in the hook"
                )
            self._loaded = function
        return self._loaded


class PassRegistry(NamedRegistry[PassEntry]):
    """Passes by name, phase and device."""

    noun = "pass"

    def __init__(self, report: PluginReport | None = None) -> None:
        super().__init__(report)
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

        `operators` is as in `opwright.plugin.PassRegistrar.add`. RegistrationError for a name that
        is taken, or anything malformed.
        """
        self._add(make_pass(name, phase, function, device, operators), package)

    def _make_entry(self, registration: PassRegistration, package: Package) -> PassEntry:
        return PassEntry(registration, package, self._report.notes)

    def find(self, name: str) -> PassEntry | None:
        """Return the pass of this name, or None."""
        return self._entries.get(name)

    def get(self, name: str) -> PassEntry:
        """Return the pass of this name; RegistrationError names the nearest where there is none."""
        entry = self._entries.get(name)
        if entry is None:
            known = hint(name, self._entries, "passes")
            raise RegistrationError(f"{name}: no pass of this name is registered{known}")
        return entry

    def entries(self) -> tuple[PassEntry, ...]:
        """Return every pass, in the order in which they run."""
        return tuple(entry for phase in PHASES for entry in self._in_phase(phase))

    def names(self) -> tuple[str, ...]:
        """Return the name of every pass, in the order in which they run."""
        return tuple(entry.name for entry in self.entries())

    def of_phases(self, phases: Iterable[str], device: str) -> tuple[PassEntry, ...]:
        """Return the passes of some phases for one device, in the order in which they run.

        Within a phase those for this device come first, and those for any device after them. Then
        the order of the plugins counts, opwright's own first and others by distribution, and within
        a plugin the order of its registrations.
        """
        key = (tuple(phases), device)
        chosen = self._of_phases.get(key)
        if chosen is None:
            entries = (entry for phase in key[0] for entry in self._in_phase(phase))
            chosen = tuple(entry for entry in entries if entry.device in (device, ANY))
            self._of_phases[key] = chosen
        return chosen

    def enter(self, registration: Any, package: Package) -> None:
        """Add a registration that has been checked already."""
        super().enter(registration, package)
        self._of_phases.clear()

    def _in_phase(self, phase: str) -> list[PassEntry]:
        entries = [entry for entry in self._entries.values() if entry.phase == phase]
        return sorted(entries, key=lambda entry: entry.device == ANY)  # stable
