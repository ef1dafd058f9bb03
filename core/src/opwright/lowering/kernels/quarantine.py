"""Skips and reports kernels that fail to load at first use."""

from __future__ import annotations

import warnings

from opwright.context.context import Context
from opwright.errors import PluginError, RegistrationError
from opwright.packages import PluginFailure
from opwright.packages.package import advise_command
from opwright.registry import KernelEntry


def find_load_failure(entry: KernelEntry, context: Context) -> str | None:
    """Return why a kernel cannot be loaded, None if it can.

    Discovery imports no kernel and opens no library, so a module that fails, or a library that is
    missing, damaged or of another ABI, is found here. In both cases the kernel is skipped, the
    failure is reported like one of discovery, and the next candidate is tried. The first kernel of
    each module or library warns, since the next candidate may be slower. With OPWRIGHT_STRICT=1 the
    failure is raised.
    """
    if entry.is_loaded:
        return None
    key = (entry, "fault")
    known: str | None = context.refusals.get(key)
    if known is not None:
        return known
    try:
        entry.load()
    except (PluginError, RegistrationError) as error:
        if context.settings.strict:
            raise
        known = context.refusals[key] = f"failed to load: {error}"
        advice = advise_command(error, entry.package)
        failure = PluginFailure(entry.package, str(error), "", advice)
        if context.report.quarantine(failure, entry.origin):
            warnings.warn(f"{error}; the kernel is skipped", RuntimeWarning, stacklevel=1)
    return known
