"""The Python function of one operator: a real signature before the runtime's eager operator."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

from opwright import _runtime
from opwright.describe.definition import OpDefinition
from opwright.describe.docstring import make_docstring, returns_on_request
from opwright.describe.names import hint_argument
from opwright.describe.op_proto import AttrProto, OpProto, VarProto
from opwright.errors import AttributeValueError, SlotError
from opwright.plugins.context import Context
from opwright.run.eager import EagerSource, Missing

RETURNS: Final = "returns"
"""The argument that selects outputs by name; a slot or attribute of this name has precedence."""

_TEMPLATE = """\
def {name}({parameters}**unknown):
    if unknown:
        return extend(unknown)({arguments})
    return call({arguments})
"""


def make_function(definition: OpDefinition, context: Context) -> Callable[..., Any]:
    """Return ``opwright.ops.NAME`` for an operator.

    Inputs are parameters by position or name, attributes by name only, with the defaults of the
    OpProto. The text is compiled, not interpreted: an argument is bound by the interpreter itself,
    which costs a tenth of binding it in Python. Calls by position do without even that.
    """
    proto = definition.proto
    call = EagerSource(definition, context).call
    namespace: dict[str, Any] = {
        "call": call,
        "extend": _Extension(definition, context),
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
    function.__signature__ = _signature(function, proto)  # type: ignore[attr-defined]
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


def _signature(function: Callable[..., Any], proto: OpProto) -> Any:
    """The signature as users shall see it: without the collector of unknown names."""
    import inspect

    signature = inspect.signature(function)
    parameters = [
        p.replace(default=p.empty) if p.default is Missing.VALUE else p
        for p in signature.parameters.values()
        if p.name != "unknown"
    ]
    if returns_on_request(proto):
        parameters.append(inspect.Parameter(RETURNS, inspect.Parameter.KEYWORD_ONLY, default=None))
    try:
        return signature.replace(parameters=parameters)
    except ValueError:  # a required input stands behind an optional one
        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        return signature.replace(parameters=shown)


class _Extension:
    """What keyword arguments beyond the operator's mean: ``returns``, and mistakes otherwise."""

    def __init__(self, definition: OpDefinition, context: Context) -> None:
        self._definition = definition
        self._context = context
        self._sources: dict[object, EagerSource] = {}

    def __call__(self, unknown: dict[str, Any]) -> Callable[..., Any]:
        """Return what to call with all arguments in order.

        Raises
        ------
        SlotError, AttributeValueError
            For a name that the operator does not have, naming the nearest.
        """
        for name in unknown:
            if name != RETURNS:
                self._reject(name)
        returns = unknown[RETURNS]
        is_one = isinstance(returns, str)
        key = returns if is_one or returns is None else tuple(returns)
        source = self._sources.get(key)
        if source is None:
            slots = None if key is None else self._slots((key,) if is_one else key)
            source = EagerSource(self._definition, self._context, slots)
            self._sources[key] = source
        return source.call if is_one or returns is None else _as_tuple(source)

    def _slots(self, names: tuple[Any, ...]) -> list[VarProto]:
        """The outputs of these names."""
        proto = self._definition.proto
        for name in names:
            if name not in proto.output_slots:
                raise SlotError(
                    f"{proto.type}: returns must name outputs, got {name!r}; "
                    f"outputs are {', '.join(map(repr, proto.output_slots))}"
                )
        if not names:
            raise SlotError(
                f"{proto.type}: returns must name at least one output, got none; "
                f"outputs are {', '.join(map(repr, proto.output_slots))}"
            )
        return [proto.output_slots[name] for name in names]

    def _reject(self, name: str) -> NoReturn:
        proto = self._definition.proto
        if name in proto.output_slots:
            outputs = ", ".join(proto.output_slots)
            raise SlotError(
                f"{proto.type}: outputs are returned, not given, got {name}=; "
                f"{outputs} is what it returns"
            )
        near = hint_argument(name, [*proto.input_slots, *proto.attr_protos])
        raise AttributeValueError(f"{proto.type}: unknown slot or attribute, got {name!r}{near}")


def _as_tuple(source: EagerSource) -> Callable[..., Any]:
    """What returns a tuple of one where one output is asked for in a list."""
    if not source.returns_one:
        return source.call
    return lambda *args: (source.call(*args),)
