"""Packages, plugins that failed to load, and the lines that errors quote about them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

from opwright import _runtime
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from opwright.registry.import_notes import ImportNotes

_SHOWN_FAILURES: Final = 5


class Package(NamedTuple):
    """A plugin and the distribution it came in.

    Attributes
    ----------
    plugin : str
        Name of the entry point: ``"acme"``.
    distribution : str
        Name of the installed distribution: ``"opwright-acme"``.
    version : str
        Its version: ``"1.0"``.
    """

    plugin: str
    distribution: str
    version: str

    @property
    def label(self) -> str:
        """The distribution with its version, as messages show it: ``opwright-acme 1.0``."""
        return f"{self.distribution} {self.version}"


class PluginFailure(NamedTuple):
    """A plugin that is quarantined, or one of its modules or libraries that cannot be loaded.

    Attributes
    ----------
    package : Package
    reason : str
        One line: the error and its text, or the rule that the plugin broke.
    traceback : str
        Where it happened; empty where no code of the plugin raised.
    advice : str
        The command that is most likely to help.
    """

    package: Package
    reason: str
    traceback: str
    advice: str


class PluginReport:
    """What became of every installed plugin; registries share it for their error texts.

    `loaded` plugins are in use, `failures` are quarantined, and OPWRIGHT_PLUGINS disables
    `disabled`. `notes` records each import while it lasts, None: nowhere. `epoch` rises with every
    addition to the registries.
    """

    def __init__(
        self,
        loaded: tuple[Package, ...] = (),
        failures: tuple[PluginFailure, ...] = (),
        disabled: tuple[Package, ...] = (),
        notes: ImportNotes | None = None,
    ) -> None:
        self.epoch = _runtime.Epoch()
        self.notes = notes
        self.loaded = loaded
        self.failures = failures
        self.disabled = disabled
        self._quarantined: set[tuple[Package, str]] = set()

    def lines(self, without: Container[Package] = (), first: str = "") -> Iterator[str]:
        """Yield one line for each plugin that is installed and yet provides nothing.

        Packages in `without` are skipped; the plugin `first` comes first.
        """
        failures = [failure for failure in self.failures if failure.package not in without]
        failures.sort(key=lambda failure: failure.package.plugin != first)
        for failure in failures[:_SHOWN_FAILURES]:
            yield f"plugin {failure.package.plugin!r} failed to load: {failure.reason}"
        hidden = len(failures) - _SHOWN_FAILURES
        if hidden > 0:
            yield f"plugins that failed to load beside these: {hidden}; run: opwright doctor"
        if self.disabled:
            names = ", ".join(repr(package.plugin) for package in self.disabled)
            yield f"installed, but not named in OPWRIGHT_PLUGINS: {names}"

    def quarantine(self, failure: PluginFailure, origin: str) -> bool:
        """Add a failure at first use; False where its module or library has one already."""
        key = (failure.package, origin)
        if key in self._quarantined:
            return False
        self._quarantined.add(key)
        self.failures = (*self.failures, failure)
        return True

    def has_loaded(self, distribution: str) -> bool:
        """Tell whether a plugin of this distribution is in use."""
        return any(package.distribution == distribution for package in self.loaded)

    def find_failure(self, plugin: str) -> PluginFailure | None:
        """Return the failure of the plugin of this name, or None."""
        for failure in self.failures:
            if failure.package.plugin == plugin:
                return failure
        return None
