"""Looks up the graphs of a compiled model or function in Dynamo's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.eval_frame import OptimizedModule, innermost_fn
from torch._dynamo.external_utils import wrap_inline

from opwright.errors import OpwrightError
from opwright_torch.plans.region import Region, Uncaptured

Frame = tuple[CodeType, dict[str, Any]]
"""The code of a function and its globals, which include the graphs compiled by Dynamo."""


class NotCompiledError(OpwrightError, TypeError):
    """Raised for an object that is not a result of ``torch.compile`` with this backend."""


def find_graphs(compiled: Callable[..., Any]) -> list[Region | Uncaptured]:
    """Return the graphs of a model or function compiled by the backend.

    The list is empty before the first call. NotCompiledError is raised for other objects.
    """
    seen: set[CodeType] = set()
    if isinstance(compiled, OptimizedModule):
        model = compiled._orig_mod
        own = {id(t) for t in (*model.parameters(), *model.buffers())}
        found = [
            graph
            for frames, are_shared in ((_own_frames(model), False), (_shared_frames(), True))
            for frame in frames
            for graph in _search(frame, seen)
            if _may_be_of(graph, own, are_shared)
        ]
    elif hasattr(compiled, "_torchdynamo_orig_callable"):
        found = list(_search(_frame_of(innermost_fn(compiled)), seen))
    else:
        raise NotCompiledError(
            f"report: compiled must be a result of torch.compile, got {type(compiled).__name__}; "
            'write compiled = torch.compile(model, backend="opwright")'
        )
    return list(dict.fromkeys(found))


def _may_be_of(graph: Region | Uncaptured, own: set[int], is_shared: bool) -> bool:
    """Return whether a graph can belong to the model that owns these tensors, compared by identity.

    A graph that does not own tensors belongs to every model that runs its frame or, if all models
    share the frame, only to models without tensors.
    """
    owned = graph.owned() if isinstance(graph, Region) else set()
    return not own.isdisjoint(owned) if owned else not (is_shared and own)


def _frame_of(function: Any) -> Frame:
    function = getattr(function, "__func__", function)
    return function.__code__, function.__globals__


def _own_frames(model: torch.nn.Module) -> list[Frame]:
    """Return the functions of a model and its submodules."""
    return [_frame_of(part.forward) for part in model.modules()]


def _shared_frames() -> Iterator[Frame]:
    """Yield the PyTorch functions through which a call of any model can start."""
    yield _frame_of(torch.nn.Module._wrapped_call_impl)
    yield _frame_of(torch.nn.Module._call_impl)
    for code in wrap_inline.__code__.co_consts:
        if isinstance(code, CodeType):
            yield code, wrap_inline.__globals__


def _search(frame: Frame, seen: set[CodeType]) -> Iterator[Region | Uncaptured]:
    """Yield the graphs of a frame and of its continuations after graph breaks."""
    code, names = frame
    if code in seen:
        return
    seen.add(code)
    for entry in _debug_get_cache_entry_list(code):
        for name in entry.code.co_names:
            value = names.get(name)
            if name.startswith("__compiled_fn") and isinstance(
                innermost_fn(value), (Region, Uncaptured)
            ):
                yield innermost_fn(value)
            elif name.startswith("__resume_at"):
                yield from _search(_frame_of(value), seen)
