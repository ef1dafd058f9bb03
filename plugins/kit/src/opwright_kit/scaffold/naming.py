"""The names of a new package, and the names that they must not clash with."""

from __future__ import annotations

import importlib.util
import re
from typing import Final, NamedTuple

from opwright import Context
from opwright.plugin import is_name, scan
from opwright_kit.scaffold.errors import ScaffoldError

_PREFIX: Final = "opwright-"
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_TARGETS_OF_CMAKE: Final = (
    *("all", "clean", "depend", "edit_cache", "help", "install", "list_install_components"),
    *("package", "package_source", "preinstall", "rebuild_cache", "test"),
)
"""The library of a C++ package is a CMake target with the name of the plugin."""


class PackageNames(NamedTuple):
    """The names of one package in different files.

    Attributes
    ----------
    distribution : str
        For pip, and the folder: ``"opwright-acme"``.
    module : str
        For ``import``: ``"opwright_acme"``.
    plugin : str
        The prefix of operator types: ``"acme"``.
    """

    distribution: str
    module: str
    plugin: str


def check_names(name: str, context: Context) -> PackageNames:
    """Return the names of a package called `name`.

    Parameters
    ----------
    name : str
        Name of the distribution: a-z, 0-9, words joined by ``-``. A leading ``opwright-`` is left
        out of the plugin's name.
    context : Context
        The context whose operators, kernels and devices the plugin must not hide.

    Raises
    ------
    ScaffoldError
        For a name that is malformed or taken; suggests a similar free name.
    """
    names = _split(name)
    if not _NAME.fullmatch(name):
        rule = f"a name must be words of a-z and 0-9 joined by '-', got {name!r}"
    elif names is None:
        rule = (
            f"a name must begin with a letter, also after {_PREFIX!r}, and not be a keyword, "
            f"got {name!r}"
        )
    else:
        clash = _find_clash(names, context)
        if clash is None:
            return names
        rule = f"{clash}, got {name!r}"
    raise ScaffoldError(f"new: {rule}; write {_find_free(name, context)!r}")


def _split(name: str) -> PackageNames | None:
    """Return the names derived from a distribution name, or None if it is malformed."""
    plugin = name.removeprefix(_PREFIX).replace("-", "_")
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or not all(map(is_name, (plugin, module))):
        return None
    return PackageNames(name, module, plugin)


def _find_clash(names: PackageNames, context: Context) -> str | None:
    """Return why names cannot be used because they are taken, or None if they are free."""
    for source in scan():
        if names.plugin == source.name:
            return (
                f"the plugin's name {names.plugin!r} is that of {source.distribution} "
                f"{source.version}, which is installed"
            )
    spec = importlib.util.find_spec(names.module)
    # find_spec also finds a folder of this name in the working directory, but without an origin.
    if spec is not None and spec.origin is not None:
        return f"the module's name {names.module!r} is taken"
    if names.plugin in _TARGETS_OF_CMAKE:
        return f"the plugin's name {names.plugin!r} is reserved by CMake"
    names_by_kind = {
        "an operator": context.ops.types(all=True),
        "a device": context.devices.names(),
        "a library of kernels": {row.library for row, _ in context.kernels.registrations()},
    }
    for what, existing in names_by_kind.items():
        if names.plugin in existing:
            return f"the plugin's name {names.plugin!r} is that of {what}"
    return None


def _find_free(name: str, context: Context) -> str:
    """Return a well-formed, unused name that resembles the given name."""
    # An upper-case letter inside begins a word: MyOps is my-ops.
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    near = "-".join(re.findall(r"[a-z0-9]+", spaced.lower())).removeprefix(_PREFIX)
    prefix = "" if near == name else _PREFIX
    short = near if near[:1].isalpha() else "-".join(filter(None, ["ops", near]))
    candidates = [prefix + short, _PREFIX + short, f"{_PREFIX}{short}-ops"]
    candidates += [f"{_PREFIX}{short}-ops{number}" for number in range(2, 100)]
    for candidate in candidates:
        names = _split(candidate)
        if names is not None and _find_clash(names, context) is None:
            return candidate
    return candidates[-1]
