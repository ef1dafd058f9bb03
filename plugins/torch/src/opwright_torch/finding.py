"""Finds what the backend made for a compiled model or function, through Dynamo's cache."""

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
"""The code of a function, and its globals, where Dynamo puts what it has compiled."""


class NotCompiledError(OpwrightError, TypeError):
    """What is no result of ``torch.compile`` with this backend."""


def find_graphs(compiled: Callable[..., Any]) -> list[Region | Uncaptured]:
    """Return the graphs of a model or function that were made by the backend.

    NotCompiledError for what `torch.compile` did not return; an empty list before the first call.
    """
    if isinstance(compiled, OptimizedModule):
        model = compiled._orig_mod
        frames = list(_frames_of(model))
        own = {id(t) for t in (*model.parameters(), *model.buffers())}
    elif hasattr(compiled, "_torchdynamo_orig_callable"):
        function = innermost_fn(compiled)
        frames, own = [_frame_of(function)], set()
    else:
        raise NotCompiledError(
            f"report: must be given what torch.compile returned, got {type(compiled).__name__}; "
            'write compiled = torch.compile(model, backend="opwright")'
        )
    found: dict[Region | Uncaptured, None] = {}
    seen: set[CodeType] = set()
    for frame in frames:
        for graph in _search(frame, seen):
            owned = graph.owned() if isinstance(graph, Region) else set()
            if not own or not owned or not own.isdisjoint(owned):
                found[graph] = None
    return list(found)


def find_regions(compiled: Callable[..., Any]) -> list[Region]:
    """Return those of the graphs that run in plans."""
    return [graph for graph in find_graphs(compiled) if isinstance(graph, Region)]


def _frame_of(function: Any) -> Frame:
    function = getattr(function, "__func__", function)
    return function.__code__, function.__globals__


def _frames_of(model: torch.nn.Module) -> Iterator[Frame]:
    """Yield the functions that a call of a model may begin with, and those of its parts."""
    for part in model.modules():
        yield _frame_of(part.forward)
    yield _frame_of(torch.nn.Module._wrapped_call_impl)
    yield _frame_of(torch.nn.Module._call_impl)
    for code in wrap_inline.__code__.co_consts:
        if isinstance(code, CodeType):
            yield code, wrap_inline.__globals__


def _search(frame: Frame, seen: set[CodeType]) -> Iterator[Region | Uncaptured]:
    """Yield the graphs of a frame, and of what follows where Dynamo has broken it."""
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
