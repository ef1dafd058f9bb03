"""The names of a new package, and what they must not clash with."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Collection
from typing import Final, NamedTuple

from opwright.context import Context
from opwright.discovery.scan import scan
from opwright.errors import ScaffoldError

_PREFIX: Final = "opwright-"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class PackageNames(NamedTuple):
    """What one package is called in different places.

    Attributes
    ----------
    distribution : str
        For pip, and the folder: ``"opwright-acme"``.
    module : str
        For ``import``: ``"opwright_acme"``.
    plugin : str
        What operator types begin with: ``"acme"``.
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
        Whose operators and devices the plugin must not hide.

    Raises
    ------
    ScaffoldError
        For a name that is malformed, with the nearest that is not, or that is taken.
    """
    names = _split(name)
    if names is None:
        raise ScaffoldError(
            f"new: a name must be words of a-z and 0-9 joined by '-', begin with a letter and "
            f"leave a plugin's name that is no Python keyword, got {name!r}; "
            f"write {_nearest(name)!r}"
        )
    _check_installed(names)
    _check_taken(names, "an operator", context.ops.types(all=True))
    _check_taken(names, "a device", context.devices.names())
    return names


def _split(name: str) -> PackageNames | None:
    """Return the names that follow from a distribution's, None where it is malformed."""
    short = name.removeprefix(_PREFIX)
    plugin = short.replace("-", "_")
    if not (_NAME.fullmatch(name) and _NAME.fullmatch(short)) or keyword.iskeyword(plugin):
        return None
    return PackageNames(name, name.replace("-", "_"), plugin)


def _nearest(name: str) -> str:
    """Return a well-formed name that looks most like one that is not."""
    # An upper-case letter inside begins a word: MyOps is my-ops.
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    short = "-".join(re.findall(r"[a-z0-9]+", spaced.lower()))
    prefix = _PREFIX if short.startswith(_PREFIX) else ""
    short = short.removeprefix(_PREFIX)
    if not short[:1].isalpha():
        short = f"ops-{short}" if short else "my-ops"
    if keyword.iskeyword(short):
        short += "-ops"
    return prefix + short


def _check_installed(names: PackageNames) -> None:
    """Raise where another package has the plugin's or the module's name."""
    for source in scan():
        if names.plugin == source.name:
            raise ScaffoldError(
                f"new: a plugin of this name is installed, got {names.distribution!r}, whose "
                f"plugin is {names.plugin!r} as that of {source.distribution} {source.version}; "
                f"choose another name, or pip uninstall {source.distribution}"
            )
    spec = importlib.util.find_spec(names.module)
    # A folder that happens to lie here is found too; it has no origin.
    if spec is not None and spec.origin is not None:
        raise ScaffoldError(
            f"new: the module {names.module!r} exists already, got {names.distribution!r}; "
            f"write {_PREFIX + names.plugin.replace('_', '-') + '-ops'!r} or another name"
        )


def _check_taken(names: PackageNames, what: str, taken: Collection[str]) -> None:
    if names.plugin in taken:
        raise ScaffoldError(
            f"new: {names.plugin!r} is the name of {what}, got {names.distribution!r}; "
            f"write {names.distribution + '-ops'!r} or another name"
        )
