"""Advice about a plugin that is missing or broken, as a command where there is one."""

from __future__ import annotations

from typing import Final

from opwright.errors import PluginError
from opwright.registry.package import Package, PluginReport
from opwright.vocabulary import PROVIDER

_CORE: Final = "opwright"


def find_requirement(plugin: str) -> str | None:
    """Return the argument of ``pip install`` for a plugin of opwright's own, quoted for the shell.

    That is the extra of the core that installs the plugin, as the core's metadata has it; None for
    a plugin that none installs.
    """
    from opwright.registry.requirements import list_extras  # 26 ms, rarely needed

    extra = next((e for e, name in list_extras(_CORE) if name == f"{_CORE}-{plugin}"), None)
    return None if extra is None else f'"{_CORE}[{extra}]"'


def advise_command(error: BaseException, package: Package) -> str:
    """Return the advice most likely to fix a plugin whose code raised `error`."""
    if isinstance(error, PluginError) and error.advice is not None:
        return error.advice
    module = error.name if isinstance(error, ImportError) else None
    module = module if isinstance(module, str) else None  # a plugin may write anything there
    if module is not None and module.partition(".")[0] == _CORE:
        return f"pip install --upgrade {_CORE}"  # the plugin was written for a newer one
    if module is None or not isinstance(error, ModuleNotFoundError):
        return f"pip install --upgrade {package.distribution}"
    return _advise_module(module, package)


def _advise_module(module: str, package: Package) -> str:
    import shlex  # here and below: rarely needed
    from importlib.util import find_spec

    from opwright.registry.requirements import ask, find_missing_for, has_module

    top, dot, _ = module.partition(".")
    own_modules = {package.plugin, package.distribution.replace("-", "_")}
    if top in own_modules or has_module(package.distribution, top):
        return (
            f"{package.label} is broken, its own module {module!r} is missing: "
            f"pip install --force-reinstall --no-deps {package.distribution}"
        )
    if dot and ask(find_spec, top) is not None:
        return f"upgrade {top!r}: the plugin {package.plugin!r} needs {module!r}, which it lacks"
    needs = f"install {top!r}, which the plugin {package.plugin!r} needs"
    missing = find_missing_for(top, package.distribution)
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
