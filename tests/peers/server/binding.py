"""Converts an opwright operator to the arguments of a peer function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch_operators.convert import NotExpressibleError


def bind(
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any],
    defaults: Mapping[str, Any],
    n_outputs: int,
) -> dict[str, Any]:
    """Return the arguments of a function.

    Parameters
    ----------
    function : callable
        A function in the table of a peer.
    inputs : mapping
        By slot.
    attrs, defaults : mapping
        All attributes, with defaults of optional ones.
    n_outputs : int
        The number of variables of the first output slot.

    Raises
    ------
    NotExpressibleError
        If the function lacks an input or an attribute that is not its default.
    """
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name for p in parameters}
    if not takes_all and not known.issuperset(inputs):
        raise NotExpressibleError(f"the inputs {sorted(set(inputs) - known)}")
    arguments = dict(inputs)
    for name, value in attrs.items():
        if takes_all or name in known:
            arguments[name] = value
        elif name not in defaults or value != defaults[name]:
            raise NotExpressibleError(f"{name}={value!r}")
    if "n_outputs" in known:
        arguments["n_outputs"] = n_outputs
    return arguments
