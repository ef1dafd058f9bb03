"""Packages of plugins, and advice about missing and broken plugins.

Advice about a missing or broken plugin is a command where possible.
"""

from __future__ import annotations

from typing import Final

from opwright.errors import PluginError
from opwright.records import NamedTuple


class Package(NamedTuple):
    """A plugin and the distribution that contains it.

    Attributes
    ----------
    plugin : str
        Name of the entry point, such as ``"acme"``.
    distribution : str
        Name of the installed distribution, such as ``"opwright-acme"``.
    version : str
        Its version, such as ``"1.0"``.
    """

    plugin: str
    distribution: str
    version: str

    @property
    def label(self) -> str:
        """The distribution and version for messages, such as ``opwright-acme 1.0``."""
        return f"{self.distribution} {self.version}"


CORE: Final = "opwright"


def find_requirement(plugin: str) -> str | None:
    """Return the argument of ``pip install`` for an official plugin, quoted for the shell.

    The argument is the extra of the core that installs the plugin, according to the metadata of the
    core, or None if no extra does.
    """
    from opwright.packages.requirements import list_extras  # 26 ms, rarely needed

    extra = next((e for e, name in list_extras(CORE) if name == f"{CORE}-{plugin}"), None)
    return None if extra is None else f'"{CORE}[{extra}]"'


def advise_command(error: BaseException, package: Package) -> str:
    """Return the advice most likely to fix a plugin whose code raised `error`."""
    if isinstance(error, PluginError) and error.advice is not None:
        return error.advice
    module = error.name if isinstance(error, ImportError) else None
    module = module if isinstance(module, str) else None  # a plugin may set any value
    if module is not None and module.partition(".")[0] == CORE:
        return f"pip install --upgrade {CORE}"  # the plugin was written for a newer core
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
    # A plugin, such as opwright-onnx, may have the same name as its requirement.
    is_needed = any(each.replace("-", "_").startswith(top) for each in missing)
    if not is_needed and (top in own_modules or has_module(package.distribution, top)):
        return (
            f"{package.label} is broken, its own module {module!r} is missing: "
            f"pip install --force-reinstall --no-deps {package.distribution}"
        )
    if dot and ask(find_spec, top) is not None:
        return f"upgrade {top!r}: the plugin {package.plugin!r} needs {module!r}, which it lacks"
    needs = f"install {top!r}, which the plugin {package.plugin!r} needs"
    if not missing:  # its distribution is unknown, and a guess may be unrelated
        return f"{needs} ({package.label} does not list it)"
    return f"{needs}: pip install {' '.join(map(shlex.quote, missing))}"
