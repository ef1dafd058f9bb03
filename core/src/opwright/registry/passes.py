"""Passes: functions of plugins that rewrite lowered operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opwright.errors import RegistrationError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.registrations import ANY, PHASES
from opwright.packages.rules import make_pass
from opwright.registry.named import Entry, NamedRegistry


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

        `operators` is as in `opwright.plugin.PassRegistrar.add`. RegistrationError for a name that
        is taken, or anything malformed.
        """
        self._add(make_pass(name, phase, function, device, operators), package)

    def not_found(self, name: str) -> RegistrationError:
        """Return the error for an unknown pass, which names the nearest one."""
        known = hint(name, self._registered, "passes")
        return RegistrationError(f"{name}: no pass of this name is registered{known}")

    def entries(self) -> tuple[PassEntry, ...]:
        """Return every pass, in the order in which they run."""
        return tuple(entry for phase in PHASES for entry in self._in_phase(phase))

    def names(self) -> tuple[str, ...]:
        """Return the name of every pass, in the order in which they run."""
        return tuple(entry.name for entry in self.entries())

    def of_phases(self, phases: Iterable[str], device: str) -> tuple[PassEntry, ...]:
        """Return the passes of some phases for one device, in the order in which they run.

        Within a phase those for this device come first, then those for any device. Then passes are
        ordered by plugin, opwright's own first and others by distribution, and within a plugin by
        registration.
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
