"""What a Model is beyond this process: all that was built, and the values that its scope holds."""

from __future__ import annotations

from typing import Any

import opwright as ow

_VALUES = "values"
_REQUESTED = "requested"

_OF_THE_RUN = frozenset(
    {"scope", "network", "_startup", "_feeds", "_dtypes", "_step", "_generation", "_predictors"}
)
"""Attributes that are made anew: plans, and arrays that are borrowed from the caller."""


def model_state(model: Any) -> dict[str, Any]:
    """Return what pickle keeps of a Model."""
    kept = {name: value for name, value in vars(model).items() if name not in _OF_THE_RUN}
    return {
        **kept,
        _REQUESTED: model._startup.requested,
        _VALUES: _held(model.scope, model.program, model.startup_program),
    }


def restore_model(model: Any, state: dict[str, Any]) -> None:
    """Make a Model of what `model_state` returned, with a scope of its own."""
    kept = dict(state)
    values, requested = kept.pop(_VALUES), kept.pop(_REQUESTED)
    vars(model).update(kept)
    scope = ow.Scope()
    for name, array in values.items():
        scope.var(name).set(array)
    model._begin(scope)
    if requested:
        model._startup.request_all()


def _held(scope: ow.Scope, *programs: ow.Program) -> dict[str, Any]:
    """The values of all persistable variables of programs that a scope holds, on the host."""
    values = {}
    for program in programs:
        for variable in program.global_block().vars.values():
            found = scope.find_var(variable.name) if variable.persistable else None
            if found is not None and found.is_set:
                values[variable.name] = found.numpy()
    return values
