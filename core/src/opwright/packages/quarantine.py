"""Plugins that failed to load; they are quarantined, and reported in errors of missing objects.

The report also names the package to install for an object that no plugin provides.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from opwright import _runtime
from opwright.packages.package import CORE, Package, find_requirement
from opwright.records import NamedTuple
from opwright.vocabulary import PROVIDER

_SHOWN_FAILURES: Final = 5


class PluginFailure(NamedTuple):
    """A quarantined plugin, or a module or library of a plugin that cannot be loaded.

    Attributes
    ----------
    package : Package
    reason : str
        One line with the error and its message, or the rule that the plugin broke.
    traceback : str
        The traceback; empty if the code of the plugin did not raise.
    advice : str
        The command that is most likely to help.
    """

    package: Package
    reason: str
    traceback: str
    advice: str


class PluginReport:
    """The state of all installed plugins, which registries share for their error messages.

    `loaded` plugins are in use, `failures` are quarantined, and `disabled` plugins are disabled by
    OPWRIGHT_PLUGINS. `epoch` is incremented by every addition to the registries. `index_state` is
    ``"read"``, ``"written"``, or the reason why the index was neither read nor written.
    """

    def __init__(
        self,
        loaded: tuple[Package, ...] = (),
        failures: tuple[PluginFailure, ...] = (),
        disabled: tuple[Package, ...] = (),
    ) -> None:
        self.epoch = _runtime.Epoch()
        self.loaded = loaded
        self.failures = failures
        self.disabled = disabled
        self.index_state = ""
        self._quarantined: set[tuple[Package, str]] = set()

    def lines(self, without: Container[Package] = (), first: str = "") -> Iterator[str]:
        """Yield one line for each installed plugin that is not in use.

        Packages in `without` are skipped, and the plugin `first` comes first.
        """
        failures = [failure for failure in self.failures if failure.package not in without]
        failures.sort(key=lambda failure: failure.package.plugin != first)
        for failure in failures[:_SHOWN_FAILURES]:
            yield f"plugin {failure.package.plugin!r} failed to load: {failure.reason}"
        hidden = len(failures) - _SHOWN_FAILURES
        if hidden > 0:
            yield f"further failed plugins: {hidden}; run: opwright doctor"
        if self.disabled:
            names = ", ".join(repr(package.plugin) for package in self.disabled)
            yield f"installed, but not named in OPWRIGHT_PLUGINS: {names}"

    def explain(self, title: str, advice: str | None, first: str = "") -> str:
        """Return the message about a missing object: title, `lines`, the package to install."""
        lines = [title, *(f"  {line}" for line in self.lines(first=first))]
        return "\n".join(lines if advice is None else [*lines, f"  to get it: {advice}"])

    def quarantine(self, failure: PluginFailure, origin: str) -> bool:
        """Add a failure at first use; return False if its module or library has already failed."""
        key = (failure.package, origin)
        if key in self._quarantined:
            return False
        self._quarantined.add(key)
        self.failures = (*self.failures, failure)
        return True

    def find_failure(self, plugin: str) -> PluginFailure | None:
        """Return the failure of the plugin of this name, or None."""
        return next((f for f in self.failures if f.package.plugin == plugin), None)


def advise_operator(op_type: str, report: PluginReport) -> str | None:
    """Return the package to install for an operator without a plugin, or None if it is unknown."""
    prefix, dot, _ = op_type.partition(".")
    failure = report.find_failure(prefix)
    if failure is not None:
        return failure.advice
    if dot:
        known = any(package.plugin == prefix for package in report.loaded)
        return None if known else f"install the package that provides the plugin {prefix!r}"
    return _advise_distribution(PROVIDER, PROVIDER, report)


def advise_plugin(name: str, report: PluginReport) -> str | None:
    """Return the package to install for a device or topic with the name of an official plugin.

    Returns None if no such plugin exists, or if the plugin is in use.
    """
    argument = find_requirement(name)
    return argument and _advise_distribution(f"{CORE}-{name}", argument, report)


def _advise_distribution(distribution: str, argument: str, report: PluginReport) -> str | None:
    if any(package.distribution == distribution for package in report.loaded):
        return None
    # A line about OPWRIGHT_PLUGINS reports that a disabled plugin is installed.
    is_disabled = any(package.distribution == distribution for package in report.disabled)
    failed = (f.advice for f in report.failures if f.package.distribution == distribution)
    return next(failed, None if is_disabled else f"pip install {argument}")
