"""Implements the interface `onnx.backend.base` with opwright."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

import opwright as ow
from opwright_onnx.errors import ModelError, ValueNeededError
from opwright_onnx.opening import load
from opwright_onnx.specializing import is_tensor, specialize
from opwright_onnx.translate.codes import KINDS, Codes, as_codes, carried_dtype


class Prepared(BackendRep):
    """A runnable model; if loading needs input values, `run` loads it with the given inputs."""

    def __init__(self, model: ModelProto, device: str) -> None:
        self._model = model
        self._device = device
        initialized = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [v for v in model.graph.input if v.name not in initialized]
        self._outputs = [output.name for output in model.graph.output]
        self._program: ow.LoadedProgram | None = None
        try:
            self._program = load(model, device=device)
        except ModelError as reason:
            fixed = [v.name for v in self._inputs if not is_tensor(v.type)]
            if not fixed and not isinstance(reason, ValueNeededError):
                raise

    def run(self, inputs: Any, **_: Any) -> Any:
        """Return the outputs as a named tuple.

        Parameters
        ----------
        inputs : sequence or dict of array
        """
        names = [entry.name for entry in self._inputs]
        given = dict(inputs) if isinstance(inputs, dict) else dict(zip(names, inputs))
        flat: dict[str, Any] = {}
        program, values = self._program, given
        if program is None or any(value is None for value in given.values()):
            program, values, flat = specialize(self._model, given, self._device)
        if program is not None:
            fed = {spec.name: as_bytes(values[spec.name]) for spec in program.feeds}
            results = program(fed)
            flat = {**flat, **dict(zip(results.names, results))}
        for output in self._model.graph.output:
            kind = KINDS.get(output.type.tensor_type.elem_type)
            if kind and output.name in flat:
                flat[output.name] = flat[output.name].view(carried_dtype(kind))
        return namedtupledict("Outputs", self._outputs)(*(_gather(flat, n) for n in self._outputs))


def as_bytes(array: Any) -> Any:
    """Return the bytes of an array whose dtype opwright lacks; return other arrays unchanged."""
    codes = as_codes(np.asarray(array))
    return codes.codes if isinstance(codes, Codes) else codes


def _gather(flat: dict[str, Any], name: str) -> Any:
    """Return the result `name`; for a sequence, the list of its elements `name.0`, `name.1`, ..."""
    if name in flat:
        return flat[name]
    parts: list[Any] = []
    while f"{name}.{len(parts)}" in flat:
        parts.append(flat[f"{name}.{len(parts)}"])
    return parts


class OpwrightBackend(Backend):
    """See `onnx.backend.base.Backend`."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        """Return a model prepared to run on a device."""
        return Prepared(model, device.lower())

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Sequence[Any], device: str = "CPU", **_: Any
    ) -> Any:
        """Return the outputs of a model."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device such as ``"CPU"`` or ``"CUDA:1"`` is available."""
        try:
            np.asarray(ow.ops.fill(shape=[1], value=0.0) if device == "CPU" else None)
        except ow.errors.OpwrightError:
            return False
        return device == "CPU"


prepare = OpwrightBackend.prepare
run_model = OpwrightBackend.run_model
supports_device = OpwrightBackend.supports_device
is_compatible = OpwrightBackend.is_compatible
