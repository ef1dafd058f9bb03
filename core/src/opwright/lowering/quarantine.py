"""Libraries that turn out to be broken when a kernel of theirs is needed: kept out, and told."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from opwright.discovery import Settings
from opwright.errors import PluginError, RegistrationError
from opwright.registry import PluginFailure
from opwright.registry.advice import advise_command

if TYPE_CHECKING:
    from opwright.context import Context
    from opwright.kernel import KernelEntry


def find_fault(entry: KernelEntry, context: Context) -> str | None:
    """Return why the library of a compiled kernel cannot be used, None where it can.

    Discovery opens no library, so one that is missing, damaged or of another ABI shows here. Its
    plugin is treated as one that fails in discovery: reported, and the next candidate serves. It
    warns, for another kernel than the one that was installed may be slower.

    Raises
    ------
    PluginError, RegistrationError
        With OPWRIGHT_STRICT=1.
    """
    if not entry.is_native or entry.is_loaded:
        return None
    key = (entry, "fault")
    known: str | None = context.prepared.get(key)
    if known is not None:
        return known
    try:
        entry.load()
    except (PluginError, RegistrationError) as error:
        if Settings.from_environment().strict:
            raise
        known = context.prepared[key] = f"failed to load: {error}"
        _tell(entry, error, context)
    return known


def _tell(entry: KernelEntry, error: Exception, context: Context) -> None:
    package = entry.package
    failure = PluginFailure(package, str(error), "", advise_command(error, package))
    if context.report.quarantine(failure):
        warnings.warn(
            f"{entry.who} failed to load and is passed over: {error}", RuntimeWarning, stacklevel=2
        )
