"""From ``"module:attribute"`` to the object: the one place that imports what plugins name."""

from __future__ import annotations

import importlib
import sys

from opwright.errors import OutOfMemoryError, PluginError
from opwright.registry.advice import advise_command
from opwright.registry.import_notes import ImportNotes, noted
from opwright.registry.package import Package


def load_target(
    target: str, who: str, package: Package, notes: ImportNotes | None = None
) -> object:
    """Import the module of `target` and return its attribute.

    Parameters
    ----------
    target : str
        ``"module:attribute"``, as checked at registration.
    who : str
        Operator, kernel, device or pass that it stands for; begins the error.
    package : Package
        Who named it.
    notes : ImportNotes, optional
        Where the import is noted while it lasts, should it end the process.

    Raises
    ------
    OutOfMemoryError
        When the module is imported in a moment without memory.
    PluginError
        When the module cannot be imported, has ended processes before, or lacks the attribute.
    """
    module, _, attribute = target.partition(":")
    try:
        with noted(None if module in sys.modules else notes, module, package):
            found: object = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except MemoryError as error:  # a PluginError would quarantine the plugin for good
        raise OutOfMemoryError(
            f"{who}: {target!r} of {package.label} must be imported, got no memory for it; free "
            "some and try again"
        ) from error
    except Exception as error:
        advice = advise_command(error, package)
        failure = PluginError(
            f"{who}: {target!r} of {package.label} failed to load, "
            f"got {type(error).__name__}: {error}; {advice}"
        )
        failure.advice = advice
        raise failure from error
    return found
