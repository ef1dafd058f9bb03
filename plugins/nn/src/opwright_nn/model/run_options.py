"""Where a model runs and how: what its networks are compiled and run with."""

from __future__ import annotations

from typing import NamedTuple

from opwright_nn import checks


class Running(NamedTuple):
    """Arguments of ``Network.compile`` and ``Network.run`` of these names.

    Attributes
    ----------
    device : str
    fallback : str or None
    deterministic : bool or None
    """

    device: str
    fallback: str | None
    deterministic: bool | None


def check_running(who: str, device: object, fallback: object, deterministic: object) -> Running:
    """Return the arguments, each of the type and among the values that it must be."""
    return Running(
        checks.check_str(who, "device", device),
        None if fallback is None else checks.check_choice(who, "fallback", fallback, ("cpu",)),
        None if deterministic is None else checks.check_bool(who, "deterministic", deterministic),
    )
