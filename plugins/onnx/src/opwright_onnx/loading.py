"""Loads an ONNX model as a program that can be called, trained, compiled and saved."""

from __future__ import annotations

import gc
import mmap
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, FileMissingError, OpwrightError
from opwright_onnx.dtypes import Array, array_dtype, dtype_name
from opwright_onnx.errors import ModelError, UnsupportedError, ValueNeededError
from opwright_onnx.messages import DataType, ModelProto, TypeProto, ValueInfoProto, read
from opwright_onnx.translate.codes import KINDS, Codes, as_codes
from opwright_onnx.translate.model import Model, make_model
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, is_texts
from opwright_onnx.translate.walking import FAULTS, Walk
from opwright_onnx.translate.weights import own_arrays, split_weights

MAX_FILE_BYTES: Final = 2**31 - 1
"""The maximum size of a message; larger models store their tensors in separate files."""

_NOTHING: Final[Mapping[str, Any]] = {}


def load_model(
    model: str | os.PathLike[str] | ModelProto | bytes, **choices: Any
) -> ow.LoadedProgram:
    """Load a model as a program; implements `opwright_onnx.load` and takes all its arguments."""
    program, texts = load_parts(*read_model(model), **choices)
    if texts or program is None:
        raise UnsupportedError(f"outputs must be tensors of numbers, got strings: {sorted(texts)}")
    return program


def load_parts(
    proto: ModelProto,
    folder: str | None,
    weights: Mapping[int, memoryview],
    *,
    trainable: bool = False,
    inputs: Mapping[str, Any] = _NOTHING,
    shapes: Mapping[str, Sequence[int | None]] = _NOTHING,
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
) -> tuple[ow.LoadedProgram | None, dict[str, Array]]:
    """Return the program (None if all outputs are strings) and the string outputs by name."""
    known = {v.name for v in proto.graph.input}
    for argument, given in (("inputs", inputs), ("shapes", shapes)):
        for name in given:
            if name not in known:
                raise AttributeValueError(
                    f"load: {argument} must name inputs of the model, got {name!r}; they are "
                    f"{sorted(map(str, known))}"
                )
    lent = {name: tuple(shape) for name, shape in shapes.items()}
    was_enabled = gc.isenabled()
    gc.disable()  # as in lowering, since collections would scan many long-lived objects
    try:
        return _translate(
            make_model(proto, folder, trainable, inputs, lent, weights), device, options
        )
    except FAULTS as reason:
        if isinstance(reason, OpwrightError):
            raise
        raise ModelError(f"model: the model must be well formed, got {reason!r}") from reason
    finally:
        if was_enabled:
            gc.enable()


_ADVICE: Final = {
    "read": "; pass file.read()",
    "model_proto": "; pass program.model_proto",  # a result of torch.onnx.export
}


def read_model(
    model: str | os.PathLike[str] | ModelProto | bytes,
) -> tuple[ModelProto, str | None, Mapping[int, memoryview]]:
    """Return a model, its folder, and the weight bytes that were stripped from the message."""
    if "onnx" in sys.modules and isinstance(model, sys.modules["onnx"].ModelProto):
        return model, None, {}
    if isinstance(model, (bytes, bytearray)):
        proto, weights = _parse(memoryview(model), "model")
        return proto, None, weights
    if not isinstance(model, (str, os.PathLike)):
        advice = "".join(text for name, text in _ADVICE.items() if hasattr(model, name))
        raise AttributeTypeError(
            f"load: model must be a path, bytes or a ModelProto, got {type(model).__name__}{advice}"
        )
    path = str(model)
    if not os.path.isfile(path):
        raise FileMissingError(f"load: model must name an existing file, got {path!r}")
    size = os.path.getsize(path)
    if size > MAX_FILE_BYTES:
        raise ModelError(
            f"{path}: a file must have at most {MAX_FILE_BYTES} bytes, got {size}; "
            "save it with its tensors in another file"
        )
    with open(path, "rb") as file:  # the map is closed when its last view is freed
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    proto, weights = _parse(memoryview(data), path)
    return proto, os.path.dirname(path) or ".", weights


def _parse(data: memoryview, who: str) -> tuple[ModelProto, Mapping[int, memoryview]]:
    rest, weights = split_weights(data) or (bytes(data), {})
    try:
        proto = read("ModelProto", rest)
    except ValueError:
        proto = _parse_loosely(rest, who)
    if not proto.HasField("graph") or not proto.graph.output:
        raise ModelError(f"{who}: an ONNX model must have a graph with outputs, got none")
    return proto, weights


def _parse_loosely(data: bytes, who: str) -> ModelProto:
    """Parse a model with protobuf, which is more lenient and for example merges repeated fields."""
    from google.protobuf.message import DecodeError  # slow imports
    from onnx import ModelProto as Theirs

    try:
        return Theirs.FromString(data)
    except (DecodeError, ValueError) as reason:
        raise ModelError(f"{who}: the data must be an ONNX model, got {reason}") from None


