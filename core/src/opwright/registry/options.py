"""Options: settings of plugins that users choose for a whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opwright.errors import SettingError
from opwright.messages.names import hint
from opwright.packages.package import Package
from opwright.packages.rules import make_option
from opwright.registry.named import Entry, NamedRegistry


class OptionRegistry(NamedRegistry[Entry]):
    """Options by name, which kernels read in ``prepare``.

    They are part of the keys of plans and prepared kernels, so that a change is never missed.
    Environment variables must not be used for this.
    """

    noun = "option"

    def add(self, name: str, *, default: object, comment: str, package: Package) -> None:
        """Declare one option, by its name without the plugin's.

        RegistrationError for a name that is taken, or anything malformed.
        """
        self._add(make_option(name, default, comment, package), package)

    def entries(self) -> tuple[Entry, ...]:
        """Return every option, sorted by name."""
        return tuple(sorted(self._all(), key=lambda entry: entry.name))

    def check(
        self, who: str, chosen: object, before: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the options that differ from their defaults, sorted by name.

        Options in `before` hold where `chosen` does not name them. SettingError, which begins with
        `who`, for an unknown option and for a value of another type.
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
            if type(value) is not type(entry.default):  # True is an int, but no number
                kind = type(entry.default)
                noun = "an int" if kind is int else f"a {kind.__name__}"
                raise SettingError(
                    f"{who}: option {name!r} must be {noun}, got {value!r}; {entry.comment}"
                )
        merged = {**(before or {}), **chosen}
        values = {entry: merged.get(entry.name, entry.default) for entry in self.entries()}
        return {entry.name: value for entry, value in values.items() if value != entry.default}

    def fill(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every option: the chosen one, or the default."""
        items = self._registered.items()
        return {name: chosen.get(name, option.default) for name, (option, _) in items}
