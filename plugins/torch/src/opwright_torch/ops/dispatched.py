"""Calls through PyTorch's dispatcher, in a form that Dynamo can trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opwright.errors import AttributeValueError, SlotError
from opwright.op import OpDefinition, VarProto
from opwright.runtime import Missing, hold, make_function
from opwright_torch.dtypes import dtype_name
from opwright_torch.ops.library import find_overloads

STEP = "step"


class _Arguments:
    """A substitute for `TorchSource`; `call` returns the requested outputs and its arguments."""

    def __init__(
        self,
        definition: OpDefinition,
        context: Any,
        returned: Sequence[VarProto] | None = None,
        as_tuple: bool = False,
    ) -> None:
        slots = list(returned or ())
        names = [slot.name for slot in slots]
        is_one = len(slots) == 1 and not as_tuple and not slots[0].duplicable
        self.call = lambda *args: (names, is_one, args)


def make_dispatched(definition: OpDefinition, context: Any) -> Callable[..., Any]:
    """Return a function of an operator that calls ``torch.ops.opwright.NAME``."""
    proto = definition.proto
    overloads = find_overloads(definition)
    bind = make_function(definition, context, _Arguments).__wrapped__  # type: ignore[attr-defined]
    n_inputs = len(proto.inputs)
    slots = [(slot.name, slot.optional, slot.duplicable) for slot in proto.inputs]
    ties = [[proto.inputs.index(other) for other in _tied(proto, slot)] for slot in proto.inputs]
    attr_names = [attr.name for attr in proto.attrs]
    required = [attr.name for attr in proto.attrs if attr.required]
    op_type = proto.type

    def dispatched(*args: Any, **named: Any) -> Any:
        names, is_one, given = bind(*args, **named)
        inputs = []
        for i in range(n_inputs):
            name, optional, duplicable = slots[i]
            value = given[i]
            if value is Missing.VALUE or (value is None and not optional):
                raise SlotError(f"{op_type}: input {name!r} is required, got none; pass {name}=")
            if value is not None and not duplicable and not isinstance(value, torch.Tensor):
                value = _as_tensor(f"{op_type}: {name}", value, [given[j] for j in ties[i]])
            inputs.append(value)
        for name in required:
            if named.get(name) is None:
                raise AttributeValueError(
                    f"{op_type}: attribute {name!r} is required, got none; pass {name}="
                )
        # The signature has no defaults, since Dynamo would treat float defaults as graph inputs.
        attrs = {name: named[name] for name in attr_names if named.get(name) is not None}
        if not names or overloads.returns is None:
            results = overloads.main(*inputs, **attrs)
            return results if isinstance(results, torch.Tensor) else tuple(results or ())
        results = overloads.returns(*inputs, returns=names, **attrs)
        return results[0] if is_one else tuple(results)

    return dispatched


def make_drawing(definition: OpDefinition, context: Any, run: Callable[..., Any]) -> Any:
    """Return the function of a random operator; it draws its step from PyTorch's generator.

    ``torch.manual_seed`` makes the results reproducible. An explicit step takes precedence.
    """
    proto = definition.proto
    bind = make_function(definition, context, _Arguments).__wrapped__  # type: ignore[attr-defined]
    place = list(proto.input_slots).index(STEP)
    attr_names = [attr.name for attr in proto.attrs]
    training = attr_names.index("training") if "training" in attr_names else None
    n_inputs = len(proto.inputs)

    def drawing(*args: Any, **named: Any) -> Any:
        _, _, given = bind(*args, **named)
        draws = training is None or given[n_inputs + training]
        if given[place] is not None or not draws:
            return run(*args, **named)
        tensors = [value for value in given[:n_inputs] if isinstance(value, torch.Tensor)]
        device = tensors[0].device if tensors else None
        step = torch.randint(2**62, (1,), device=device)
        if len(args) > place:
            return run(*args[:place], step, *args[place + 1 :], **named)
        named[STEP] = step
        return run(*args, **named)

    return drawing


def _tied(proto: Any, slot: VarProto) -> list[VarProto]:
    """Return the inputs that determine the dtype of a Python number in a slot."""
    root = slot.same_as or slot.name
    return [other for other in proto.inputs if (other.same_as or other.name) == root]


def _as_tensor(who: str, value: Any, beside: Sequence[Any]) -> torch.Tensor:
    """Convert a number or list to a tensor with the dtype of the other tensors."""
    like = [other for other in beside if isinstance(other, torch.Tensor)]
    if not like:
        return torch.as_tensor(value)
    _check_held(who, value, like[0].dtype)
    return torch.tensor(value, dtype=like[0].dtype, device=like[0].device)


@torch.compiler.assume_constant_result
def _check_held(who: str, value: Any, dtype: torch.dtype) -> bool:
    """Raise DtypeError if a dtype cannot represent a number."""
    hold(value, dtype_name(dtype), who, "the other tensor")
    return True
