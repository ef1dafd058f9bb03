"""Annexes: objects that plugins name for other packages, by topic and subject.

The core gives them no meaning. Whoever asks for a topic decides what its subjects are, and what an
object of it must be.
"""

from __future__ import annotations

from opwright.describe.names import hint
from opwright.errors import MissingRequirementError
from opwright.registry.advice import advise_plugin
from opwright.registry.named import Entry, NamedRegistry
from opwright.registry.package import Package
from opwright.registry.registrations import key_text, make_annex


class AnnexRegistry(NamedRegistry[Entry]):
    """Annexes by topic and subject; a pair belongs to one plugin."""

    noun = "annex"

    def add(self, topic: str, subject: str, target: object, package: Package) -> None:
        """Add one annex; `target` is ``"module:attribute"`` or the object itself.

        RegistrationError for a pair that is taken, or anything malformed.
        """
        self._add(make_annex(topic, subject, target), package)

    def entries(self, topic: str) -> tuple[Entry, ...]:
        """Return every annex of a topic, sorted by subject; nothing is imported."""
        entries = (entry for entry in self._all() if entry.topic == topic)
        return tuple(sorted(entries, key=lambda entry: entry.subject))

    def find(self, topic: str, subject: str) -> Entry | None:  # type: ignore[override]  # of two names
        """Return one annex, not yet imported, or None where no plugin names it."""
        return self._find(key_text(topic, subject))

    def get(self, topic: str, subject: str) -> Entry:  # type: ignore[override]  # likewise
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
