"""opwright as a backend of onnx, after `onnx.backend.base`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

import opwright as ow
from opwright_onnx.errors import ModelError, ValueNeededError
from opwright_onnx.loading import as_value, load, load_parts
from opwright_onnx.translate.codes import KINDS, Codes, as_codes, carried_dtype

_TRIES = 16
"""How often a model is loaded with more inputs known; each try adds one at least."""


class Prepared(BackendRep):
    """A model that runs; what must be known of its inputs is taken from those of a run."""

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
            fixed = [v.name for v in self._inputs if not _is_tensor(v.type)]
            if not fixed and not isinstance(reason, ValueNeededError):
                raise

    def run(self, inputs: Any, **_: Any) -> Any:
        """Return the outputs, a tuple with their names as attributes.

        Parameters
        ----------
        inputs : sequence or dict of array
        """
        names = [entry.name for entry in self._inputs]
        given = dict(inputs) if isinstance(inputs, dict) else dict(zip(names, inputs))
        flat: dict[str, Any] = {}
        program, values = self._program, given
        if program is None or any(value is None for value in given.values()):
            program, values, flat = self._specialize(given)
        if program is not None:
            fed = {spec.name: as_bytes(values[spec.name]) for spec in program.feeds}
            results = program(fed)
            flat = {**flat, **dict(zip(results.names, results))}
        for output in self._model.graph.output:
            kind = KINDS.get(output.type.tensor_type.elem_type)
            if kind and output.name in flat:
                flat[output.name] = flat[output.name].view(carried_dtype(kind))
        return namedtupledict("Outputs", self._outputs)(*(_gather(flat, n) for n in self._outputs))

    def _specialize(self, given: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Return a program for the values of some inputs, what it is still fed, and known strings.

        The program is None where there are no results but strings.
        """
        known = {v.name: given.get(v.name) for v in self._inputs if not _is_tensor(v.type)}
        for _ in range(_TRIES):
            fixed = {name: as_value(value) for name, value in known.items()}
            try:
                program, texts = load_parts(self._model, False, fixed, {}, self._device, None)
            except ValueNeededError as reason:
                fresh = [name for name in reason.inputs if name in given and name not in known]
                if not fresh:
                    raise
                known.update((name, given[name]) for name in fresh)
                continue
            return program, {k: v for k, v in given.items() if k not in known}, texts
        raise ModelError(f"model: at most {_TRIES} inputs may decide what it computes, got more")


def as_bytes(array: Any) -> Any:
    """Return the bytes of an array of a dtype that opwright lacks, and any other unchanged."""
    codes = as_codes(np.asarray(array))
    return codes.codes if isinstance(codes, Codes) else codes


def _is_tensor(kind: TypeProto) -> bool:
    return bool(kind.WhichOneof("value") == "tensor_type")


def _gather(flat: dict[str, Any], name: str) -> Any:
    """Return a result; a list of those that its name begins with for a sequence."""
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
        """Return a model that runs on a device."""
        return Prepared(model, device.lower())

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Sequence[Any], device: str = "CPU", **_: Any
    ) -> Any:
        """Return the outputs of a model."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device such as ``"CPU"`` or ``"CUDA:1"`` is there."""
        try:
            np.asarray(ow.ops.fill(shape=[1], value=0.0) if device == "CPU" else None)
        except ow.errors.OpwrightError:
            return False
        return device == "CPU"


prepare = OpwrightBackend.prepare
run_model = OpwrightBackend.run_model
supports_device = OpwrightBackend.supports_device
is_compatible = OpwrightBackend.is_compatible
