"""`load`; a previously loaded model is reused without protobuf and translation."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import opwright as ow
from opwright.errors import AttributeTypeError

if TYPE_CHECKING:
    from opwright_onnx.messages import ModelProto

_EXTERNAL: Final = b"\x0a\x08location"
"""The encoded protobuf field that marks a tensor stored in another file."""

_NOTHING: Final[Mapping[str, Any]] = {}


@ow.suggest_arguments
def load(
    model: str | os.PathLike[str] | ModelProto | bytes,
    *,
    trainable: bool = False,
    inputs: Mapping[str, Any] = _NOTHING,
    shapes: Mapping[str, Sequence[int | None]] = _NOTHING,
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
) -> ow.LoadedProgram:
    """Return an ONNX model as a program with its weights.

    Sizes that the model does not specify remain unknown, so one program handles every batch size
    and length. Values that depend only on initializers are computed once, during loading. Weights
    in the file are copied once; weights in a message or in other files are not copied. Code in the
    model is never run, and files outside the model's folder are never read.

    Parameters
    ----------
    model : str, PathLike, ModelProto or bytes
        A file, or its content. Other files in its folder are read only for a model that is given by
        its path.
    trainable : bool
        Whether float initializers with at least one axis become parameters. Values that depend on
        them are then not computed in advance.
    inputs : mapping of str to array
        Values of inputs that must be known when the model is loaded, such as the axes of a
        reduction. They are not feeds of the result. A sequence is a list of arrays.
    shapes : mapping of str to sequence of int or None
        Input shapes that replace the model's shapes; None is a dynamic size.
    device, options
        As for ``Network.compile``; they apply to calls of the result.

    Returns
    -------
    LoadedProgram
        Its feeds and results have the names of the model's inputs and outputs. ``notes["onnx"]``
        contains the model's names of input and output dimensions, the producer, the opsets and the
        metadata.

    Raises
    ------
    FileMissingError
        If there is no such file.
    ModelError
        For a model that is damaged or breaks a rule of an operator; the message names node and
        rule.
    UnsupportedError
        For an operator, or a use of an operator, without a counterpart in opwright.
    ValueNeededError
        If a node needs the value of an input, or a dynamic size, when the model is loaded.

    Examples
    --------
    ::

        model = opwright_onnx.load("resnet50.onnx")
        (scores,) = model({"input.1": images})
    """
    if not isinstance(trainable, bool):
        raise AttributeTypeError(f"load: trainable must be True or False, got {trainable!r}")

    def translate() -> ow.LoadedProgram:
        from opwright_onnx.loading import load_model

        choices = {"device": device, "options": options}
        return load_model(model, trainable=trainable, inputs=inputs, shapes=shapes, **choices)

    is_file = isinstance(model, (str, os.PathLike)) and os.path.isfile(model)
    if trainable or inputs or not is_file or not os.path.getsize(model):
        return translate()
    with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return ow.load_translated(
            data,
            translate,
            repr(sorted((name, list(shape)) for name, shape in shapes.items())),
            is_whole=lambda: _is_whole(data),
            device=device,
            options=options,
        )


def _is_whole(data: mmap.mmap) -> bool:
    """Return whether this file contains all tensors; large weight bytes are not searched."""
    from opwright_onnx.translate.weights import split_weights

    rest = (split_weights(memoryview(data)) or (data, {}))[0]
    return rest.find(_EXTERNAL) < 0
