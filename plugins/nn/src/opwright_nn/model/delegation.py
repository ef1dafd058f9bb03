"""Turns layer functions into methods of Model, which take variables by name, too."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import opwright as ow
from opwright.errors import AttributeTypeError
from opwright_nn.arguments import check_arguments
from opwright_nn.model.programs import Input, ModelPrograms

_INPUT_NAMES: Final = frozenset({"x", "logits", "index"})
"""Parameters of layer functions that methods call ``input``."""

_DTYPES: Final[Mapping[tuple[str, str], str]] = {
    ("accuracy", "label"): "int64",
    ("cond", "condition"): "bool",
    ("cross_entropy", "label"): "int64",
    ("ctc_loss", "label"): "int64",
    ("embedding", "index"): "int64",
    ("nll", "label"): "int64",
    ("softmax_with_cross_entropy", "label"): "int64",
}
"""The dtype of a new input, by layer function and parameter; see also `_dtype_of`."""

_DEFAULTS: Final[Mapping[tuple[str, str], object]] = {("concat", "axis"): 1}
"""Defaults that differ from the layer function's: a Model's first axis is the batch."""

_METRICS: Final = frozenset({"accuracy"})
"""Layer functions whose outputs `Model.run` returns after the loss."""


_TYPES: Final[Mapping[str, tuple[str, Any]]] = {
    "ow.Variable": ("Input", Input),
    "ow.Variable | None": ("Input | None", Input | None),
    "Sequence[ow.Variable]": ("Iterable[Input]", Iterable[Input]),
}
"""The annotation and type of a method's parameter, by the annotation of the layer function's."""


class _Slot(NamedTuple):
    """A parameter of a layer function that takes a variable, or a list of them."""

    parameter: str
    argument: str
    dtype: str
    declared: str

    @property
    def annotation(self) -> str:
        return _TYPES[self.declared][0]

    @property
    def type(self) -> Any:
        return _TYPES[self.declared][1]

    @property
    def is_list(self) -> bool:
        return self.declared == "Sequence[ow.Variable]"

    @property
    def is_optional(self) -> bool:
        return self.declared == "ow.Variable | None"


class LayerMethod:
    """A method of models that is created from a layer function at its first use.

    Making all of them would add milliseconds to ``import opwright_nn``.

    Parameters
    ----------
    owner : type
        The class that gets the method.
    name : str
        The name of the method.
    layer : callable
        The layer function.
    """

    def __init__(self, owner: type, name: str, layer: Callable[..., Any]) -> None:
        self._owner = owner
        self._name = name
        self._layer = layer

    def __get__(self, model: object, owner: type | None = None) -> Callable[..., Any]:
        method = make_method(self._owner, self._name, self._layer)
        setattr(self._owner, self._name, method)  # the next access does not come here
        return method if model is None else types.MethodType(method, model)


def make_method(owner: type, name: str, layer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that appends a layer to a `Model`.

    Parameters
    ----------
    owner : type
        The class that gets the method.
    name : str
        The name of the method.
    layer : callable
        A layer function. Its first variable is called ``input`` in the method, and each of its
        variables may be given by name.
    """
    slots = _find_slots(layer)
    signature = _make_signature(layer, slots)

    @functools.wraps(layer)
    def method(*args: Any, **options: Any) -> Any:
        arguments = _bind(name, signature, args, options)
        model: ModelPrograms = arguments.pop("self")
        with model._building():
            for slot in slots:
                dtype = "float32" if arguments.get("soft_label") is True else slot.dtype
                value = arguments.pop(slot.argument)
                arguments[slot.parameter] = _find(model, name, slot, value, dtype)
            output = layer(**arguments)
            if layer.__name__ in _METRICS:
                model._add_metric(output)
        return output

    method.__name__, method.__qualname__ = name, f"{owner.__name__}.{name}"
    method.__module__ = owner.__module__
    method.__doc__ = _describe(layer, slots)
    method.__annotations__ = _annotations(signature, slots)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _find_slots(layer: Callable[..., Any]) -> list[_Slot]:
    slots = []
    for name, parameter in inspect.signature(layer).parameters.items():
        if parameter.annotation in _TYPES:
            argument = "input" if name in _INPUT_NAMES else name
            dtype = _dtype_of(layer.__name__, name)
            slots.append(_Slot(name, argument, dtype, parameter.annotation))
    return slots


