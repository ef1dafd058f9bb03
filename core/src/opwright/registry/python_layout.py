"""Reads and checks how a Python kernel takes slots and attributes, from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from opwright.describe.definition import OpDefinition
from opwright.describe.names import hint
from opwright.describe.op_proto import OpProto
from opwright.errors import RegistrationError

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class PythonLayout(NamedTuple):
    """Where a Python kernel takes each slot and attribute. Slots are counted in OpProto order.

    Attributes
    ----------
    positional : tuple of int
        Slots passed by position, in the kernel's own order; inputs come before outputs in the
        count, so output ``j`` is slot ``len(proto.inputs) + j``.
    keywords : tuple of (str, int)
        Slots passed by keyword.
    attributes : tuple of str
        Attributes passed as constant keywords, None where absent.
    """

    positional: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    attributes: tuple[str, ...]


class _Parameters:
    """The parameters of a kernel, sorted by their role in the operator."""

    def __init__(self, function: Callable[..., object], slots: list[str], attrs: list[str]) -> None:
        signature = inspect.signature(function)
        self.text = str(signature)
        self.by_position: list[str] = []
        self.keywords: list[str] = []
        self.attributes: list[str] = []
        self.unknown: list[str] = []
        self.has_args = self.has_kwargs = False
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.has_args = True
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.has_kwargs = True
            elif name in slots:
                self._add_slot(name, parameter)
            elif name in attrs and parameter.kind is not parameter.POSITIONAL_ONLY:
                self.attributes.append(name)
            elif not (name.startswith("_") and parameter.default is not parameter.empty):
                self.unknown.append(name)

    def _add_slot(self, name: str, parameter: inspect.Parameter) -> None:
        # Attributes go by keyword, so whatever stands behind one cannot go by position.
        if parameter.kind in _BY_POSITION and not self.attributes:
            self.by_position.append(name)
        else:
            self.keywords.append(name)


def check_signature(
    function: Callable[..., object],
    definition: OpDefinition,
    *,
    who: str = "",
    with_attributes: bool = True,
) -> PythonLayout:
    """Check that a Python kernel takes what its operator has, and return how.

    Parameters
    ----------
    function : callable
        ``def swish(x, out, *, beta)``: named parameters, or ``*slots`` in OpProto order and
        ``**attributes``. A parameter with a leading underscore and a default is ignored.
    definition : OpDefinition
        The operator. Every slot must be taken but shape-only ones, and every attribute.
    who : str
        The kernel in messages; by default the operator type.
    with_attributes : bool
        False for what ``prepare`` of a class kernel returned: it takes slots alone.

    Raises
    ------
    RegistrationError
        Naming the first parameter that is missing or unknown.
    """
    proto = definition.proto
    who = who or proto.type
    slots = [slot.name for slot in (*proto.inputs, *proto.outputs)]
    attrs = [attr.name for attr in proto.attrs] if with_attributes else []
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = _Parameters(function, slots, attrs)
    except (TypeError, ValueError):
        raise RegistrationError(
            f"{who}: kernel must have a signature that Python can read, got {function!r}; "
            "wrap it in a function"
        ) from None
    called = f"{name}{parameters.text}"
    _check_unknown(parameters, [*slots, *attrs], called, who)
    by_position = _add_rest(parameters, slots)
    _check_slots(proto, {*by_position, *parameters.keywords}, called, who)
    attributes = _check_attributes(parameters, attrs, called, who)
    index = {slot: i for i, slot in enumerate(slots)}
    return PythonLayout(
        tuple(index[slot] for slot in by_position),
        tuple((slot, index[slot]) for slot in parameters.keywords),
        attributes,
    )


def _check_unknown(parameters: _Parameters, known: list[str], called: str, who: str) -> None:
    for name in parameters.unknown:
        taken = {*parameters.by_position, *parameters.keywords, *parameters.attributes}
        free = [other for other in known if other not in taken]
        raise RegistrationError(
            f"{who}: kernel parameter must be a slot or attribute of the operator, "
            f"got {name!r} in {called}{hint(name, free, 'untaken slots and attributes')}"
        )


def _add_rest(parameters: _Parameters, slots: list[str]) -> list[str]:
    """Return the slots passed by position: those named, then for ``*args`` all others."""
    if not parameters.has_args:
        return parameters.by_position
    named = {*parameters.by_position, *parameters.keywords}
    return parameters.by_position + [slot for slot in slots if slot not in named]


def _check_slots(proto: OpProto, taken: set[str], called: str, who: str) -> None:
    for slot in (*proto.inputs, *proto.outputs):
        if slot.name not in taken and not slot.shape_only:
            raise RegistrationError(
                f"{who}: kernel must take every slot, got {called} without {slot.name!r}; "
                f"add the parameter {slot.name!r}" + (" (absent is None)" if slot.optional else "")
            )


def _check_attributes(
    parameters: _Parameters, attrs: list[str], called: str, who: str
) -> tuple[str, ...]:
    missing = [name for name in attrs if name not in parameters.attributes]
    if not missing or parameters.has_kwargs:
        return (*parameters.attributes, *missing)
    raise RegistrationError(
        f"{who}: kernel must take every attribute, got {called} without {missing[0]!r}; "
        f"add the keyword {missing[0]!r}, or **attributes"
    )
