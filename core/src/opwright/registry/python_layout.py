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
    named : tuple of str
        Those of them that the kernel names, all but what ``**attributes`` takes.
    """

    positional: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    attributes: tuple[str, ...]
    named: tuple[str, ...] = ()


class _Parameters:
    """The parameters of a kernel, sorted by their role in the operator."""

    def __init__(self, function: Callable[..., object], slots: list[str], attrs: list[str]) -> None:
        signature = inspect.signature(function)
        self.text = str(signature)
        self.by_position: list[str] = []
        self.keywords: list[str] = []
        self.attributes: list[str] = []
        self.unknown: list[str] = []
        has_args = self.has_kwargs = False
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                has_args = True
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.has_kwargs = True
            elif name in slots:
                # Attributes go by keyword, so whatever stands behind one cannot go by position.
                by_position = parameter.kind in _BY_POSITION and not self.attributes
                (self.by_position if by_position else self.keywords).append(name)
            elif name in attrs and parameter.kind is not parameter.POSITIONAL_ONLY:
                self.attributes.append(name)
            elif not (name.startswith("_") and parameter.default is not parameter.empty):
                self.unknown.append(name)
        if has_args:  # which take all other slots
            named = {*self.by_position, *self.keywords}
            self.by_position += [slot for slot in slots if slot not in named]


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
        The operator. Every slot must be taken but shape-only ones, and every attribute but those
        that were added later.
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
    slots = [slot.name for slot in (*proto.inputs, *proto.outputs)]
    attrs = [attr.name for attr in proto.attrs] if with_attributes else []
    name = getattr(function, "__name__", type(function).__name__)
    begin = f"{who or proto.type}: kernel"
    try:
        parameters = _Parameters(function, slots, attrs)
    except (TypeError, ValueError):
        raise RegistrationError(
            f"{begin} must have a signature that Python can read, got {function!r}; "
            "wrap it in a function"
        ) from None
    fault = _find_fault(parameters, proto, attrs, f"{name}{parameters.text}")
    if fault is not None:
        raise RegistrationError(f"{begin} {fault}")
    rest = attrs if parameters.has_kwargs else ()
    index = {slot: i for i, slot in enumerate(slots)}
    return PythonLayout(
        tuple(index[slot] for slot in parameters.by_position),
        tuple((slot, index[slot]) for slot in parameters.keywords),
        tuple(dict.fromkeys((*parameters.attributes, *rest))),
        tuple(parameters.attributes),
    )


def _find_fault(
    parameters: _Parameters, proto: OpProto, attrs: list[str], called: str
) -> str | None:
    """Return what is wrong with the parameters, after "kernel"; None for nothing."""
    taken = {*parameters.by_position, *parameters.keywords, *parameters.attributes}
    slots = (*proto.inputs, *proto.outputs)
    for name in parameters.unknown:
        free = [other for other in (*(slot.name for slot in slots), *attrs) if other not in taken]
        near = hint(name, free, "untaken slots and attributes")
        return (
            f"parameter must be a slot or attribute of the operator, got {name!r} in {called}{near}"
        )
    for slot in slots:
        if slot.name not in taken and not slot.shape_only:
            return (
                f"must take every slot, got {called} without {slot.name!r}; add the parameter "
                f"{slot.name!r}" + (" (absent is None)" if slot.optional else "")
            )
    for name in () if parameters.has_kwargs else attrs:
        if name not in taken and not proto.attr(name).added:
            return (
                f"must take every attribute, got {called} without {name!r}; add the keyword "
                f"{name!r}, or **attributes"
            )
    return None
