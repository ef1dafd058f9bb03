"""Loads and rewrites ONNX models with changed fields or bytes, next to a file of tensors."""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mutations import FAR, FLOATS, NAMES, SMALL
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import opwright_onnx
from opwright.errors import OpwrightError
from opwright_onnx.saving import write_model

MOST_S = 2.0
"""The limit of processor time for one model."""

MAX_BYTES = 20_000
_DATA = np.arange(64, dtype=np.float32).tobytes()
_LOCATIONS = ("w.bin", "../w.bin", "/etc/passwd", ".", "", "sub/w.bin", "link", "\x00", "w" * 5000)


@cache
def _folder() -> Path:
    """Return the folder of this process; its parent chooses the path and removes the folder."""
    return Path(tempfile.mkdtemp(prefix="onnx-"))


@cache
def _samples() -> tuple[bytes, ...]:
    """Return models of every operator, and models with functions, loops, sequences and files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    found = sorted((case.name, case.model.SerializeToString()) for case in cases)
    makers = (_functions, _loops, _sequences, _files)
    made = [maker().SerializeToString() for maker in makers] * 100  # as frequent as an operator
    return (*(data for _, data in found if len(data) <= MAX_BYTES), *made)


def _model(nodes: list[Any], weights: list[Any], functions: tuple[Any, ...] = ()) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sample", [x], [y], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions)


def _functions() -> ModelProto:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("acme", 1)]
    functions = []
    for inner, outer in (("Relu", "F0"), ("F0", "F1"), ("F1", "F2")):
        domain = "" if inner == "Relu" else "acme"
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in ("ab", "bc")]
        functions.append(helper.make_function("acme", outer, ["a"], ["c"], nodes, imports))
    return _model([helper.make_node("F2", ["x"], ["y"], domain="acme")], [], tuple(functions))


def _loops() -> ModelProto:
    turn = helper.make_tensor_value_info("turn", TensorProto.INT64, [])
    again = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, ["n", 4])
    after = helper.make_tensor_value_info("after", TensorProto.FLOAT, ["n", 4])
    both = [
        helper.make_graph([helper.make_node(kind, ["state"], ["b"])], kind, [], [after])
        for kind in ("Relu", "Neg")
    ]
    for graph in both:
        graph.output[0].name = "b"
    nodes = [
        helper.make_node("If", ["again"], ["after"], then_branch=both[0], else_branch=both[1]),
        helper.make_node("Identity", ["after"], ["each"]),
    ]
    each = helper.make_tensor_value_info("each", TensorProto.FLOAT, None)
    body = helper.make_graph(nodes, "body", [turn, again, state], [again, after, each])
    loop = helper.make_node("Loop", ["most", "", "x"], ["y", "all"], body=body)
    return _model([loop], [numpy_helper.from_array(np.array(3), "most")])


def _sequences() -> ModelProto:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "one"], ["part"]),
        helper.make_node("SequenceInsert", ["parts", "part", "one"], ["more"]),
        helper.make_node("ConcatFromSequence", ["more"], ["y"], axis=1),
    ]
    numbers = [numpy_helper.from_array(np.array(n), name) for n, name in ((1, "one"), (2, "two"))]
    return _model(nodes, numbers)


def _files() -> ModelProto:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "64"), ("length", "64")):
        weight.external_data.add(key=key, value=value)
    return _model([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight])


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the bytes of a model with some of its fields or bytes changed."""
    data = rng.choice(_samples())
    trainable = rng.random() < 0.1
    if rng.random() < 0.2:
        return {"data": _change_bytes(rng, data), "trainable": trainable}
    model = ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(rng, model)
    return {"data": model.SerializeToString(), "trainable": trainable}


def _change_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 9))):
        place = rng.randrange(len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place] = rng.choice((0, 1, 127, 128, 255))
        elif kind == 2 and len(changed) > 8:
            del changed[place : min(place + rng.choice((1, 1, 2, 8)), len(changed) - 1)]
        else:
            changed[place:place] = changed[place - rng.choice((1, 4, 16)) : place]
    return bytes(changed[: rng.randrange(1, len(changed))] if rng.random() < 0.1 else changed)


