"""Registers every operator as ``torch.ops.opwright.NAME`` in PyTorch's dispatcher.

An operator with a prefix has its own namespace: ``acme.swish`` is ``opwright_acme::swish``.
Inputs are passed by position, attributes by name, with the types of the OpProto; sizes can be
symbolic. ``opwright::NAME.returns`` is called with the names of outputs and returns a list. All
programs use one operator, ``opwright::_program``, with the program as a string. All gradients use
another operator, ``opwright::_vjp``, with the differentiated call as a string.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Final, NamedTuple

import torch
from torch.library import Library, get_ctx, register_fake, register_vmap

import opwright as ow
from opwright.errors import RegistrationError
from opwright.op import (
    AttrProto,
    AttrType,
    Meta,
    OpDefinition,
    OpProto,
    VarProto,
    returns_on_request,
)
from opwright.runtime import EagerSource
from opwright_torch.dtypes import as_torch, dtype_name, torch_dtype
from opwright_torch.ops.calls import (
    Call,
    Vjp,
    What,
    Whole,
    flatten,
    unflatten,
    with_sizes,
    write,
)
from opwright_torch.ops.casting import cast_inputs
from opwright_torch.ops.transforms import is_followed, record_traced, run_batch, take_sizes

_TYPES: Final = {
    AttrType.INT: "int",
    AttrType.FLOAT: "float",
    AttrType.STRING: "str",
    AttrType.BOOL: "bool",
}
VJP: Final = "opwright::_vjp"
WHOLE: Final = "opwright::_program"
_AUTOCAST: Final = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda"}


class Overloads(NamedTuple):
    """The overloads of an operator in the dispatcher."""

    type: str
    schemas: tuple[str, ...]
    main: Any
    returns: Any | None


# The dispatcher is global, so its libraries and overloads are global too.
libraries: Final[dict[str, Library]] = {}
_overloads: Final[dict[str, Overloads]] = {}
_defining: Final = Lock()


def torch_name(op_type: str) -> str:
    """Return ``opwright::NAME``, or ``opwright_acme::swish`` for ``acme.swish``."""
    *prefix, name = op_type.split(".")
    return f"{'_'.join(['opwright', *prefix])}::{name}"


def find_overloads(definition: OpDefinition) -> Overloads:
    """Return the overloads of an operator, defined at first use."""
    proto = definition.proto
    qualified = torch_name(proto.type)
    schemas = tuple(_schemas(proto))
    with _defining:
        known = _overloads.get(qualified)
        if known is None:
            known = _overloads[qualified] = _define(proto, qualified, schemas)
    if (known.type, known.schemas) != (proto.type, schemas):
        raise RegistrationError(
            f"{proto.type}: {qualified} must be registered only once per process, got "
            "different slots or attributes than before; start a new process"
        )
    return known


def find_type(overload: Any) -> str:
    """Return the operator type of an opwright overload."""
    return _overloads[overload._schema.name].type


def define_operators() -> None:
    """Define ``torch.ops.opwright.NAME`` for every discovered operator.

    Otherwise an operator is defined at the first use of ``opwright_torch.ops.NAME``. Programs read
    by ``torch.export.load``, and code that uses ``torch.ops.opwright.NAME``, need the definitions
    earlier.

    Raises
    ------
    RegistrationError
        If PyTorch has an operator of the same name with different slots or attributes.
    """
    ops = ow.current_context().ops
    for op_type in ops.types():
        definition = ops.get(op_type)
        if not definition.plan_only and not definition.proto.has_blocks:
            find_overloads(definition)


def _schemas(proto: OpProto) -> list[str]:
    name = torch_name(proto.type).partition("::")[2]
    inputs = [_input_text(proto, slot) for slot in proto.inputs]
    attrs = [_attr_text(attr) for attr in proto.attrs]
    results = "Tensor[]"
    listed = [slot for slot in proto.outputs if not slot.intermediate]
    if not any(slot.duplicable or (slot.aliases and slot.optional) for slot in listed):
        n = sum(not slot.optional for slot in listed)
        results = "Tensor" if n == 1 else f"({', '.join(['Tensor'] * n)})"
    main = f"{name}({', '.join([*inputs, *(['*'] if attrs else []), *attrs])}) -> {results}"
    if not returns_on_request(proto):
        return [main]
    more = ", ".join([*inputs, "*", "str[] returns", *attrs])
    return [main, f"{name}.returns({more}) -> Tensor[]"]


def _input_text(proto: OpProto, slot: VarProto) -> str:
    text = ("Tensor[]" if slot.duplicable else "Tensor") + ("?" if slot.optional else "")
    place = proto.inputs.index(slot)
    is_last = all(other.optional for other in proto.inputs[place:])
    return f"{text} {slot.name}" + ("=None" if is_last else "")


def _attr_text(attr: AttrProto) -> str:
    text = _TYPES[attr.type.element]
    if attr.operand and text == "int":
        text = "SymInt"
    text += "[]" if attr.type.is_list else ""
    if attr.required:
        return f"{text} {attr.name}"
    default = _default_text(attr.default)
    return f"{text} {attr.name}={default}" if default else f"{text}? {attr.name}=None"


def _default_text(value: Any) -> str:
    """Return a default in schema syntax, or '' if it cannot be expressed."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default_text, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return repr(value)


