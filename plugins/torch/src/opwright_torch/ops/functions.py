"""The functions `opwright_torch.ops.NAME`. Each function chooses how to run a call.

Without autograd, the runtime computes the call directly; with autograd, `Recorded` does. While
PyTorch traces or transforms, the call goes through ``torch.ops.opwright.NAME``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.autograd import Function, forward_ad

import opwright as ow
from opwright.errors import DtypeError
from opwright.op import OpDefinition, VarProto, can_be_float, dtype_to_numpy
from opwright.runtime import EagerSource, MissingOperatorError, make_function
from opwright_torch.dtypes import as_torch, dtype_name
from opwright_torch.ops.calls import Call, recipe_of, slot_names, unflatten
from opwright_torch.ops.casting import PRODUCTS, WIDE
from opwright_torch.ops.dispatched import make_dispatched, make_drawing
from opwright_torch.ops.library import execute
from opwright_torch.ops.recording import Layout, Recorded
from opwright_torch.ops.transforms import apply_call, run_call

_is_dynamo = torch.compiler.is_dynamo_compiling
_is_autocast = torch._C._is_any_autocast_enabled
_is_transforming = torch._C._are_functorch_transforms_active
_count_modes = torch._C._len_torch_dispatch_stack
_records = torch.is_grad_enabled
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class TorchSource(EagerSource):
    """Calls one operator with one selection of outputs."""

    def __init__(
        self,
        definition: OpDefinition,
        context: Any,
        returned: Sequence[VarProto] | None = None,
        as_tuple: bool = False,
    ) -> None:
        super().__init__(definition, context, returned, as_tuple)
        self.definition, self.proto = definition, definition.proto
        self.returned = tuple(slot.name for slot in self._returned)
        self._n_inputs = len(self.proto.inputs)
        self._detached = EagerSource(definition, context, self._returned, as_tuple, True).call
        self._layouts: dict[tuple[int, ...], Layout] = {}
        # Like Recorded.apply without its check for torch.func tensors, since `slow` has already
        # checked.
        self._record = super(Function, Recorded).apply  # type: ignore[misc]
        self._simple = None
        if not any(slot.duplicable or slot.optional for slot in self.proto.inputs):
            self._simple = self.layout((1,) * self._n_inputs)

    def slow(self, *args: Any) -> Any:
        """Run calls that the runtime does not handle: recorded calls and calls with Python numbers.

        Recorded calls with plain tensors are checked first, for speed.
        """
        n = self._n_inputs
        if self._simple is not None and not _is_transforming():
            requires = False
            for value in args[:n]:
                if value.__class__ not in _PLAIN:
                    break
                requires = requires or value.requires_grad
            else:
                if requires and _records():
                    return self._record(self._simple, args[n:], *args[:n])
                if requires:
                    return self._detached(*args)
        return self._run_any(args)

    def _run_any(self, args: tuple[Any, ...]) -> Any:
        n = self._n_inputs
        given = [self._as_list(s, v) for s, v in zip(self.proto.inputs, args[:n], strict=True)]
        tensors = [i for items in given for i in items if isinstance(i, torch.Tensor)]
        if not _records() and tensors and len(tensors) == sum(map(len, given)):
            return self._detached(*args)
        is_special = _is_transforming() or any(t.__class__ not in _PLAIN for t in tensors)
        if is_special or (_records() and any(t.requires_grad for t in tensors)):
            flat = self.as_tensors(given)
            pairs = zip(args, given, strict=False)
            counts = tuple([-1 if v is None else len(items) for v, items in pairs])
            if not is_special:
                return self._record(self.layout(counts), args[n:], *flat)
            call = Call(self.proto.type, counts, args[n:], self.returned)
            apply = apply_call if _is_transforming() else run_call
            results = apply(execute, call, flat)
            return results[0] if self.returns_one else results
        with ow.detach_guard():
            return as_torch(super().slow(*args))

    def layout(self, counts: tuple[int, ...]) -> Layout:
        """Return the layout of calls with these tensor counts per input slot."""
        layout = self._layouts.get(counts)
        if layout is None:
            layout = self._layouts[counts] = self._make_layout(counts)
        return layout

    def _make_layout(self, counts: tuple[int, ...]) -> Layout:
        proto, recipe = self.proto, recipe_of(self.definition)
        names = (*self.returned, *[n for n in recipe.outputs if n not in self.returned])
        is_one = self.returns_one and len(names) == 1
        slots = [proto.output_slots[name] for name in names]
        source = EagerSource(self.definition, self._context, slots, not is_one, True)
        places = list(enumerate(slot_names(proto, counts)))
        is_plain = not any(slot.duplicable for slot in proto.inputs) and -1 not in counts
        floats = [can_be_float(proto, proto.output_slots[name]) for name in self.returned]
        stops = tuple(i for i, n in enumerate(self.returned) if n in recipe.stops and floats[i])
        return Layout(
            self._context,
            source.eager,
            proto.type,
            counts,
            self.returned,
            is_one,
            len(self.returned) if len(names) > len(self.returned) else None,
            tuple(i for i, name in places if name in recipe.reads),
            tuple(i for i, name in places if name not in recipe.reads),
            recipe.outputs,
            tuple(map(names.index, recipe.outputs)),
            any(name not in self.returned for name in recipe.inner),
            stops,
            None if is_plain else partial(unflatten, proto, counts),
            is_one
            and is_plain
            and not recipe.reads
            and not recipe.outputs
            and not stops
            and all(_root(slot) == proto.output_slots[names[0]].same_as for slot in proto.inputs),
        )

    def as_tensors(self, given: Sequence[Sequence[Any]]) -> list[torch.Tensor]:
        """Return all inputs as tensors; as in `slow`, numbers take the dtypes of other inputs."""
        if all(isinstance(item, torch.Tensor) for items in given for item in items):
            return [item for items in given for item in items]
        stubs = [
            [_stub(item) if isinstance(item, torch.Tensor) else item for item in items]
            for items in given
        ]
        device = next(t.device for items in given for t in items if isinstance(t, torch.Tensor))
        return [
            item if isinstance(item, torch.Tensor) else torch.from_numpy(number).to(device)
            for items, held in zip(given, self._hold_numbers(stubs), strict=True)
            for item, number in zip(items, held, strict=True)
        ]


def _root(slot: VarProto) -> str:
    """Return the slot that determines the dtype of an input."""
    return slot.same_as or slot.name


def _stub(tensor: torch.Tensor) -> Any:
    """Return an array with the dtype of a tensor."""
    return np.empty(0, dtype_to_numpy(dtype_name(tensor.dtype)))


def _call_as_torch(run: Callable[..., Any], *args: Any, **named: Any) -> Any:
    return as_torch(run(*args, **named))


def is_traced(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether PyTorch traces or transforms a call with these tensors."""
    return bool(
        _is_dynamo()
        or _count_modes()
        or forward_ad._current_level >= 0
        or _is_transforming()
        or any(tensor.__class__ not in _PLAIN for tensor in tensors)
    )


