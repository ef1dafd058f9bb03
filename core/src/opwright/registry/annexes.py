"""Annexes: objects that plugins name for other packages, by topic and subject.

The core gives them no meaning. Whoever asks for a topic decides what its subjects are, and what an
object of it must be.
"""

from __future__ import annotations

from typing import Any

from opwright.describe.names import hint
from opwright.errors import MissingRequirementError
from opwright.registry.advice import advise_plugin
from opwright.registry.import_notes import ImportNotes
from opwright.registry.named import NamedRegistry
from opwright.registry.package import Package
from opwright.registry.registrations import AnnexRegistration, key_text, make_annex
from opwright.registry.target import load_target


class AnnexEntry:
    """One annex: `topic`, `subject` and `target` of its registration, and its `package`."""

    __slots__ = ("_loaded", "_notes", "package", "subject", "target", "topic")

    def __init__(
        self, registration: AnnexRegistration, package: Package, notes: ImportNotes | None = None
    ) -> None:
        self.topic, self.subject, self.target = registration
        self.package = package
        self._notes = notes
        self._loaded: Any = None

    def __repr__(self) -> str:
        return f"<annex {key_text(self.topic, self.subject)} of {self.package.label}>"

    def load(self) -> Any:
        """Return the object that the plugin named, imported once.

        PluginError, naming topic, subject and package, where it cannot be imported.
        """
        if self._loaded is None:
            value: object = self.target
            if isinstance(value, str):
                who = key_text(self.topic, self.subject)
                value = load_target(value, who, self.package, self._notes)
            self._loaded = value
        return self._loaded


class AnnexRegistry(NamedRegistry[AnnexEntry]):
    """Annexes by topic and subject; a pair belongs to one plugin."""

    noun = "annex"

    def add(self, topic: str, subject: str, target: object, package: Package) -> None:
        """Add one annex; `target` is ``"module:attribute"`` or the object itself.

        RegistrationError for a pair that is taken, or anything malformed.
        """
        self._add(make_annex(topic, subject, target), package)

    def _make_entry(self, registration: AnnexRegistration, package: Package) -> AnnexEntry:
        return AnnexEntry(registration, package, self._report.notes)

    def entries(self, topic: str) -> tuple[AnnexEntry, ...]:
        """Return every annex of a topic, sorted by subject; nothing is imported."""
        entries = (entry for entry in self._entries.values() if entry.topic == topic)
        return tuple(sorted(entries, key=lambda entry: entry.subject))

    def find(self, topic: str, subject: str) -> AnnexEntry | None:
        """Return one annex, not yet imported, or None where no plugin names it."""
        return self._entries.get(key_text(topic, subject))

    def get(self, topic: str, subject: str) -> AnnexEntry:
        """Return one annex, not yet imported.

        MissingRequirementError where no plugin names it: with the nearest subject, plugins that
        failed to load, and what to install.
        """
        entry = self.find(topic, subject)
        if entry is not None:
            return entry
        subjects = [entry.subject for entry in self.entries(topic)]
        near = hint(subject, subjects, "subjects") if subjects else ""
        lines = [f"{key_text(topic, subject)}: no plugin provides this annex{near}"]
        lines += [f"  {line}" for line in self._report.lines(first=topic)]
        advice = advise_plugin(topic, self._report)
        if advice is not None:
            lines.append(f"  to get it: {advice}")
        raise MissingRequirementError("\n".join(lines), advice=advice)
