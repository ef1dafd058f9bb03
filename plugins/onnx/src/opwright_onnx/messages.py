"""The messages of onnx without the package around them, whose import takes longer than a load.

Their classes are those of ``import onnx``, whichever is first: protobuf has one for each message.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )

_MODULE: Final = "onnx.onnx_ml_pb2"


def _import_messages() -> ModuleType:
    package = None if "onnx" in sys.modules else find_spec("onnx")
    if package is None:  # imported, or not installed
        return import_module(_MODULE)
    spec = PathFinder.find_spec(_MODULE, package.submodule_search_locations)
    if spec is None or spec.loader is None:  # in an archive
        return import_module(_MODULE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if not TYPE_CHECKING:
    _messages = _import_messages()
    AttributeProto = _messages.AttributeProto
    FunctionProto = _messages.FunctionProto
    GraphProto = _messages.GraphProto
    ModelProto = _messages.ModelProto
    NodeProto = _messages.NodeProto
    SparseTensorProto = _messages.SparseTensorProto
    TensorProto = _messages.TensorProto
    TypeProto = _messages.TypeProto
    ValueInfoProto = _messages.ValueInfoProto

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "SparseTensorProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
]