def _define(proto: OpProto, qualified: str, schemas: Sequence[str]) -> Overloads:
    namespace, _, name = qualified.partition("::")
    library = libraries.setdefault(namespace, Library(namespace, "FRAGMENT"))
    packet: Any = None
    for schema in schemas:
        library.define(schema)
        packet = getattr(getattr(torch.ops, namespace), name)
        full = schema.partition("(")[0]
        overload = getattr(packet, full.partition(".")[2] or "default")
        kernels = _Kernels(proto.type, overload)
        implement(library, f"{namespace}::{full}", kernels)
        for key, device_type in _AUTOCAST.items():
            library.impl(full, partial(kernels.cast, key, device_type), key)
    return Overloads(
        proto.type, tuple(schemas), packet.default, packet.returns if len(schemas) > 1 else None
    )


def implement(library: Library, qualified: str, kernels: Any) -> None:
    """Register the implementations of an overload."""
    name = qualified.partition("::")[2]
    library.impl(name, kernels.compute, "CompositeExplicitAutograd")
    library.impl(name, kernels.record, "Autograd")
    register_fake(qualified, kernels.fake, lib=library)
    register_vmap(qualified, kernels.batch, lib=library)


class _Bound(NamedTuple):
    """The arguments of a call from the dispatcher."""

    definition: OpDefinition
    inputs: list[Any]  # by slot
    attrs: list[Any]  # in OpProto order, None if absent
    returned: tuple[str, ...]


class _Kernels:
    """The implementations of one overload."""

    def __init__(self, op_type: str, overload: Any) -> None:
        self._type, self._overload = op_type, overload

    def _bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> _Bound:
        definition = ow.current_context().ops.get(self._type)
        proto = definition.proto
        inputs = [*args, *[None] * (len(proto.inputs) - len(args))]
        attrs = [named.get(attr.name) for attr in proto.attrs]
        filled = [
            attr.default if value is None and attr.has_default else value
            for attr, value in zip(proto.attrs, attrs, strict=True)
        ]
        returned = tuple(named.get("returns") or main_outputs(proto, inputs))
        return _Bound(definition, inputs, filled, returned)

    def _result(self, results: Sequence[Any]) -> Any:
        returns = self._overload._schema.returns
        if not returns:
            return None
        if len(returns) == 1 and isinstance(returns[0].type, torch.TensorType):
            return results[0]
        return list(results) if len(returns) == 1 else tuple(results)

    def compute(self, *args: Any, **named: Any) -> Any:
        """Run the operator directly."""
        bound = self._bind(args, named)
        context = ow.current_context()
        source = _find_source(context, self._type, bound.returned)
        return self._result(as_torch(source.call(*bound.inputs, *bound.attrs)))

    def fake(self, *args: Any, **named: Any) -> Any:
        """Return empty tensors with the shapes that the shape rule infers; they can be symbolic."""
        bound = self._bind(args, named)
        return self._result(infer(bound.definition, bound.inputs, bound.attrs, bound.returned))

    def record(self, *args: Any, **named: Any) -> Any:
        """Run the operator with autograd."""
        tensors, counts = flatten(args)
        if is_followed(tensors):
            bound = self._bind(args, named)
            tensors, counts = flatten(bound.inputs)
            call = Call(self._type, counts, tuple(bound.attrs), bound.returned)
            what, sizes = take_sizes(call)
            return self._result(record_traced(execute, what, sizes, *tensors))
        with torch._C._AutoDispatchBelowAutograd():
            return self._overload(*args, **named)

    def batch(self, info: Any, in_dims: Any, *args: Any, **named: Any) -> Any:
        """Run the operator on a batch of `torch.func.vmap`."""
        bound = self._bind(args, named)
        tensors, counts = flatten(bound.inputs)
        dims, _ = flatten([d for d, v in zip(in_dims, args, strict=True) if v is not None])
        what, sizes = take_sizes(Call(self._type, counts, tuple(bound.attrs), bound.returned))
        results, out_dims = run_batch(
            lambda *values: execute(what, sizes, values), what, tensors, dims, info.batch_size
        )
        return self._result(results), self._result(out_dims)

    def cast(self, key: str, device_type: str, *args: Any, **named: Any) -> Any:
        """Run the operator on inputs cast by autocast."""
        bound = self._bind(args, named)
        inputs = cast_inputs(bound.definition.proto, bound.inputs, device_type)
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return self._overload(*inputs, **named)


