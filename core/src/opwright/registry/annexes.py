"""Annexes: objects that plugins name for other packages."""

from __future__ import annotations

from opwright.errors import MissingRequirementError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.quarantine import advise_plugin
from opwright.packages.registrations import key_text
from opwright.packages.rules import make_annex
from opwright.registry.named import Entry, NamedRegistry


class AnnexRegistry(NamedRegistry[Entry]):
    """Annexes by topic and subject; a pair belongs to one plugin.

    The core gives them no meaning. The package that asks for a topic defines its subjects, and
    the kind of its objects.
    """

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
