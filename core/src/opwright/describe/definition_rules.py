"""The rules for the functions and properties of an operator besides its OpProto."""

from __future__ import annotations

from typing import NoReturn

from opwright.describe.definition import NoGradient, OpDefinition
from opwright.describe.gradient_rules import GradOp
from opwright.describe.proto_rules import check_control, check_count_outputs, check_random
from opwright.errors import RegistrationError


def check_definition(definition: OpDefinition) -> None:
    """Raise RegistrationError where functions, random numbers or control flow break a rule."""
    for word in ("infer_shape", "gradient", "body", "upgrade", "count_outputs"):
        function = getattr(definition, word)
        optional = word != "infer_shape" and function is None
        if not (optional or callable(function) or isinstance(function, NoGradient)):
            _fail(definition, f"{word} must be a function, got {function!r}")
    gradient = definition.gradient
    if isinstance(gradient, GradOp):
        gradient.check(definition.proto)
    elif isinstance(gradient, NoGradient) and not gradient.reason.strip():
        _fail(definition, "no_gradient must say why there is none, got no reason")
    if definition.random:
        check_random(definition.proto)
    if definition.control is not None:
        check_control(definition.proto, definition.control)
    if definition.count_outputs is not None:
        check_count_outputs(definition.proto)
    rules = (definition.gradient, definition.body, definition.control, definition.upgrade)
    if definition.plan_only and rules != (None,) * len(rules):
        _fail(definition, "plan_only excludes gradient, body, control and upgrade, got one")


def _fail(definition: OpDefinition, message: str) -> NoReturn:
    raise RegistrationError(f"{definition.op_type}: {message}")