def main_outputs(proto: OpProto, inputs: Sequence[Any]) -> list[str]:
    """Return the default outputs of a call, including optional state if it is given."""
    given = {s.name for s, v in zip(proto.inputs, inputs, strict=True) if v is not None}
    return [
        slot.name
        for slot in proto.outputs
        if not slot.intermediate and (not slot.optional or slot.aliases in given)
    ]


@lru_cache(maxsize=1024)
def _find_source(context: Any, op_type: str, returned: tuple[str, ...]) -> EagerSource:
    definition = context.ops.get(op_type)
    slots = [definition.proto.output_slots[name] for name in returned]
    return EagerSource(definition, context, slots, as_tuple=True, detach=True)


def infer(
    definition: OpDefinition, inputs: Sequence[Any], attrs: Sequence[Any], returned: Sequence[str]
) -> list[torch.Tensor]:
    """Return empty tensors for the outputs of an operator."""
    proto = definition.proto
    tensors, _ = flatten(inputs)
    metas = tuple(
        tuple(Meta(tuple(t.shape), dtype_name(t.dtype)) for t in flatten([value])[0])
        for value in inputs
    )
    given = {a.name: v for a, v in zip(proto.attrs, attrs, strict=True) if v is not None}
    filled = proto.fill_attrs({name: _hint(value) for name, value in given.items()})
    filled.update({name: _freeze(v) for name, v in given.items() if _hint(v) is not v})
    counts = list(definition.output_counts(metas, filled))
    for i, slot in enumerate(proto.outputs):
        if slot.optional and not slot.aliases and slot.name in returned:
            counts[i] = 1
    outputs = definition.infer(metas, filled, tuple(counts))
    device = tensors[0].device if tensors else torch.device("cpu")
    by_slot = dict(zip(proto.output_slots, outputs, strict=True))
    return [empty_like(meta, device) for name in returned for meta in by_slot[name]]


def empty_like(meta: Any, device: torch.device) -> torch.Tensor:
    """Return an empty tensor of a meta or Variable; unknown sizes become symbols."""
    shape = [get_ctx().new_dynamic_size() if _is_unknown(dim) else dim for dim in meta.shape]
    return torch.empty(shape, dtype=torch_dtype(meta.dtype), device=device)


def _is_unknown(dim: Any) -> bool:
    return isinstance(dim, int) and dim < 0


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _hint(value: Any) -> Any:
    """Replace symbolic sizes in an attribute by numbers; return other attributes unchanged."""
    if isinstance(value, (list, tuple)):
        hints = [_hint(item) for item in value]
        return hints if any(a is not b for a, b in zip(hints, value, strict=True)) else value
    if isinstance(value, torch.SymInt):
        return value.node.hint if value.node.has_hint() else 1
    return value


def execute(
    what: What, sizes: Sequence[Any], values: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Run a call or gradients through the dispatcher."""
    if isinstance(what, Vjp):
        return tuple(torch.ops.opwright._vjp(list(values), list(sizes), write(what)))
    if isinstance(what, Whole):
        return tuple(torch.ops.opwright._program(list(values), write(what)))
    definition = ow.current_context().ops.get(what.type)
    proto, overloads = definition.proto, find_overloads(definition)
    inputs = unflatten(proto, what.counts, values)
    attrs = zip(proto.attrs, with_sizes(what.attrs, sizes), strict=True)
    named = {attr.name: _listed(value) for attr, value in attrs if value is not None}
    if overloads.returns is None or what.returned == tuple(main_outputs(proto, inputs)):
        results = overloads.main(*inputs, **named)
    else:
        results = overloads.returns(*inputs, returns=list(what.returned), **named)
    return (results,) if isinstance(results, torch.Tensor) else tuple(results or ())


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
