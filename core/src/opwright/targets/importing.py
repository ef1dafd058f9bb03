"""Imports the objects that registrations name, with a note while the import runs."""

from __future__ import annotations

import sys

from opwright.errors import (
    OutOfMemoryError,
    PluginError,
)
from opwright.foreign import describe_error, import_object
from opwright.packages.import_notes import ImportNotes, noted
from opwright.packages.package import Package, advise_command


def load_target(
    target: str, who: str, package: Package, notes: ImportNotes | None = None
) -> object:
    """Import the module of `target` and return its attribute.

    `who` is the operator, kernel, device or pass that needs it, and begins errors. `notes` records
    the import while it runs, in case it kills the process. OutOfMemoryError if there is no
    memory for it now; PluginError where it fails, has ended processes before, or lacks the
    attribute.
    """
    module = target.partition(":")[0]
    notes = None if module in sys.modules else notes
    try:
        with noted(notes, module, package, "importlib:import_module", module):
            value: object = import_object(target)
    except MemoryError as error:  # a PluginError would quarantine the plugin for good
        raise OutOfMemoryError(
            f"{who}: {target!r} of {package.label} must be imported, got no memory for it; free "
            "some and try again"
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
