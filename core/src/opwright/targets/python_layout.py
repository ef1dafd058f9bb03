"""Reads and checks the slots and attributes in the signature of a Python kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opwright.describe.definition import OpDefinition
from opwright.describe.op_proto import OpProto
from opwright.errors import RegistrationError
from opwright.messages.names import hint
from opwright.records import NamedTuple

if TYPE_CHECKING:
    from inspect import Signature


class PythonLayout(NamedTuple):
    """The slots, numbered in OpProto order, and attributes in the signature of a Python kernel.

    Attributes
    ----------
    positional : tuple of int
        Slots passed by position, in the order of the kernel; inputs are numbered before outputs, so
        output ``j`` is slot ``len(proto.inputs) + j``.
    keywords : tuple of (str, int)
        Slots passed by keyword.
    attributes : tuple of str
        Attributes passed as constant keywords, with None if absent.
    named : tuple of str
        The attributes that the kernel names, without those in ``**attributes``.
    """

    positional: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    attributes: tuple[str, ...]
    named: tuple[str, ...] = ()


def _sort_parameters(
    signature: Signature, slots: list[str], attrs: list[str]
) -> dict[str, list[str]]:
    """Return the parameter names of a kernel by their role in the operator."""
    roles = ("positions", "keywords", "attributes", "unknown", "args", "kwargs")
    names: dict[str, list[str]] = {role: [] for role in roles}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names["args"].append(name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            names["kwargs"].append(name)
        elif name in slots:
            # Attributes are keywords, so parameters after an attribute cannot be positional.
            by_position = parameter.kind is not parameter.KEYWORD_ONLY and not names["attributes"]
            names["positions" if by_position else "keywords"].append(name)
        elif name in attrs and parameter.kind is not parameter.POSITIONAL_ONLY:
            names["attributes"].append(name)
        elif not (name.startswith("_") and parameter.default is not parameter.empty):
            names["unknown"].append(name)
    if names["args"]:  # these take all other slots
        named = {*names["positions"], *names["keywords"]}
        names["positions"] += [slot for slot in slots if slot not in named]
    return names


def check_signature(
    function: Callable[..., object],
    definition: OpDefinition,
    *,
    who: str = "",
    with_attributes: bool = True,
) -> PythonLayout:
    """Check that a Python kernel accepts the arguments of its operator; return its layout.

    Parameters
    ----------
    function : callable
        ``def swish(x, out, *, beta)``, with named parameters, or ``*slots`` in OpProto order and
        ``**attributes``. A parameter with a leading underscore and a default is ignored.
    definition : OpDefinition
        The operator. All slots except shape-only slots must be accepted, and all attributes except
        those added later.
    who : str
        The name of the kernel in messages; by default the operator type.
    with_attributes : bool
        False for the result of ``prepare`` of a class kernel, which takes only slots.

    Raises
    ------
    RegistrationError
        The message names the first parameter that is missing or unknown.
    """
    import inspect  # takes 5 ms; compiled kernels need none of it

    proto = definition.proto
    slots = [slot.name for slot in (*proto.inputs, *proto.outputs)]
    attrs = [attr.name for attr in proto.attrs] if with_attributes else []
    name = getattr(function, "__name__", type(function).__name__)
    begin = f"{who or proto.type}: kernel"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise RegistrationError(
            f"{begin} must have a signature that Python can read, got {function!r}; "
            "wrap it in a function"
        ) from None
    names = _sort_parameters(signature, slots, attrs)
    fault = _find_fault(names, proto, attrs, f"{name}{signature}")
    if fault is not None:
        raise RegistrationError(f"{begin} {fault}")
    rest = attrs if names["kwargs"] else ()
    index = {slot: i for i, slot in enumerate(slots)}
    return PythonLayout(
        tuple(index[slot] for slot in names["positions"]),
        tuple((slot, index[slot]) for slot in names["keywords"]),
        tuple(dict.fromkeys((*names["attributes"], *rest))),
        tuple(names["attributes"]),
    )


def _find_fault(
    names: dict[str, list[str]], proto: OpProto, attrs: list[str], called: str
) -> str | None:
    """Return a fault of the parameters, as text to follow "kernel", or None."""
    taken = {*names["positions"], *names["keywords"], *names["attributes"]}
    slots = (*proto.inputs, *proto.outputs)
    for name in names["unknown"]:
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
    for name in () if names["kwargs"] else attrs:
        if name not in taken and not proto.attr(name).added:
            return (
                f"must take every attribute, got {called} without {name!r}; add the keyword "
                f"{name!r}, or **attributes"
            )
    return None
