"""Imports the modules and opens the compiled libraries that registrations name, at first use.

A note records each import while it runs, in case the import kills the process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from opwright import _runtime
from opwright.errors import OpwrightError, OutOfMemoryError, PluginError
from opwright.foreign import describe_error, import_object
from opwright.packages.import_notes import NO_NOTES, ImportNotes
from opwright.packages.package import Package, advise_command

if TYPE_CHECKING:  # 15 ms with its imports, which a list of types does not need
    from opwright.targets.library import NativeLibrary

_T = TypeVar("_T")

# The message of the glibc loader for a missing linked library.
_UNFOUND: Final = re.compile(r'got "([^/\s"]+): cannot open shared object file')

# The end of the runtime message for a library built for a newer ABI.
_NEWER: Final = "; install a newer opwright"


def load_target(target: str, who: str, package: Package, notes: ImportNotes = NO_NOTES) -> object:
    """Import the module of `target` and return its attribute.

    `who`, which begins error messages, is the operator, kernel, device or pass that needs the
    object. `notes` records the import while it runs, in case the import kills the process. Raises
    OutOfMemoryError if memory runs out, and PluginError if the import fails, has killed processes
    before, or the attribute is missing.
    """
    module = target.partition(":")[0]
    notes = NO_NOTES if module in sys.modules else notes
    try:
        with notes.noting(module, package, "importlib:import_module", module):
            value: object = import_object(target)
    except MemoryError as error:  # a PluginError would quarantine the plugin for good
        raise OutOfMemoryError(
            f"{who}: {target!r} of {package.label} must be imported, got too little memory; free "
            "some memory and try again"
        ) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # includes sys.exit
        reason, advice = describe_error(error), advise_command(error, package)
        raise PluginError(
            f"{who}: {target!r} of {package.label} failed to load, got {reason}; {advice}",
            advice=advice,
        ) from error
    return value


class LibraryTable:
    """The libraries that the registries of one Context have opened.

    `notes` records which library is being opened, in case that kills the process.
    """

    def __init__(self, notes: ImportNotes = NO_NOTES) -> None:
        self.notes = notes
        self._libraries: dict[tuple[str, Package], NativeLibrary] = {}

    def load(self, target: str, who: str, package: Package) -> NativeLibrary:
        """Return a library; it is found and opened only once.

        `target` is the path of the library in the package. `who`, which begins error messages, is
        the operator or kernel that needs the library.

        Raises
        ------
        OutOfMemoryError
            If memory for its tables runs out.
        PluginError
            If it is missing, is not a plugin library, is for another machine or ABI, or has killed
            processes that opened it.
        """
        known = self._libraries.get((target, package))
        if known is not None:
            return known
        label = f"library {target!r} of {package.label}"
        path = find_library_file(target, package)
        if path is None:
            raise PluginError(
                f"{who}: {label} must be an installed file, got none; "
                f"pip install --force-reinstall --no-deps {package.distribution}"
            )
        try:
            with self.notes.noting(target, package, "opwright._runtime:Library", path):
                opened = open_linked(lambda: _runtime.Library(path), lambda: [package.distribution])
        except MemoryError as error:
            raise OutOfMemoryError(f"{who}: {label} cannot be opened now: {error}") from error
        except OpwrightError as error:
            raise _unusable(f"{who}: {label} cannot be used: {error}", package, error) from error
        if opened.name != package.plugin:
            raise PluginError(
                f"{who}: {label} must have the name of the plugin, {package.plugin!r}, "
                f"got {opened.name!r}; give the entry point and ow_plugin equal names"
            )
        from opwright.targets.library import NativeLibrary  # as above

        # If two threads race, the first thread's object is kept; the file is opened only once.
        return self._libraries.setdefault((target, package), NativeLibrary(opened, label))


def open_linked(open_now: Callable[[], _T], list_distributions: Callable[[], Iterable[str]]) -> _T:
    """Open a library, after the linked libraries that the system loader does not find.

    The libraries belong to distributions that a given distribution requires, which may be outside
    the search path, as in an environment that can access the packages of another environment.
    """
    opened: set[str] = set()
    while True:
        try:
            return open_now()
        except OpwrightError as error:
            from opwright.packages.requirements import find_required_file  # 6 ms, rarely needed

            names = set(_UNFOUND.findall(str(error))) - opened
            places = (find_required_file(d, name) for name in names for d in list_distributions())
            linked = next(filter(None, places), None)
            if linked is None:
                raise
            import ctypes  # rarely needed

            opened |= names
            ctypes.CDLL(str(linked))  # not global; stays open until the process ends


def _unusable(text: str, package: Package, cause: OpwrightError) -> PluginError:
    """Return the error for a library that cannot be opened, with the missing requirements."""
    if isinstance(cause, PluginError) and cause.advice is not None:
        return PluginError(f"{text}; {cause.advice}", advice=cause.advice)
    import shlex

    from opwright.packages.requirements import find_missing

    missing = find_missing(package.distribution)
    if not missing:
        is_newer = text.endswith(_NEWER)
        return PluginError(text, advice="pip install --upgrade opwright" if is_newer else None)
    which = "which is" if len(missing) == 1 else "which are"
    advice = "pip install " + " ".join(map(shlex.quote, missing))
    needs = f"{package.label} needs {' and '.join(missing)}, {which} not installed"
    return PluginError(f"{text}; {needs}; {advice}", advice=advice)


def find_library_file(target: str, package: Package) -> str | None:
    """Return the path of a library in an installed package, or None if it is missing.

    An editable install has compiled and Python files in separate folders. So the folders that the
    import system knows for the package are searched first, then the files of the distribution.
    Nothing is imported.
    """
    import importlib.util

    top, _, rest = target.partition("/")
    spec = importlib.util.find_spec(top)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, rest)  # noqa: PTH118 - without pathlib, which takes 5 ms
        if os.path.isfile(path):  # noqa: PTH113
            return path
    from importlib.metadata import files  # 26 ms, rarely needed

    from opwright.packages.requirements import ask

    listed = ask(files, package.distribution) or ()
    paths = (str(file.locate()) for file in listed if file.as_posix() == target)
    return next(filter(os.path.isfile, paths), None)