def _messages(message: Any) -> list[Any]:
    """Return a message and all nested messages."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                found += _messages(inner)
    return found


def _change(rng: random.Random, model: ModelProto) -> None:
    """Change one field of a message: its value, or its number of elements."""
    messages = _messages(model)
    message = rng.choice(messages)
    set_fields = [field for field, _ in message.ListFields()]
    fields = set_fields if set_fields and rng.random() < 0.85 else message.DESCRIPTOR.fields
    field = rng.choice(fields)
    if field.message_type is not None:
        _change_message(rng, message, field, messages)
    elif not field.is_repeated:
        setattr(message, field.name, _draw(rng, field, messages))
    else:
        _change_list(rng, getattr(message, field.name), field, messages)


def _change_message(rng: random.Random, message: Any, field: Any, messages: list[Any]) -> None:
    """Remove a message, or replace it with another message of its type."""
    others = [other for other in messages if other.DESCRIPTOR is field.message_type]
    if not field.is_repeated:
        if not others or rng.random() < 0.3:
            message.ClearField(field.name)
        else:
            copy = type(others[0]).FromString(rng.choice(others).SerializeToString())
            getattr(message, field.name).CopyFrom(copy)
        return
    items = getattr(message, field.name)
    kind = rng.random()
    if items and kind < 0.4:
        del items[rng.randrange(len(items))]
    elif others and kind < 0.7:
        items.add().CopyFrom(type(others[0]).FromString(rng.choice(others).SerializeToString()))
    elif len(items) > 1:
        first, second = rng.sample(range(len(items)), 2)
        copy = type(items[0]).FromString(items[first].SerializeToString())
        items[first].CopyFrom(items[second])
        items[second].CopyFrom(copy)
    else:
        items.add()


def _change_list(rng: random.Random, items: Any, field: Any, messages: list[Any]) -> None:
    kind = rng.random()
    if items and kind < 0.5:
        items[rng.randrange(len(items))] = _draw(rng, field, messages)
    elif items and kind < 0.75:
        del items[rng.randrange(len(items))]
    else:
        items.append(_draw(rng, field, messages))


def _draw(rng: random.Random, field: Any, messages: list[Any]) -> Any:
    """Return a value for a field: a value from elsewhere in the model, or a rare value."""
    kind = field.cpp_type
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        number = rng.choice(SMALL if rng.random() < 0.5 else FAR)
        bits = 32 if kind == field.CPPTYPE_INT32 else 64
        least = 0 if kind == field.CPPTYPE_UINT64 else -(2 ** (bits - 1))
        return min(max(number, least), 2 ** (bits - 1) - 1)
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        return rng.choice((b"", b"\xff" * 3, b"\0" * 64, b"SAME_UPPER", b"linear"))
    words = [item.name for item in messages if getattr(item, "name", "")]
    for item in messages:
        words += [item.op_type, *item.output] if isinstance(item, NodeProto) else []
    rare = (*_LOCATIONS, *(n for n in NAMES if n.isprintable()), "acme", "opwright.std")
    text = rng.choice(words) if words and rng.random() < 0.7 else rng.choice(rare)
    return text if text.isprintable() else "odd"


def run(case: dict[str, Any]) -> None:
    """Load a file, and rewrite the program."""
    folder = _folder() / "case"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        (folder / "w.bin").write_bytes(_DATA)
        (folder / "link").symlink_to("/etc/passwd")
    path = folder / "model.onnx"
    path.write_bytes(case["data"])
    began = time.process_time()
    try:
        program = opwright_onnx.load(path, trainable=case["trainable"])
        write_model(program, 21)
    except OpwrightError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError) and not isinstance(cause, OpwrightError):
                raise cause from None  # memory was requested without a size check
            cause = cause.__cause__
    used_s = time.process_time() - began
    if used_s > MOST_S:
        raise AssertionError(f"loading and rewriting a model took {used_s:.1f} s")
