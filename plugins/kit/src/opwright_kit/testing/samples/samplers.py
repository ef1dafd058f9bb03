"""Loads the functions that draw inputs for operators whose OpProto constrains them too little.

A distribution registers a dict in the entry-point group ``opwright.samples``. The dict maps
operator types to functions that draw one sample. Only the kit reads this entry-point group, so it
does not slow down users.

::

    [project.entry-points."opwright.samples"]
    acme = "opwright_acme.samples:SAMPLES"

If no drawn program can make a pass change anything, the dict gives the reason under a key such as
``"pass fuse_swish"``.

The operator type ``"*.multi_sgd"`` matches plan-only operators of any package, since a pass for
every device creates them; an exact type takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opwright.errors import PluginError
from opwright.op import OpDefinition
from opwright.plugin import Source, describe_error, import_object, scan
from opwright_kit.testing.samples.draw import Sampler

GROUP: Final = "opwright.samples"
"""The entry-point group."""


class SamplerError(Exception):
    """A function that draws samples failed; the cause is the error that it raised."""


def load_samplers() -> dict[str, Sampler]:
    """Return the samplers of every installed distribution, by operator type.

    Raises
    ------
    PluginError
        If an entry point cannot be loaded, or names something else.
    """
    samplers: dict[str, Sampler] = {}
    for point in scan(group=GROUP):
        samplers.update(_load(point))
    return samplers


def find_sampler(samplers: Mapping[str, Sampler], definition: OpDefinition) -> Sampler | None:
    """Return an operator's sampler, or the sampler of plan-only operators with its name."""
    name = definition.op_type.rpartition(".")[2]
    everywhere = samplers.get(f"*.{name}") if definition.plan_only else None
    return samplers.get(definition.op_type, everywhere)


def _load(point: Source) -> Mapping[str, Sampler]:
    who = f"check: {GROUP} of {point.distribution}"
    try:
        samplers = import_object(point.target)
    except Exception as error:
        raise PluginError(
            f"{who} must be importable, got an error at {point.target}: {describe_error(error)}"
        ) from error
    if not isinstance(samplers, Mapping) or not all(
        isinstance(value, str) if name.startswith("pass ") else callable(value)
        for name, value in samplers.items()
    ):
        raise PluginError(
            f"{who} must name a dict of operator types to functions, got {samplers!r}; "
            'write SAMPLES = {"acme.gather": draw_gather}'
        )
    return samplers
