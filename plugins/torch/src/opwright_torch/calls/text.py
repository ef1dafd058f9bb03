"""PyTorch calls as text, so programs that contain them can be saved and loaded.

The text is JSON: ``{"inputs": [[dtype, shape], …], "calls": [[name, arguments, named], …],
"taken": [[call, place, …], …], "results": [[dtype, shape], …]}``. An argument without a JSON form
is an object with one key: ``{"input": 0}``, ``{"call": [0, 1]}`` for an element of the result of an
earlier call, ``{"dtype": "float32"}``, ``{"dict": {…}}``, ``{"complex": [0.0, 1.0]}``, and
``{"object": "3"}`` for objects that exist only in the process that wrote the string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

import torch

from opwright.errors import AttributeValueError

_OBJECTS: Final[dict[str, object]] = {}
_PROCESS: Final = uuid4().hex
"""Prefix of object keys, which identifies the process that created them."""

_NAMED: Final[dict[str, type]] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}

Tensors = Sequence[torch.Tensor]


Argument = Callable[[Tensors, list[Any]], Any]
"""Builds an argument from the inputs and earlier results."""


class Step(NamedTuple):
    """One call; its arguments are fixed if they do not depend on other calls."""

    target: Any
    arguments: Argument
    named: Argument
    is_fixed: bool


class Calls(NamedTuple):
    """The calls parsed from a string."""

    names: list[str]
    steps: list[Step]
    taken: list[Argument]

    def run(self, tensors: Tensors) -> list[torch.Tensor]:
        """Run the calls and return their results."""
        return self.bind(tensors)()

    def bind(self, tensors: Tensors) -> Callable[[], list[torch.Tensor]]:
        """Return a function that recomputes the results from these tensors at every call."""
        ready = [
            (
                step.target,
                *((step.arguments(tensors, []), step.named(tensors, [])) if step.is_fixed else ()),
            )
            for step in self.steps
        ]
        steps, taken = self.steps, self.taken

        def run() -> list[torch.Tensor]:
            values: list[Any] = []
            for step, (target, *fixed) in zip(steps, ready):
                arguments, named = fixed or (
                    step.arguments(tensors, values),
                    step.named(tensors, values),
                )
                values.append(target(*arguments, **named))
            return [take(tensors, values) for take in taken]

        return run

    def find_writer(self, tensors: Tensors, out: Tensors) -> Callable[[], object] | None:
        """Return a function that writes the only result into `out`, or None for other calls."""
        if len(self.steps) != 1 or len(out) != 1 or not self.steps[0].is_fixed:
            return None
        target, arguments, named, _ = self.steps[0]
        overload = _find_out(target)
        if overload is None:
            return None
        return partial(overload, *arguments(tensors, []), **named(tensors, []), out=out[0])


def _find_out(target: Any) -> Any:
    """Return the overload of `target` with an additional argument ``out``, or None."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    arguments = [(a.name, str(a.type)) for a in target._schema.arguments]
    for name in target.overloadpacket.overloads():
        overload = getattr(target.overloadpacket, name)
        given = [(a.name, str(a.type)) for a in overload._schema.arguments]
        if given == [*arguments, ("out", "Tensor")] and len(target._schema.returns) == 1:
            return overload
    return None


def encode(value: Any, refer: Callable[[Any], dict[str, Any] | None]) -> Any:
    """Convert an argument to JSON; `refer` converts tensors and returns None for other values."""
    reference = refer(value)
    if reference is not None:
        return reference
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [encode(item, refer) for item in value]
    if isinstance(value, dict):
        return {"dict": {name: encode(item, refer) for name, item in value.items()}}
    return _encode_constant(value)


def _encode_constant(value: Any) -> dict[str, Any]:
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, type in _NAMED.items():
        if isinstance(value, type):
            return {kind: str(value).removeprefix("torch.")}
    return {"object": _keep(value)}


def encode_target(target: Any) -> Any:
    """Return the name of an overload, or a reference to another callable."""
    return str(target) if isinstance(target, torch._ops.OpOverload) else {"object": _keep(target)}


def _keep(value: object) -> str:
    key = f"{_PROCESS}:{id(value)}"  # the id stays unique, since the object is kept alive
    _OBJECTS[key] = value
    return key


@lru_cache(maxsize=1024)
def read(text: str) -> Calls:
    """Parse a string of calls, or raise AttributeValueError if it is invalid."""
    try:
        content = json.loads(text)
        steps = [
            Step(
                _target(name),
                _reader(arguments),
                _reader({"dict": named}),
                '"call"' not in json.dumps([arguments, named]),
            )
            for name, arguments, named in content["calls"]
        ]
        taken = [_reader({"call": path}) for path in content["taken"]]
        names = [str(name) for name, _, _ in content["calls"]]
    except (ValueError, KeyError, TypeError) as error:
        raise AttributeValueError(
            f"torch.call: call must be a valid string, got {error!r}"
        ) from error

    return Calls(names, steps, taken)


def _target(name: Any) -> Any:
    if isinstance(name, dict):
        return _object(name["object"])
    parts = name.split(".")
    target: Any = torch.ops
    for part in parts if len(parts) == 3 else ():
        target = getattr(target, part, None)
    if not isinstance(target, torch._ops.OpOverload):
        raise AttributeValueError(
            f"torch.call: operators must be registered in PyTorch, got {name!r}; import its module"
        )
    if target._schema.is_mutable:
        raise AttributeValueError(
            f"torch.call: operators must not modify their arguments, got {name!r}"
        )
    return target


def _object(key: str) -> Any:
    if key not in _OBJECTS:
        raise AttributeValueError(
            "torch.call: objects such as Python functions must belong to this process, "
            f"got the key {key!r} of another process; compile the model again in this "
            "process"
        )
    return _OBJECTS[key]


def _reader(value: Any) -> Argument:
    """Return a function that builds an argument from the inputs and results of calls."""
    if isinstance(value, list):
        items = [_reader(item) for item in value]
        return lambda tensors, values: [item(tensors, values) for item in items]
    if not isinstance(value, dict):
        return lambda tensors, values: value
    ((kind, content),) = value.items()
    if kind == "input":
        return lambda tensors, values: tensors[content]
    if kind == "call":
        first, *path = content
        return lambda tensors, values: _part(values[first], path)
    if kind == "dict":
        named = {name: _reader(item) for name, item in content.items()}
        return lambda tensors, values: {n: item(tensors, values) for n, item in named.items()}
    constant = _constant(kind, content)
    return lambda tensors, values: constant


def _part(value: Any, path: list[int]) -> Any:
    for place in path:
        value = value[place]
    return value


def _constant(kind: str, value: Any) -> Any:
    if kind == "complex":
        return complex(*value)
    if kind == "device":
        return torch.device(value)
    if kind == "object":
        return _object(value)
    constant = getattr(torch, str(value), None)
    if kind not in _NAMED or not isinstance(constant, _NAMED[kind]):
        raise AttributeValueError(f"torch.call: {kind} must exist in PyTorch, got {value!r}")
    return constant
