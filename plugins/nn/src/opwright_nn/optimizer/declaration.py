"""Declares optimizers as dataclasses, whose fields are the attributes of their operators."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, TypeVar, dataclass_transform

import opwright as ow
from opwright.op import AttrProto, AttrType
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import OPTIMIZER_ARGUMENTS

T = TypeVar("T")


@dataclass_transform(eq_default=False)
def declare(cls: type[T]) -> type[T]:
    """Make an optimizer of a class: its fields are attributes of the operator `op_type`.

    The constructor takes the fields; the operator's description has their types and ranges, unless
    `within` declares a narrower one. The options of all optimizers come last.
    """
    constructor: Any = dataclasses.dataclass(eq=False, repr=False)(cls).__init__
    signature = inspect.signature(constructor)
    parameters = dict(signature.parameters)
    parameters["learning_rate"] = parameters["learning_rate"].replace(annotation="Rate")
    common = [parameters.pop(name) for name in ("regularizer", "clip")]
    constructor.__signature__ = signature.replace(parameters=[*parameters.values(), *common])
    arguments.answer(cls, OPTIMIZER_ARGUMENTS)
    return cls


def within(default: float, **bounds: float) -> Any:
    """Return a field with a range of its own, with bounds as `checks.check_float` takes them."""
    return dataclasses.field(default=default, metadata=bounds)


def find_attributes(optimizer: Any) -> dict[str, Any]:
    """Return the fields of an optimizer that are attributes of its operator."""
    known = {attr.name for attr in ow.op_proto(optimizer.op_type).attrs}
    names = [field.name for field in dataclasses.fields(optimizer) if field.name in known]
    return {name: getattr(optimizer, name) for name in names}


def check_fields(optimizer: Any) -> None:
    """Convert the fields of an optimizer to plain numbers and bools, or raise for one."""
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


def _bounds(rule: AttrProto) -> dict[str, Any]:
    """Return the range of an attribute as `checks.check_float` takes it."""
    low = "above" if rule.min_exclusive else "at_least"
    high = "below" if rule.max_exclusive else "at_most"
    return {low: rule.min, high: rule.max}