def make_torch_function(definition: OpDefinition, context: Any) -> Callable[..., Any]:
    """Return ``opwright_torch.ops.NAME``."""
    if definition.proto.has_blocks:
        raise MissingOperatorError(
            f"{definition.op_type}: an operator on tensors must not have blocks, got an "
            "operator that runs program blocks; write an if or a loop in Python"
        )
    run = shown = make_function(definition, context, TorchSource)
    run_dispatched = make_dispatched(definition, context)
    if all(slot.optional for slot in definition.proto.inputs):
        run = partial(_call_as_torch, run)
    if definition.random:
        run = make_drawing(definition, context, run)
        run_dispatched = make_drawing(definition, context, run_dispatched)

    casts = definition.op_type in PRODUCTS | WIDE

    def function(*args: Any, **named: Any) -> Any:
        if _is_dynamo() or _count_modes() or forward_ad._current_level >= 0:
            return choose()(*args, **named)
        if casts and _is_autocast():
            return run_dispatched(*args, **named)
        try:
            return run(*args, **named) if named else run(*args)
        except DtypeError:
            if casts or not _is_autocast():
                raise
        return run_dispatched(*args, **named)  # autocast promotes mixed dtypes

    def choose() -> Callable[..., Any]:
        """Return `run` under `torch.func`; the runtime then calls `TorchSource.slow`."""
        if _is_transforming() and not (_is_dynamo() or _is_autocast()):
            return run
        return run_dispatched

    functools.update_wrapper(function, shown)
    function.__module__ = "opwright_torch.ops"
    return function
