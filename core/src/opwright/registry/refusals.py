"""Reasons why kernels would refuse on this machine, asked of their plugins before a plan is made.

Only commands ask, to show the answers. A kernel refuses by itself when it is prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opwright.errors import PluginError
from opwright.foreign import describe_error
from opwright.registry.advice import advise_command
from opwright.registry.named import load_target
from opwright.registry.package import Package

WOULD_REFUSE = "would refuse: "
"""Begins the report of a kernel that was not asked to prepare anything."""


def find_refusal(target: str, package: Package, options: Mapping[str, Any]) -> str | None:
    """Ask a plugin's function why kernels would refuse here; None where they would not.

    `target` is ``"module:attribute"`` of a function without arguments, or of ``options`` (the value
    of every option), which returns a text or None. The reason is one line. PluginError where the
    function cannot be imported, raises, or returns something else.
    """
    from inspect import signature  # only where a function is asked

    function: Any = load_target(target, "find_refusal", package)
    try:
        has_options = "options" in signature(function).parameters
        reason = function(options=options) if has_options else function()
    except (Exception, SystemExit) as error:
        raise _broken(target, package, describe_error(error), error) from error
    if reason is None:
        return None
    if not isinstance(reason, str) or not reason.strip():
        raise _broken(target, package, repr(reason), TypeError())
    return " ".join(map(str.strip, reason.strip().splitlines()))


def _broken(target: str, package: Package, got: str, error: BaseException) -> PluginError:
    advice = advise_command(error, package)
    return PluginError(
        f"find_refusal: {target!r} of {package.label} must return a reason or None, got {got}; "
        f"{advice}",
        advice=advice,
    )


def find_refusals(
    targets: Iterable[tuple[str, Package]], options: Mapping[str, Any]
) -> tuple[dict[tuple[str, Package], str], list[str]]:
    """Ask each function once, as `find_refusal` does; empty targets are skipped.

    Returns the reasons, and the errors of functions that gave no answer: their kernels are assumed
    to work.
    """
    reasons: dict[tuple[str, Package], str] = {}
    faults = []
    for target, package in dict.fromkeys(targets):
        try:
            reason = find_refusal(target, package, options) if target else None
        except PluginError as error:
            faults.append(str(error))
            continue
        if reason is not None:
            reasons[target, package] = reason
    return reasons, faults