def _dtype_of(layer: str, parameter: str) -> str:
    if parameter.endswith("lengths"):
        return "int64"
    if parameter.endswith("mask"):
        return "bool"
    return _DTYPES.get((layer, parameter), "float32")


def _make_signature(layer: Callable[..., Any], slots: Collection[_Slot]) -> inspect.Signature:
    by_parameter = {slot.parameter: slot for slot in slots}
    signature = inspect.signature(layer)
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, parameter in signature.parameters.items():
        slot = by_parameter.get(name)
        parameters.append(
            parameter.replace(
                name=name if slot is None else slot.argument,
                annotation=parameter.annotation if slot is None else slot.annotation,
                default=_DEFAULTS.get((layer.__name__, name), parameter.default),
            )
        )
    return signature.replace(parameters=parameters)


def _bind(
    who: str, signature: inspect.Signature, args: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    bound = check_arguments(f"Model.{who}", signature, args, options)
    bound.apply_defaults()
    return bound.arguments


def _annotations(signature: inspect.Signature, slots: Collection[_Slot]) -> dict[str, Any]:
    """Return the annotations of a method: text is evaluated where the layer function is."""
    annotations = {name: item.annotation for name, item in signature.parameters.items()}
    del annotations["self"]
    inputs = {slot.argument: slot.type for slot in slots}
    return annotations | inputs | {"return": signature.return_annotation}


def _find(model: ModelPrograms, who: str, slot: _Slot, value: object, dtype: str) -> Any:
    """Return the variable, or the list of variables, that the argument of a slot stands for."""
    name = slot.argument
    if value is None and slot.is_optional:
        return None
    if not slot.is_list:
        return model._find_input(value, who, name, dtype)
    if isinstance(value, ow.Variable | str) or not isinstance(value, Iterable):
        raise AttributeTypeError(
            f"{who}: {name} must be a list of variables or names, got {value!r}; write "
            f"{who}({name}=[a, b])"
        )
    return [model._find_input(item, who, f"{name}[{i}]", dtype) for i, item in enumerate(value)]


def _describe(layer: Callable[..., Any], slots: Collection[_Slot]) -> str:
    """Return the docstring of a layer function with what differs in its method."""
    summary, _, sections = inspect.cleandoc(layer.__doc__ or "").partition("\n\n")
    for slot in slots:
        name = rf"^{slot.parameter}(?=,| :)"
        sections = re.sub(name, slot.argument, sections, flags=re.MULTILINE)
        kind = rf"^({slot.argument} : (?:sequence of )?Variable)"
        sections = re.sub(kind, r"\1 or str", sections, flags=re.MULTILINE)
    renamed = [
        f", whose {s.parameter} is `{s.argument}`" for s in slots if s.argument != s.parameter
    ]
    dtypes = ", ".join(f"{slot.dtype} for `{slot.argument}`" for slot in slots)
    has_soft = "soft_label" in inspect.signature(layer).parameters
    soft = " or, with `soft_label`, float32" if has_soft else ""
    metric = " `run` returns the output after the loss." if layer.__name__ in _METRICS else ""
    by_name = f" Variables may be given by name; a new name becomes an input: {dtypes}{soft}."
    note = f"The method of `layers.{layer.__name__}`{''.join(renamed)}."
    note += f"{by_name if slots else ''}{metric}"
    note = textwrap.fill(note, 88, break_on_hyphens=False, break_long_words=False)
    return "\n\n".join(part for part in (summary, note, sections) if part)
