"""Declares optimizers as dataclasses, whose fields are the attributes of their operators."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, TypeVar, dataclass_transform

import opwright as ow
from opwright.errors import AttributeValueError
from opwright.op import AttrProto, AttrType
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import OPTIMIZER_ARGUMENTS

T = TypeVar("T")

_COMMON = ("learning_rate", "regularizer", "clip")
"""The arguments of every optimizer, which are not attributes."""


@dataclass_transform(eq_default=False)
def declare(cls: type[T]) -> type[T]:
    """Make a class an optimizer whose fields are attributes of the operator `op_type`.

    The fields are the constructor's arguments; the operator's description has their types and
    ranges, unless `within` declares a narrower range. The options of all optimizers come last.
    """
    constructor: Any = dataclasses.dataclass(eq=False, repr=False)(cls).__init__
    signature = inspect.signature(constructor)
    parameters = dict(signature.parameters)
    parameters["learning_rate"] = parameters["learning_rate"].replace(annotation="Rate")
    common = [parameters.pop(name) for name in _COMMON[1:]]
    constructor.__signature__ = signature.replace(parameters=[*parameters.values(), *common])
    arguments.answer(cls, OPTIMIZER_ARGUMENTS)
    return cls


def within(default: float, **bounds: float) -> Any:
    """Return a dataclass field with its own range; the bounds are as for `checks.check_float`."""
    return dataclasses.field(default=default, metadata=bounds)


def find_attributes(optimizer: Any) -> dict[str, Any]:
    """Return the fields of an optimizer that are attributes of its operator."""
    known = {attr.name for attr in ow.op_proto(optimizer.op_type).attrs}
    names = [field.name for field in dataclasses.fields(optimizer) if field.name in known]
    return {name: getattr(optimizer, name) for name in names}


def check_fields(optimizer: Any) -> None:
    """Check the fields of an optimizer and convert them to plain numbers and bools."""
    _check_read(optimizer)
    _check_defaults(optimizer)
    who = type(optimizer).__name__
    rules = {attr.name: attr for attr in ow.op_proto(optimizer.op_type).attrs}
    for field in dataclasses.fields(optimizer):
        name, rule = field.name, rules.get(field.name)
        if field.metadata:
            value: Any = checks.check_float(who, name, getattr(optimizer, name), **field.metadata)
        elif rule is not None and rule.type is AttrType.FLOAT:
            value = checks.check_float(who, name, getattr(optimizer, name), **_bounds(rule))
        elif rule is not None and rule.type is AttrType.BOOL:
            value = checks.check_bool(who, name, getattr(optimizer, name))
        else:
            continue
        setattr(optimizer, name, value)


def _check_read(optimizer: Any) -> None:
    """Raise for a field that neither the operator nor a state reads, such as a misspelt field."""
    attrs = [attr.name for attr in ow.op_proto(optimizer.op_type).attrs]
    read = {*_COMMON, *attrs, *(state.value for state in optimizer.own_states)}
    unread = {f.name for f in dataclasses.fields(optimizer) if f.init} - read
    for cls in type(optimizer).__mro__:
        if vars(cls).keys() & {"attrs", "states"}:
            return  # They may read the fields of this class and of its bases.
        for name in inspect.get_annotations(cls).keys() & unread:
            raise AttributeValueError(
                f"{cls.__name__}: a field must be an attribute of the operator "
                f"{optimizer.op_type} or the value of a state, got {name!r}; its attributes are "
                f"{', '.join(map(repr, attrs))}"
            )


def _check_defaults(optimizer: Any) -> None:
    """Raise for a class that assigns a default to a field without redeclaring it."""
    names = [field.name for field in dataclasses.fields(optimizer) if field.init]
    for cls in type(optimizer).__mro__:
        is_declared = "__dataclass_fields__" in vars(cls)
        if "__init__" in vars(cls) and not is_declared:
            continue  # Its own constructor may pass them.
        known = inspect.get_annotations(cls) if is_declared else {}
        for name in names:
            if name in vars(cls) and name not in known:
                raise AttributeValueError(
                    f"{cls.__name__}: a new default of {name} must be declared, since the "
                    f"constructor ignores undeclared defaults, got {vars(cls)[name]!r}; write "
                    f"@declare above the class and annotate {name}, or pass it to super().__init__"
                )


def _bounds(rule: AttrProto) -> dict[str, Any]:
    """Return the range of an attribute in the form for `checks.check_float`."""
    low = "above" if rule.min_exclusive else "at_least"
    high = "below" if rule.max_exclusive else "at_most"
    return {low: rule.min, high: rule.max}
