"""Packages, plugins that failed to load, their reports in errors, and advice.

Advice about a plugin that is missing or broken is a command where there is one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

from opwright import _runtime
from opwright.errors import PluginError
from opwright.records import NamedTuple
from opwright.vocabulary import PROVIDER

if TYPE_CHECKING:
    from opwright.packages.import_notes import ImportNotes


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
        The traceback; empty if no code of the plugin raised.
    advice : str
        The command that is most likely to help.
    """

    package: Package
    reason: str
    traceback: str
    advice: str


class PluginReport:
    """The state of every installed plugin; registries share it for their error texts.

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
        """Yield one line for each installed plugin that provides nothing.

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

    def explain(self, title: str, advice: str | None, first: str = "") -> str:
        """Return the text of an error for a missing object: title, `lines`, what to install."""
        lines = [title, *(f"  {line}" for line in self.lines(first=first))]
        return "\n".join(lines if advice is None else [*lines, f"  to get it: {advice}"])

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


_CORE: Final = "opwright"


def find_requirement(plugin: str) -> str | None:
    """Return the argument of ``pip install`` for a plugin of opwright's own, quoted for the shell.

    That is the extra of the core that installs the plugin, as the core's metadata has it; None for
    a plugin that none installs.
    """
    from opwright.packages.requirements import list_extras  # 26 ms, rarely needed

    extra = next((e for e, name in list_extras(_CORE) if name == f"{_CORE}-{plugin}"), None)
    return None if extra is None else f'"{_CORE}[{extra}]"'


def advise_command(error: BaseException, package: Package) -> str:
    """Return the advice most likely to fix a plugin whose code raised `error`."""
    if isinstance(error, PluginError) and error.advice is not None:
        return error.advice
    module = error.name if isinstance(error, ImportError) else None
    module = module if isinstance(module, str) else None  # a plugin may set anything
    if module is not None and module.partition(".")[0] == _CORE:
        return f"pip install --upgrade {_CORE}"  # the plugin was written for a newer one
    if module is None or not isinstance(error, ModuleNotFoundError):
        return f"pip install --upgrade {package.distribution}"
    return _advise_module(module, package)


def _advise_module(module: str, package: Package) -> str:
    import shlex  # here and below: rarely needed
    from importlib.util import find_spec

    from opwright.packages.requirements import ask, find_missing_for, has_module

    top, dot, _ = module.partition(".")
    own_modules = {package.plugin, package.distribution.replace("-", "_")}
    missing = find_missing_for(top, package.distribution)
    # A plugin may have the name of a requirement, as opwright-onnx has.
    is_needed = any(each.replace("-", "_").startswith(top) for each in missing)
    if not is_needed and (top in own_modules or has_module(package.distribution, top)):
        return (
            f"{package.label} is broken, its own module {module!r} is missing: "
            f"pip install --force-reinstall --no-deps {package.distribution}"
        )
    if dot and ask(find_spec, top) is not None:
        return f"upgrade {top!r}: the plugin {package.plugin!r} needs {module!r}, which it lacks"
    needs = f"install {top!r}, which the plugin {package.plugin!r} needs"
    if not missing:  # its distribution is not known, and a guess may name someone else's
        return f"{needs} ({package.label} does not list it)"
    return f"{needs}: pip install {' '.join(map(shlex.quote, missing))}"


def advise_operator(op_type: str, report: PluginReport) -> str | None:
    """Return what to install for an operator without a plugin, or None where that is unknown."""
    prefix, dot, _ = op_type.partition(".")
    failure = report.find_failure(prefix)
    if failure is not None:
        return failure.advice
    if dot:
        known = any(package.plugin == prefix for package in report.loaded)
        return None if known else f"install the package that provides the plugin {prefix!r}"
    return _advise_distribution(PROVIDER, PROVIDER, report)


def advise_plugin(name: str, report: PluginReport) -> str | None:
    """Return what to install for the device or topic that opwright's own plugin of a name provides.

    None where there is no such plugin, or it is in use.
    """
    argument = find_requirement(name)
    return argument and _advise_distribution(f"{_CORE}-{name}", argument, report)


def _advise_distribution(distribution: str, argument: str, report: PluginReport) -> str | None:
    if report.has_loaded(distribution):
        return None
    for failure in report.failures:
        if failure.package.distribution == distribution:
            return failure.advice
    if any(package.distribution == distribution for package in report.disabled):
        return None  # installed; a line about OPWRIGHT_PLUGINS reports it
    return f"pip install {argument}"
