"""Advice about a plugin that is missing or broken, as a command where there is one."""

from __future__ import annotations

from typing import Final

from opwright.errors import PluginError
from opwright.registry.package import STD_DISTRIBUTION, Package, PluginReport

_CORE: Final = "opwright"
_EXTRAS: Final = {"opwright-cpu": "opwright[cpu]", "opwright-cuda": "opwright[cuda]"}
_DEVICE_PROVIDERS: Final = {"cpu": "opwright-cpu", "cuda": "opwright-cuda"}


def requirement(distribution: str) -> str:
    """Return the argument of ``pip install`` for a distribution, quoted for the shell."""
    name = _EXTRAS.get(distribution)
    return f'"{name}"' if name else distribution


def advise_command(error: BaseException, package: Package) -> str:
    """Return the advice most likely to fix a plugin whose code raised `error`."""
    if isinstance(error, PluginError) and error.advice is not None:
        return error.advice
    module = error.name if isinstance(error, ImportError) else None
    module = module if isinstance(module, str) else None  # a plugin may write anything there
    if module is not None and module.partition(".")[0] == _CORE:
        return f"pip install --upgrade {_CORE}"  # the plugin was written for a newer one
    if module is None or not isinstance(error, ModuleNotFoundError):
        return f"pip install --upgrade {requirement(package.distribution)}"
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
    if report.has_loaded(STD_DISTRIBUTION):
        return None
    return _advise_distribution(STD_DISTRIBUTION, report)


def advise_device(device: str, report: PluginReport) -> str | None:
    """Return what to install for kernels on `device`, or None where that is unknown."""
    distribution = _DEVICE_PROVIDERS.get(device)
    if distribution is None or report.has_loaded(distribution):
        return None
    return _advise_distribution(distribution, report)


def _advise_distribution(distribution: str, report: PluginReport) -> str | None:
    for failure in report.failures:
        if failure.package.distribution == distribution:
            return failure.advice
    if any(package.distribution == distribution for package in report.disabled):
        return None  # installed; a line about OPWRIGHT_PLUGINS reports it
    return f"pip install {requirement(distribution)}"
