"""Writes the ``.pyi`` of ``opwright.ops``: the signature of every operator, for type checkers.

Functions are created when they are first used, so no type checker sees them in the source. The stub
is one file so that it can be replaced in one step. Operators that share a prefix are methods of a
class, because they have no module that could be imported.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from opwright.op import (
    AttrProto,
    AttrType,
    OpDefinition,
    OpProto,
    VarProto,
    make_docstring,
    returns_on_request,
)

# Operators are lower_snake and begin with a letter, so their names never clash with these.
_HEADER: Final = '''\
"""The operators of opwright.ops as they were installed when `opwright stubs` wrote this file.

{packages}
"""

import builtins as _builtins
from typing import Any as _Any
from typing import List as _List
from typing import Literal as _Literal
from typing import Protocol as _Protocol
from typing import Sequence as _Sequence
from typing import Tuple as _Tuple
from typing import Type as _Type
from typing import TypeAlias as _TypeAlias
from typing import overload as _overload

import numpy as _np
from typing_extensions import TypeVar as _TypeVar

from opwright.program import Variable as _Variable

class _DLPackArray(_Protocol):
    """An array of another library, such as CuPy, PyTorch or JAX."""

    def __dlpack__(self, *, stream: _Any = None) -> _Any: ...
    def __dlpack_device__(self) -> _Tuple[_Any, _Any]: ...

_NumPyArray: _TypeAlias = _np.ndarray[_Any, _Any]

# The first input decides the type of the result: a Variable, or an array of the same library.
_Array = _TypeVar("_Array", _Variable, _NumPyArray, _DLPackArray, default=_NumPyArray)

_Plain: _TypeAlias = _builtins.complex | _np.generic | _List[_Any] | _Tuple[_Any, ...]
_Input: _TypeAlias = _Variable | _NumPyArray | _DLPackArray | _Plain
_Int: _TypeAlias = _builtins.int | _np.integer[_Any]
_Float: _TypeAlias = _builtins.float | _np.floating[_Any] | _np.integer[_Any]
_Bool: _TypeAlias = _builtins.bool | _np.bool_
_Str: _TypeAlias = _builtins.str
_DType: _TypeAlias = _np.dtype[_Any] | _Type[_Any]
'''

_TYPES: Final = {
    AttrType.INT: "_Int",
    AttrType.FLOAT: "_Float",
    AttrType.STRING: "_Str",
    AttrType.BOOL: "_Bool",
    AttrType.BLOCK: "_Int",
}


def make_stub(definitions: Iterable[OpDefinition], packages: Sequence[str]) -> str:
    """Return the text of ``opwright/ops/__init__.pyi``; equal operators give equal text.

    Parameters
    ----------
    definitions : iterable of OpDefinition
        The operators; plan-only operators, which cannot be called, are skipped.
    packages : sequence of str
        Their package, ``"opwright-std 0.1.0"``.
    """
    spaces: dict[str, list[OpDefinition]] = {}
    for definition in sorted(definitions, key=lambda item: item.op_type):
        if not definition.plan_only:
            space = definition.op_type.rpartition(".")[0]
            spaces.setdefault(space, []).append(definition)
    plain = spaces.pop("", [])
    parts = [_HEADER.format(packages="\n".join(packages) or "No plugin is installed.")]
    parts += [_function(definition) for definition in plain]
    taken = {definition.op_type for definition in plain}
    parts += [_space(name, members) for name, members in spaces.items() if name not in taken]
    return "\n".join(parts)


def _space(name: str, definitions: Sequence[OpDefinition]) -> str:
    """Return a class for the operators of one plugin: ``opwright.ops.<name>.<operator>``."""
    methods = "\n".join(_function(definition, "_self, ") for definition in definitions)
    body = textwrap.indent(methods, "    ")
    return f"class _{name}_ops:\n{body}\n{name}: _{name}_ops\n"


def _function(definition: OpDefinition, first: str = "") -> str:
    proto = definition.proto
    parameters = ", ".join([*_inputs(proto), *_attributes(proto)])
    name = proto.type.rpartition(".")[2]
    doc = make_docstring(definition).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    head = f"def {name}({first}{parameters}) -> {_result(proto)}:".replace("(_self, )", "(_self)")
    body = f'{head}\n    """{textwrap.indent(doc, "    ").lstrip()}\n    """\n'
    if not returns_on_request(proto):
        return body
    star = "" if proto.attrs else "*, "
    taken = f"{first}{parameters}, {star}" if parameters else f"{first}{star}"
    asked = "".join(
        f"@_overload\ndef {name}({taken}returns: {kind}) -> {result}: ...\n"
        for kind, result in _requests(proto)
    )
    return f"@_overload\n{body}{asked}"


def _requests(proto: OpProto) -> list[tuple[str, str]]:
    """Return the types of ``returns``, and of the result for requested outputs."""
    array = "_Array" if proto.inputs else "_NumPyArray"
    one = "_Tuple[{}, ...]" if any(slot.duplicable for slot in proto.outputs) else "{}"
    return [
        ("_Str", one.format(array)),
        ("_List[_Str] | _Tuple[_Str, ...]", f"_Tuple[{array}, ...]"),
    ]


def _inputs(proto: OpProto) -> list[str]:
    parameters = []
    may_lack = False
    for index, slot in enumerate(proto.inputs):
        kind = _input_type(slot, decides=index == 0)
        may_lack = may_lack or slot.optional
        # A required input after an optional one may also be passed by position.
        default = " = None" if slot.optional else " = ..."
        parameters.append(f"{slot.name}: {kind}{default if may_lack else ''}")
    return parameters


def _input_type(slot: VarProto, decides: bool) -> str:
    if slot.duplicable:
        kind = "_Sequence[_Array]" if decides else "_Sequence[_Input]"
    else:
        kind = "_Array | _Plain" if decides else "_Input"
    return f"{kind} | None" if slot.optional else kind


def _attributes(proto: OpProto) -> list[str]:
    parameters = ["*"] if proto.attrs else []
    for attr in proto.attrs:
        kind = _attribute_type(attr)
        if attr.required:
            parameters.append(f"{attr.name}: {kind}")
        elif attr.has_default:
            parameters.append(f"{attr.name}: {kind} = {_literal(attr.default)}")
        else:
            parameters.append(f"{attr.name}: {kind} | None = None")
    return parameters


def _attribute_type(attr: AttrProto) -> str:
    kind = _TYPES[attr.type.element]
    if attr.allowed and attr.type.element is not AttrType.FLOAT:
        kind = f"_Literal[{', '.join(map(repr, attr.allowed))}]"
    if attr.is_dtype:
        kind = f"{kind} | _DType"
    if attr.operand:
        kind = f"{kind} | _Variable"
    if not attr.type.is_list:
        return kind
    alone = "" if attr.type is AttrType.STRINGS else f" | {kind}"  # a number means all
    return f"_Sequence[{kind}]{alone}"


def _literal(value: object) -> str:
    """Return a default as a Python literal, or ``...`` for infinities, which have no literal."""
    if isinstance(value, tuple):
        return "..." if "..." in (items := [*map(_literal, value)]) else f"({_joined(items)})"
    return "..." if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _joined(items: Sequence[str]) -> str:
    return f"{items[0]}," if len(items) == 1 else ", ".join(items)


def _result(proto: OpProto) -> str:
    """Return the type of a call's result: outputs that are neither intermediate nor optional."""
    array = "_Array" if proto.inputs else "_NumPyArray"
    slots = [slot for slot in proto.outputs if not slot.intermediate]
    if any(slot.duplicable for slot in slots):
        return f"_Tuple[{array}, ...]"
    if len(slots) == 1:
        return array
    arrays = [array for slot in slots if not slot.optional]
    return f"_Tuple[{', '.join(arrays)}]" if arrays else "_Tuple[()]"
