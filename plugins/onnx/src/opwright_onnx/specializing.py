"""Replaces model inputs that must be known at load time by constants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import opwright as ow
from opwright.errors import AttributeValueError
from opwright_onnx.errors import ModelError, UnsupportedError, ValueNeededError
from opwright_onnx.loading import as_value, load_parts, read_model
from opwright_onnx.messages import ModelProto, TypeProto

_TRIES: Final = 16
"""The maximum number of reloads with more known inputs; each reload adds at least one input."""


def is_tensor(kind: TypeProto) -> bool:
    """Return whether a type is a tensor type and not a sequence or optional type."""
    return bool(kind.WhichOneof("value") == "tensor_type")


def specialize(
    model: ModelProto,
    given: Mapping[str, Any],
    device: str,
    folder: str | None = None,
    weights: Mapping[int, memoryview] = MappingProxyType({}),
) -> tuple[ow.LoadedProgram | None, dict[str, Any], dict[str, Any]]:
    """Return a program for given values of some inputs, with its feeds and string results.

    The program is None if all results are strings.
    """
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in initialized]
    known = {v.name: given[v.name] for v in inputs if v.name in given and not is_tensor(v.type)}
    for _ in range(_TRIES):
        fixed = {name: as_value(value) for name, value in known.items()}
        try:
            program, texts = load_parts(model, folder, weights, inputs=fixed, device=device)
        except ValueNeededError as reason:
            fresh = [name for name in reason.inputs if name in given and name not in known]
            if not fresh:
                raise
            known.update((name, given[name]) for name in fresh)
            continue
        return program, {k: v for k, v in given.items() if k not in known}, texts
    raise ModelError(f"model: the operators must depend on at most {_TRIES} input values, got more")


def read(path: Path, given: Mapping[str, Any]) -> ow.LoadedProgram:
    """Load a model from a file; arrays in `given` provide input values that loading needs."""
    model, folder, weights = read_model(path)
    names = [entry.name for entry in model.graph.input]
    for name in given:
        if name not in names:
            raise AttributeValueError(
                f"{path.name}: --input must name inputs of the model, got {name!r}; they are "
                f"{sorted(names)}"
            )
    program, _, texts = specialize(model, given, "cpu", folder, weights)
    if program is None or texts:
        raise UnsupportedError(f"outputs must be tensors of numbers, got strings: {sorted(texts)}")
    return program