def _translate(
    model: Model, device: str, options: Mapping[str, Any] | None
) -> tuple[ow.LoadedProgram | None, dict[str, Array]]:
    t = Translator(model)
    graph = model.proto.graph
    given, feeds = _enter_inputs(t)
    results = Walk(t).graph(graph, given)
    named = dict(zip([output.name for output in graph.output], results))
    texts = {name: named.pop(name) for name in list(named) if is_texts(named[name])}
    if texts and not named:
        return None, texts
    fetches = _name_results(t, list(named), list(named.values()))
    scope = ow.Scope()
    for name, array in own_arrays(t.arrays, model.weights, model.trainable).items():
        scope.var(name).borrow(array)
    notes = {"onnx": _describe(model)}
    program = ow.LoadedProgram(
        t.program, scope, fetches, feeds, notes=notes, device=device, options=options
    )
    return program, texts


def _enter_inputs(t: Translator) -> tuple[dict[str, Value], list[str]]:
    """Return the values of the graph inputs, and the names of the inputs that are fed."""
    graph = t.model.proto.graph
    initialized = {tensor.name for tensor in graph.initializer}
    initialized |= {tensor.values.name for tensor in graph.sparse_initializer}
    given: dict[str, Value] = {}
    feeds: list[str] = []
    for entry in graph.input:
        if entry.name in t.model.inputs:
            given[entry.name] = as_value(t.model.inputs[entry.name])
        elif entry.name not in initialized:
            given[entry.name] = _declare(t, entry)
            feeds.append(entry.name)
    return given, feeds


def as_value(value: Any) -> Value:
    """Convert a given value to the arrays, or lists of arrays, that the translation uses."""
    if value is None or isinstance(value, (list, tuple)):
        return None if value is None else [as_value(item) for item in value]
    array = as_codes(np.asarray(value))
    if isinstance(array, np.ndarray) and array.dtype.kind in "UO":
        if not all(isinstance(text, str) for text in array.flat):
            raise AttributeTypeError("load: inputs must be numbers or strings, got other objects")
        return array.astype(object)
    if not isinstance(array, Codes):
        array_dtype(array)
    return array


def _declare(t: Translator, entry: ValueInfoProto) -> Value:
    kind = entry.type
    if kind.WhichOneof("value") == "optional_type":
        kind = kind.optional_type.elem_type
    if kind.WhichOneof("value") != "tensor_type":
        raise UnsupportedError(
            f"input {entry.name!r}: a fed input must be a tensor, got "
            f"{kind.WhichOneof('value')}; give its value: load(path, inputs={{name: value}})"
        )
    tensor = kind.tensor_type
    shape: Iterable[int | None] | None = t.model.shapes.get(entry.name)
    if tensor.HasField("shape"):
        declared = read_dims(tensor)
        if shape is not None and len(list(shape)) != len(declared):
            raise AttributeValueError(
                f"load: shapes must have {len(declared)} sizes for {entry.name!r}, got {shape}"
            )
        shape = declared if shape is None else shape
    if tensor.elem_type == DataType.STRING:
        raise ValueNeededError(
            f"input {entry.name!r}: strings must be known when the model is loaded, got none; give "
            "their values: load(path, inputs={name: array})",
            (entry.name,),
        )
    kind_of_codes = KINDS.get(tensor.elem_type)
    dtype = "uint8" if kind_of_codes else dtype_name(tensor.elem_type)
    fed = t.block.create_var(entry.name, shape, dtype, stop_gradient=True, is_data=True)
    return Codes(fed, kind_of_codes) if kind_of_codes else fed


def read_dims(tensor: TypeProto.Tensor) -> list[int | None]:
    """Return the sizes of a declared tensor, with None for named and unknown sizes."""
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    ]


def _name_results(t: Translator, names: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return the result names of a call; a sequence has one name for each element."""
    fetches: list[str] = []
    for name, result in zip(names, results):
        value = result.codes if isinstance(result, Codes) else result
        if value is None:
            raise UnsupportedError(
                f"output {name!r}: the output must have a value, got an empty optional"
            )
        if isinstance(value, (list, tuple)):
            parts = [f"{name}.{i}" for i in range(len(value))]
            fetches += _name_results(t, parts, value)
            continue
        variable = value if isinstance(value, ow.Variable) else None
        if variable is None or variable.name != name:
            taken = t.program.take_name(name)
            source = t.variable(value)
            t.block.append_op("assign", {"x": source}, {"out": taken})
            variable = t.block.var(taken)
        fetches.append(variable.name)
    return fetches


def _describe(model: Model) -> dict[str, Any]:
    """Return the model metadata as JSON-compatible data."""
    dims = {
        entry.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in entry.type.tensor_type.shape.dim
        ]
        for entry in (*model.proto.graph.input, *model.proto.graph.output)
        if entry.type.WhichOneof("value") == "tensor_type"
    }
    return {
        "producer": f"{model.proto.producer_name} {model.proto.producer_version}".strip(),
        "opsets": dict(model.opsets),
        "dims": dims,
        "metadata": {entry.key: entry.value for entry in model.proto.metadata_props},
    }
