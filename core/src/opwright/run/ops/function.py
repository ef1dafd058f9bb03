"""Creates the Python function of one operator, with its signature, around the eager operator."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from opwright import _runtime
from opwright.context.context import Context
from opwright.describe.definition import OpDefinition
from opwright.describe.docstring import make_docstring, returns_on_request
from opwright.describe.op_proto import AttrProto, OpProto, VarProto
from opwright.errors import AttributeValueError, SlotError
from opwright.messages.names import hint_argument
from opwright.run.eager import EagerSource, Missing

RETURNS: Final = "returns"
"""The argument that selects outputs by name; a slot or attribute of this name has precedence."""

_TEMPLATE = """\
def {name}({parameters}**UNKNOWN):
    if UNKNOWN:
        return EXTEND(UNKNOWN)({arguments})
    return CALL({arguments})
"""


def make_function(
    definition: OpDefinition, context: Context, make_source: Callable[..., Any] = EagerSource
) -> Callable[..., Any]:
    """Return ``opwright.ops.NAME`` for an operator.

    Inputs are passed by position or name, and attributes only by name, with defaults from the
    OpProto. The function is compiled from source text, so the interpreter itself binds the
    arguments, ten times as fast as Python code could. Calls by position skip even the binding. All
    arguments are passed, in order, to ``call`` of the source that `make_source` returns.
    """
    proto = definition.proto
    call = make_source(definition, context).call
    namespace: dict[str, Any] = {
        "CALL": call,  # in capitals, which slots and attributes cannot have
        "EXTEND": partial(_extend, partial(make_source, definition, context), proto, {}),
        "MISSING": Missing.VALUE,
        "inf": math.inf,
        "nan": math.nan,
    }
    name = proto.type.rpartition(".")[2]
    exec(_source(name, proto), namespace)  # the text contains only checked identifiers and literals
    function: Callable[..., Any] = namespace[name]
    function.__doc__ = make_docstring(definition)
    function.__qualname__ = proto.type
    function.__module__ = "opwright.ops"
    function.__signature__ = _signature(function, proto)  # type: ignore[attr-defined]
    bind = function
    if definition.deprecated:
        bind = lambda *args, **given: function(*args, **definition.rename(given))  # noqa: E731
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    quick = _runtime.EagerFunction(call, bind, defaults, len(proto.inputs))
    return functools.update_wrapper(quick, function)


def _source(name: str, proto: OpProto) -> str:
    inputs = [slot.name for slot in proto.inputs]
    parameters = "".join(
        f"{slot.name}={'None' if slot.optional else 'MISSING'}, " for slot in proto.inputs
    )
    if proto.attrs:
        parameters += "*, " + "".join(f"{attr.name}={_default(attr)}, " for attr in proto.attrs)
    arguments = ", ".join([*inputs, *(attr.name for attr in proto.attrs)])
    return _TEMPLATE.format(name=name, parameters=parameters, arguments=arguments)


def _default(attr: AttrProto) -> str:
    if attr.has_default:
        return repr(attr.default)
    return "MISSING" if attr.required else "None"


def _signature(function: Callable[..., Any], proto: OpProto) -> Any:
    """Return the signature for users, without the parameter for unknown names."""
    import inspect

    signature = inspect.signature(function)
    parameters = [
        p.replace(default=p.empty) if p.default is Missing.VALUE else p
        for p in signature.parameters.values()
        if p.name != "UNKNOWN"
    ]
    if returns_on_request(proto):
        parameters.append(inspect.Parameter(RETURNS, inspect.Parameter.KEYWORD_ONLY, default=None))
    try:
        return signature.replace(parameters=parameters)
    except ValueError:  # a required input follows an optional one
        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        return signature.replace(parameters=shown)


def _extend(
    make_source: Callable[..., Any],
    proto: OpProto,
    calls: dict[object, Callable[..., Any]],
    unknown: dict[str, Any],
) -> Callable[..., Any]:
    """Return the callable for a call with keyword arguments that the operator lacks.

    ``returns`` is accepted, with one cached call per value in `calls`; other names raise an error.
    """
    for name in unknown:
        if name != RETURNS:
            _reject(proto, name)
    returns = unknown[RETURNS]
    is_list = not (isinstance(returns, str) or returns is None)
    key = tuple(returns) if is_list else returns
    call = calls.get(key)
    if call is None:
        slots = None if key is None else _returned_slots(proto, key if is_list else (key,))
        call = calls[key] = make_source(slots, is_list).call
    return call


def _returned_slots(proto: OpProto, names: tuple[Any, ...]) -> list[VarProto]:
    outputs = ", ".join(map(repr, proto.output_slots))
    for name in names:
        if name not in proto.output_slots:
            raise SlotError(
                f"{proto.type}: returns must name outputs, got {name!r}; outputs are {outputs}"
            )
    if not names:
        raise SlotError(
            f"{proto.type}: returns must name at least one output, got none; outputs are {outputs}"
        )
    return [proto.output_slots[name] for name in names]


def _reject(proto: OpProto, name: str) -> NoReturn:
    if name in proto.output_slots:
        outputs = ", ".join(proto.output_slots)
        raise SlotError(
            f"{proto.type}: outputs are returned, not given, got {name}=; {outputs} is its result"
        )
    near = hint_argument(name, [*proto.input_slots, *proto.attr_protos])
    raise AttributeValueError(f"{proto.type}: unknown slot or attribute, got {name!r}{near}")
