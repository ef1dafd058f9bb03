"""The options that a Model passes to its networks: device, fallback, determinism."""

from __future__ import annotations

from typing import NamedTuple

from opwright_nn import checks


class RunOptions(NamedTuple):
    """Arguments of ``Network.compile`` and ``Network.run``, by these names.

    Attributes
    ----------
    device : str
    fallback : str or None
    deterministic : bool or None
    """

    device: str
    fallback: str | None
    deterministic: bool | None


def check_options(who: str, device: object, fallback: object, deterministic: object) -> RunOptions:
    """Return the options; raise where one has another type or value than it may have."""
    return RunOptions(
        checks.check_str(who, "device", device),
        None if fallback is None else checks.check_choice(who, "fallback", fallback, ("cpu",)),
        None if deterministic is None else checks.check_bool(who, "deterministic", deterministic),
    )
