"""Pickling and copying of a Model: its programs, and the values in its scope."""

from __future__ import annotations

from typing import Any

import opwright as ow

_VALUES = "values"
_REQUESTED = "requested"

_NOT_COPIED = frozenset(
    {
        "scope",
        "network",
        "_startup",
        "_guards",
        "_feeds",
        "_dtypes",
        "_step",
        "_steps",
        "_generation",
        "_predictors",
    }
)
"""Attributes that a copy recreates: plans, and arrays borrowed from the caller."""


def model_state(model: Any) -> dict[str, Any]:
    """Return the state of a Model, for pickle."""
    attributes = {name: value for name, value in vars(model).items() if name not in _NOT_COPIED}
    return {
        **attributes,
        _REQUESTED: model._startup.requested,
        _VALUES: _values(model.scope, model.program, model.startup_program),
    }


def restore_model(model: Any, state: dict[str, Any]) -> None:
    """Restore a Model from the result of `model_state`, with its own scope."""
    attributes = dict(state)
    values, requested = attributes.pop(_VALUES), attributes.pop(_REQUESTED)
    vars(model).update(attributes)
    scope = ow.Scope()
    for name, array in values.items():
        scope.var(name).set(array)
    model._begin(scope)
    if requested:
        model._startup.request_all()


def _values(scope: ow.Scope, *programs: ow.Program) -> dict[str, Any]:
    """Return the persistable variables of programs in a scope, as NumPy arrays."""
    values = {}
    for program in programs:
        for variable in program.global_block().vars.values():
            value = scope.find_var(variable.name) if variable.persistable else None
            if value is not None and value.is_set:
                values[variable.name] = value.numpy()
    return values
