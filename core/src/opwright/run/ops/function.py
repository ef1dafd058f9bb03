"""The Python function of one operator: a real signature before the runtime's eager operator."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.describe.definition import OpDefinition
from opwright.describe.docstring import make_docstring
from opwright.describe.names import hint
from opwright.describe.op_proto import AttrProto, OpProto
from opwright.errors import AttributeValueError, SlotError
from opwright.run.eager import EagerSource, Missing

if TYPE_CHECKING:
    from opwright.plugins.context import Context

_TEMPLATE = """\
def {name}({parameters}**unknown):
    if unknown:
        reject(unknown)
    return call({arguments})
"""


def make_function(definition: OpDefinition, context: Context) -> Callable[..., Any]:
    """Return ``opwright.ops.NAME`` for an operator.

    Inputs are parameters by position or name, attributes by name only, with the defaults of the
    OpProto. The text is compiled, not interpreted: an argument is bound by the interpreter itself,
    which costs a tenth of binding it in Python. Calls by position do without even that.
    """
    proto = definition.proto
    call = EagerSource(definition, context).eager
    namespace: dict[str, Any] = {
        "call": call,
        "reject": _Rejecter(proto),
        "MISSING": Missing.VALUE,
        "inf": math.inf,
        "nan": math.nan,
    }
    name = proto.type.rpartition(".")[2]
    exec(_source(name, proto), namespace)  # the text is made of checked identifiers and literals
    function: Callable[..., Any] = namespace[name]
    function.__doc__ = make_docstring(definition)
    function.__qualname__ = proto.type
    function.__module__ = "opwright.ops"
    function.__signature__ = _signature(function)  # type: ignore[attr-defined]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    quick = _runtime.EagerFunction(call, function, defaults, len(proto.inputs))
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


def _signature(function: Callable[..., Any]) -> Any:
    """The signature as users shall see it: without the collector of unknown names."""
    import inspect

    signature = inspect.signature(function)
    parameters = [
        p.replace(default=p.empty) if p.default is Missing.VALUE else p
        for p in signature.parameters.values()
        if p.name != "unknown"
    ]
    try:
        return signature.replace(parameters=parameters)
    except ValueError:  # a required input stands behind an optional one
        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        return signature.replace(parameters=shown)


class _Rejecter:
    """Raises for keyword arguments that the operator does not have."""

    def __init__(self, proto: OpProto) -> None:
        self._proto = proto

    def __call__(self, unknown: dict[str, Any]) -> None:
        proto = self._proto
        name = next(iter(unknown))
        known = [*proto.input_slots, *proto.attr_protos]
        near = hint(name, known)
        outputs = ", ".join(proto.output_slots)
        if name in proto.output_slots:
            raise SlotError(
                f"{proto.type}: outputs are returned, not given, got {name}=; "
                f"{outputs} is what it returns"
            )
        raise AttributeValueError(f"{proto.type}: unknown slot or attribute, got {name!r}{near}")
