"""Arguments of `to_program`: the model and example inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch._dynamo import OptimizedModule
from torch.utils._pytree import tree_map

from opwright.errors import SettingError


def read_model(model: Any) -> torch.nn.Module:
    """Return the user's module without the wrappers of `torch.compile` and data parallelism.

    Raise SettingError for other objects.
    """
    while isinstance(model, (OptimizedModule, *_WRAPPERS)):
        model = model._orig_mod if isinstance(model, OptimizedModule) else model.module
    if isinstance(model, torch.jit.ScriptModule):
        raise SettingError(
            f"to_program: model must be a Python module, got {type(model).__name__}; pass the "
            "module that was scripted or traced"
        )
    if isinstance(model, torch.nn.Module):
        return model
    advice = "wrap a function in a module"
    if isinstance(model, torch.export.ExportedProgram):
        advice = "pass exported.module()"
    elif isinstance(model, type) and issubclass(model, torch.nn.Module):
        advice = f"pass an instance, such as {model.__name__}(...)"
    raise SettingError(
        f"to_program: model must be a torch.nn.Module, got {type(model).__name__}; {advice}"
    )


_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def read_examples(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments.

    `torch.export` merges a tensor passed twice into one input, so repeated tensors are copied.
    """
    seen: set[int] = set()

    def separate(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            raise SettingError(
                "to_program: example_inputs must be tensors, got a NumPy array; write "
                "torch.from_numpy(x)"
            )
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided:
            raise SettingError(
                f"to_program: example_inputs must be dense, got {value.layout}; write x.to_dense()"
            )
        is_repeated = id(value) in seen
        seen.add(id(value))
        return value.detach().clone() if is_repeated else value

    if isinstance(example_inputs, Mapping):
        return (), {name: tree_map(separate, value) for name, value in example_inputs.items()}
    if not isinstance(example_inputs, (tuple, list)):
        raise SettingError(
            "to_program: example_inputs must be a tuple, or a dict by argument, got "
            f"{type(example_inputs).__name__}; write (x,) for one input"
        )
    return tuple(tree_map(separate, value) for value in example_inputs), {}
