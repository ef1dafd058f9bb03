"""The passes that plugins provide: functions that rewrite a lowered list of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opwright.describe.names import hint
from opwright.errors import RegistrationError
from opwright.registry import rules
from opwright.registry.import_notes import ImportNotes
from opwright.registry.named import NamedRegistry
from opwright.registry.package import Package
from opwright.registry.registrations import PassRegistration
from opwright.registry.rules import ANY, PHASES
from opwright.registry.target import load_target


class PassEntry:
    """One registered pass.

    Attributes
    ----------
    name : str
        By which it is switched.
    phase : str
        When it runs: canonicalize, fuse, layout or memory.
    device : str
        For which device it runs, ``"*"`` for any.
    target : str or callable
        ``"module:attribute"``, or the function itself.
    package : Package
        Who provided it.
    """

    __slots__ = ("_loaded", "_notes", "device", "name", "package", "phase", "target")

    def __init__(
        self,
        name: str,
        phase: str,
        device: str,
        target: object,
        package: Package,
        notes: ImportNotes | None = None,
    ) -> None:
        self.name = name
        self.phase = phase
        self.device = device
        self.target = target
        self.package = package
        self._notes = notes
        self._loaded: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<pass {self.name!r} of {self.package.label}>"

    def load(self) -> Callable[..., Any]:
        """Return the function, imported once.

        Raises
        ------
        PluginError, RegistrationError
            Where it cannot be imported, or cannot be called.
        """
        if self._loaded is None:
            found = self.target
            if isinstance(found, str):
                found = load_target(found, self.name, self.package, self._notes)
            if not callable(found):
                raise RegistrationError(
                    f"{self.name}: a pass must be a function, got {found!r} from "
                    f"{self.package.label}; name one in the hook"
                )
            self._loaded = found
        return self._loaded


class PassRegistry(NamedRegistry[PassEntry]):
    """Passes by name, phase and device."""

    noun = "pass"

    def add(
        self,
        name: str,
        *,
        phase: str,
        function: str | Callable[..., Any],
        package: Package,
        device: str = ANY,
    ) -> None:
        """Add one pass; `function` is ``"module:attribute"`` or the function itself.

        Raises
        ------
        RegistrationError
            For a name that is taken, or anything malformed.
        """
        rules.check_name(name, "pass")
        rules.check_phase(phase, name)
        rules.check_device(device, name)
        if isinstance(function, str):
            rules.check_target(function, name)
        self._check_free(name, package)
        self._enter(name, PassEntry(name, phase, device, function, package, self._report.notes))

    def enter(self, registration: PassRegistration, package: Package) -> None:
        """Add a registration that has been checked already."""
        name, phase, target, device = registration
        self._enter(name, PassEntry(name, phase, device, target, package, self._report.notes))

    def find(self, name: str) -> PassEntry | None:
        """Return the pass of this name, or None."""
        return self._entries.get(name)

    def get(self, name: str) -> PassEntry:
        """Return the pass of this name.

        Raises
        ------
        RegistrationError
            Naming the nearest pass.
        """
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

        Within a phase those for this device come first, since they know more, and those for any
        device take what is left. Beyond that it is the order of the plugins, opwright's own first
        and then by distribution, and within a plugin the order of its registrations.
        """
        entries = (entry for phase in phases for entry in self._in_phase(phase))
        return tuple(entry for entry in entries if entry.device in (device, ANY))

    def _in_phase(self, phase: str) -> list[PassEntry]:
        entries = [entry for entry in self._entries.values() if entry.phase == phase]
        return sorted(entries, key=lambda entry: entry.device == ANY)  # stable
