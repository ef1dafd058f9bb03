"""Kernels that turn out to be broken when they are needed: kept out, told, and passed over."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from opwright.errors import PluginError, RegistrationError
from opwright.plugins.discover import Settings
from opwright.registry import PluginFailure
from opwright.registry.advice import advise_command

if TYPE_CHECKING:
    from opwright.plugins.context import Context
    from opwright.registry import KernelEntry


def find_load_failure(entry: KernelEntry, context: Context) -> str | None:
    """Return why a kernel cannot be loaded, None where it can.

    Discovery imports no kernel and opens no library, so a module that fails, or a library that is
    missing, damaged or of another ABI, shows here. One rule serves both: the kernel is a rejected
    candidate, the failure is reported like one of discovery, and the next candidate serves. The
    first kernel of each module or library warns, for another than the one that was installed may
    be slower.

    Raises
    ------
    PluginError, RegistrationError
        With OPWRIGHT_STRICT=1.
    """
    if entry.is_loaded:
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
    if context.report.quarantine(failure, entry.origin):
        warnings.warn(f"{error}; the kernel is passed over", RuntimeWarning, stacklevel=2)
