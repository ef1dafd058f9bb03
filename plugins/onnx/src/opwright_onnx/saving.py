"""`save`: writes a program as an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

import opwright as ow
from opwright.errors import AttributeTypeError, AttributeValueError, FileMissingError
from opwright.plugin import path_of, suggest_arguments
from opwright.vocabulary import STEP
from opwright_onnx._version import __version__
from opwright_onnx.dtypes import Array, array_dtype, element_type, numpy_dtype
from opwright_onnx.errors import UnsupportedError
from opwright_onnx.writing.writer import Writer

OLDEST_OPSET: Final = 18
USUAL_OPSET: Final = 21
"""The default opset, which runtimes of the last two years read."""

MAX_MESSAGE_BYTES: Final = 2**31 - 2**24
"""The maximum tensor bytes in the model file; larger tensors go to a separate file."""

MIN_EXTERNAL_BYTES: Final = 1024
_ALIGNMENT: Final = 4096
_NOTHING: Final[Mapping[str, str]] = {}


class SaveReport(NamedTuple):
    """The result of `save`.

    Attributes
    ----------
    opset : int
        The opset of the ONNX domain.
    own_nodes : dict of str to str
        The operator types that were written as nodes that only opwright runs, with the reason for
        each.
    files : tuple of Path
        The model file, and the tensor file if one was written.
    """

    opset: int
    own_nodes: Mapping[str, str]
    files: tuple[Path, ...]


@suggest_arguments
def save(
    path: str | os.PathLike[str],
    program: ow.Program | ow.LoadedProgram,
    scope: ow.Scope | None = None,
    fetch: Iterable[ow.Variable | str] | ow.Variable | str | None = None,
    *,
    opset: int = USUAL_OPSET,
    only_onnx: bool = False,
    external_data: bool | None = None,
    metadata: Mapping[str, str] = _NOTHING,
) -> SaveReport:
    """Write the computation of a program for prediction as an ONNX model.

    Feeds, results and parameters keep their names, and dynamic sizes stay dynamic. Parameter
    updates are omitted, and ``training`` is false, as in ``Program.clone(for_inference=True)``. An
    operator without a counterpart in ONNX becomes the nodes of its body, or otherwise one node of
    the domain ``opwright.PLUGIN``, which `load` reads and other runtimes refuse. Checks such as
    ``assert_true`` are omitted.

    Parameters
    ----------
    path : str or PathLike
        The file; an existing file is replaced.
    program : Program or LoadedProgram
    scope : Scope, optional
        Holds the parameters; by default the default scope. It must be omitted for a LoadedProgram.
    fetch : list of Variable or str
        The results; by default the results of the LoadedProgram.
    opset : int, 18 to the newest that onnx knows
    only_onnx : bool
        Refuse operators without a counterpart in ONNX.
    external_data : bool, optional
        Whether tensors are written to a file next to the model, named ``path`` with ``.data``
        appended; by default only if they exceed the limit of one file, 2 GiB.
    metadata : mapping of str to str
        Properties of the model, added to the properties of a loaded model.

    Returns
    -------
    SaveReport
        The operators that only opwright runs, and the written files.

    Raises
    ------
    UnsupportedError
        With `only_onnx`, for an operator without a counterpart in ONNX; also for control flow that
        ONNX cannot express.
    AttributeValueError
        For an opset that is too old or unknown.
    FileMissingError
        If there is no such folder.
    VariableNotFoundError
        If the scope lacks a parameter, or the program a result.

    Examples
    --------
    ::

        report = opwright_onnx.save("mine.onnx", program, scope, fetch=[prob])
        print(report.own_nodes)
    """
    newest = onnx.defs.onnx_opset_version()
    if type(opset) is not int or not OLDEST_OPSET <= opset <= newest:
        raise AttributeValueError(
            f"save: opset must be in [{OLDEST_OPSET}, {newest}], got {opset!r}; newer opsets need "
            "a newer onnx"
        )
    if external_data not in (None, True, False):
        raise AttributeTypeError(
            f"save: external_data must be True, False or None, got {external_data!r}"
        )
    if not isinstance(metadata, Mapping):
        raise AttributeTypeError(f"save: metadata must be a dict of str to str, got {metadata!r}")
    file = Path(path_of("save", path, "file"))
    if not file.parent.is_dir():
        raise FileMissingError(f"save: the folder of the file must exist, got {str(file)!r}")
    writer, model = write_model(_as_loaded(program, scope, fetch), opset, metadata)
    if only_onnx and writer.own:
        found = ", ".join(f"{name} ({why})" for name, why in sorted(writer.own.items()))
        raise UnsupportedError(
            f"save: every operator must have a counterpart in ONNX with only_onnx, got {found}; "
            "omit only_onnx for a model that opwright reads"
        )
    files = _write_files(file, model, writer.arrays, external_data)
    return SaveReport(opset, dict(sorted(writer.own.items())), files)


def _as_loaded(program: Any, scope: Any, fetch: Any) -> ow.LoadedProgram:
    if isinstance(program, ow.LoadedProgram):
        if scope is not None:
            raise AttributeTypeError(
                "save: scope must be omitted for a LoadedProgram, which has its own scope"
            )
        if fetch is None:
            return program
        names = _list_names(fetch)
        return ow.LoadedProgram(program.program, program.scope, names, notes=program.notes)
    if not isinstance(program, ow.Program):
        raise AttributeTypeError(
            f"save: program must be a Program or a LoadedProgram, got {type(program).__name__}"
        )
    return ow.LoadedProgram(
        program, ow.default_scope() if scope is None else scope, _list_names(fetch)
    )


def _list_names(fetch: Any) -> list[str]:
    listed = [fetch] if isinstance(fetch, (str, ow.Variable)) else list(fetch or ())
    if not listed:
        raise AttributeValueError("save: fetch must name at least one result, got none")
    return [item.name if isinstance(item, ow.Variable) else item for item in listed]


def write_model(
    loaded: ow.LoadedProgram,
    opset: int,
    metadata: Mapping[str, str] = _NOTHING,
    *,
    only_own: bool = False,
) -> tuple[Writer, ModelProto]:
    """Return the writer, which holds the initializers, and the model without initializers.

    With `only_own`, every operator without a block becomes a node of an opwright domain.
    """
    fetches = [spec.name for spec in loaded.fetches]
    if not fetches:
        raise AttributeValueError("save: fetch must name at least one result, got none")
    program = loaded.program.clone(for_inference=True).prune(fetches)
    block = program.global_block()
    writer = Writer(program, opset, only_own=only_own)
    notes = loaded.notes.get("onnx", {})
    inputs = []
    read = [*ow.names_read_first(block.ops), *_read_inside(program), *fetches]
    written = {name for op in block.ops for name in op.output_names()}
    feeds = [n for n in loaded.program_feeds if n in read]
    feeds += [n for n in dict.fromkeys(read) if n in block.vars and n not in feeds]
    for name in feeds:
        variable = block.var(name)
        if variable.persistable:
            writer.enter(name, _read_value(loaded.scope, variable))
        elif name in loaded.program_feeds or name not in written:
            dims = notes.get("dims", {}).get(name) or _name_dims(name, variable)
            inputs.append(writer.enter(name, variable, dims))
    for op in block.ops:
        writer.write(op)
    names = notes.get("dims", {})
    outputs = [writer.describe(writer.finish(n), block.var(n), names.get(n)) for n in fetches]
    graph = helper.make_graph(writer.nodes, "opwright", inputs, outputs, value_info=writer.infos)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, 1) for d in sorted(writer.domains - {""})]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        producer_name="opwright",
        producer_version=__version__,
        ir_version=max(10, helper.find_min_ir_version_for(imports, ignore_unknown=True)),
    )
    helper.set_model_props(model, {**notes.get("metadata", {}), **metadata})
    return writer, model


def _read_value(scope: ow.Scope, variable: ow.Variable) -> Array:
    held = scope.var(variable.name)
    if variable.name == STEP and not held.is_set:  # every program starts at step 0
        return np.zeros(variable.shape or (), numpy_dtype(str(variable.dtype)))
    return held.numpy()


def _read_inside(program: ow.Program) -> list[str]:
    """Return the names that operators of inner blocks read."""
    return [name for block in program.blocks[1:] for op in block.ops for name in op.input_names()]


def _name_dims(name: str, variable: ow.Variable) -> list[str]:
    return [f"{name}_{i}" for i in range(len(variable.shape or ()))]


def _write_files(
    path: Path, model: ModelProto, arrays: Mapping[str, Array], external: bool | None
) -> tuple[Path, ...]:
    """Write the model; tensors go to a separate file on request, or if they are too large."""
    used = _find_used(model.graph)
    kept = {name: array for name, array in arrays.items() if name in used}
    if external is None:
        external = sum(array.nbytes for array in kept.values()) > MAX_MESSAGE_BYTES
    data = path.with_name(path.name + ".data")
    fresh = [_beside(path)] + [_beside(data)] * external
    try:
        if external:
            with fresh[1].open("wb") as file:
                for name, array in kept.items():
                    model.graph.initializer.append(_write_tensor(file, name, array, data.name))
        else:
            model.graph.initializer.extend(make_tensor(n, a) for n, a in kept.items())
        fresh[0].write_bytes(model.SerializeToString())
        if external:
            fresh[1].replace(data)
        fresh[0].replace(path)
    finally:
        for each in fresh:
            each.unlink(missing_ok=True)
    return (path, data) if external else (path,)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _find_used(graph: Any) -> set[str]:
    """Return the names that a graph and its inner graphs read."""
    used = {output.name for output in graph.output}
    for node in graph.node:
        used.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                used |= _find_used(attribute.g)
    return used


def make_tensor(name: str, array: Array) -> TensorProto:
    """Return an array as an initializer."""
    if array_dtype(array) in ("int4", "uint4"):
        number = element_type(array_dtype(array))
        return helper.make_tensor(name, number, array.shape, array.astype(np.int8).ravel().tolist())
    tensor: TensorProto = numpy_helper.from_array(
        np.ascontiguousarray(array).reshape(array.shape), name
    )
    return tensor


def _write_tensor(file: Any, name: str, array: Array, location: str) -> TensorProto:
    """Write a tensor to the file of external tensors; a small tensor is stored in the message."""
    if array.nbytes < MIN_EXTERNAL_BYTES or array_dtype(array) in ("int4", "uint4"):
        return make_tensor(name, array)
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    tensor = TensorProto(name=name, data_type=element_type(array_dtype(array)), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    file.write(np.ascontiguousarray(array).view(np.uint8).data)
    return tensor
