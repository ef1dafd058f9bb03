"""Captures the graph of a model with `torch.export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, TensorArgument
from torch.fx import GraphModule, Node
from torch.fx.experimental import _config
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from opwright.errors import SettingError
from opwright_torch.capture import Captured, capture
from opwright_torch.capture.recurrent import open_lengths
from opwright_torch.programs.dimensions import Dimensions
from opwright_torch.programs.examples import read_examples

aten = torch.ops.aten


class Exported(NamedTuple):
    """A captured graph, with the names of its inputs and outputs."""

    captured: Captured
    tensors: dict[int, tuple[str, torch.Tensor]]  # parameters, buffers and constants, by input
    feeds: dict[int, str]  # other inputs
    results: list[str]  # names of the captured outputs
    state: dict[str, str]  # the tensor for each name in state_dict()
    conditions: list[Any]  # conditions on sizes


def export(model: torch.nn.Module, example_inputs: Any, dynamic: Any, trainable: bool) -> Exported:
    """Return the graph of a model; errors of `torch.export` propagate."""
    args, kwargs = read_examples(example_inputs)
    parameters = signature(model.forward).parameters
    try:
        bound = signature(model.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise SettingError(
            f"to_program: example_inputs must be the arguments of forward{signature(model.forward)}"
            f", got {_count(args, kwargs)}: {error}"
        ) from error
    if dynamic:
        _check_named(kwargs, parameters)
    dimensions = Dimensions(bound.arguments, dynamic)
    sizes = _config.patch(backed_size_oblivious=True)
    with sizes, open_lengths(), torch.set_grad_enabled(trainable):
        program = torch.export.export(
            model, args, kwargs, dynamic_shapes=dimensions.given, strict=False
        )
        names = _first_names(model)
        tensors = _take_tensors(program, model, names)
        module = program.graph_module
        feeds = dict(_name_feeds(program, _name_positions(parameters, len(args))))
        for node in _placeholders(module):
            if node.name not in tensors and node.name not in feeds:  # stored in the graph
                module.graph.erase_node(node)
        results = _own_results(program)
        _show_values(module)
        inputs = _placeholders(module)
        given = [
            tensors[node.name][1] if node.name in tensors else node.meta["val"] for node in inputs
        ]
        captured = capture(module, given)
        shapes = {feeds[n.name]: n.meta["val"].shape for n in inputs if n.name in feeds}
        conditions = dimensions.conditions(shapes, captured.module.graph)
    return Exported(
        captured,
        {i: tensors[node.name] for i, node in enumerate(inputs) if node.name in tensors},
        {i: feeds[node.name] for i, node in enumerate(inputs) if node.name in feeds},
        results,
        {name: names[id(t)] for name, t in model.state_dict(keep_vars=True).items()},
        conditions,
    )


def _check_named(given: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise SettingError for inputs among ``**kwargs``, which `torch.export` does not name."""
    for name in given:
        if name not in parameters:
            raise SettingError(
                "to_program: with dynamic=, example_inputs must be named arguments of "
                f"forward, got {name!r}, which is passed through **; there are "
                f"{', '.join(parameters)}"
            )


def _placeholders(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _first_names(model: torch.nn.Module) -> dict[int, str]:
    """Return the name of each parameter and buffer by identity, and the first name if tied."""
    names: dict[int, str] = {}
    for owned in (model.named_parameters, model.named_buffers):
        for name, tensor in owned(remove_duplicate=False):
            names.setdefault(id(tensor), name)
    return names


def _take_tensors(
    program: ExportedProgram, model: torch.nn.Module, names: Mapping[int, str]
) -> dict[str, tuple[str, torch.Tensor]]:
    """Return names and values of unfed placeholders; tied tensors get their first name."""
    signature = program.graph_signature
    nodes = {node.name: node for node in _placeholders(program.graph_module)}
    found: dict[str, tuple[str, torch.Tensor]] = {}
    firsts: dict[str, Node] = {}
    for spec in signature.input_specs:
        if spec.target is None or not isinstance(spec.arg, TensorArgument):
            continue
        tensor = _find_tensor(program, model, spec.target)
        name, node = names.get(id(tensor), spec.target), nodes[spec.arg.name]
        first = firsts.setdefault(name, node)
        if first is node:
            found[node.name] = name, tensor
        else:
            node.replace_all_uses_with(first)
            program.graph_module.graph.erase_node(node)
    return found


def _find_tensor(program: ExportedProgram, model: torch.nn.Module, target: str) -> torch.Tensor:
    """Return the model's tensor, which is identical for tied names, or a program constant."""
    owner, _, name = target.rpartition(".")
    try:
        value = getattr(model.get_submodule(owner), name)
    except AttributeError:
        value = None
    return value if isinstance(value, torch.Tensor) else program.constants[target]


def _count(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return f"{len(args)} by position" if args or not kwargs else ", ".join(kwargs)


def _name_positions(parameters: Mapping[str, Parameter], count: int) -> list[str]:
    """Return the names of the first arguments; ``*rest`` becomes ``rest.0``, ``rest.1``, ..."""
    names: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return names + [f"{name}.{i}" for i in range(count - len(names))]
        names.append(name)
    return names


def _name_feeds(program: ExportedProgram, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield placeholder and name of each fed tensor; names consist of an argument and a path."""
    inputs = [s for s in program.graph_signature.input_specs if s.target is None]
    placed = [s for s in inputs if s.kind.name == "USER_INPUT"]
    for path, given in zip(_paths(program.call_spec.in_spec), placed, strict=True):
        if isinstance(given.arg, ConstantArgument):
            continue
        if not isinstance(given.arg, TensorArgument):
            raise SettingError(
                f"to_program: example_inputs must be tensors, got {given.arg} for {path}; "
                "remove numbers from dynamic="
            )
        kind, *rest = map(key_text, path)
        first = (
            arguments[int(rest[0])] if kind == "0" and int(rest[0]) < len(arguments) else rest[0]
        )
        yield given.arg.name, ".".join([first, *rest[1:]])


def _paths(spec: Any) -> list[Any]:
    """Return the path of each leaf of a structure."""
    stand_ins = [torch.empty(0) for _ in range(spec.num_leaves)]
    return [path for path, _ in tree_flatten_with_path(tree_unflatten(stand_ins, spec))[0]]


def key_text(key: Any) -> str:
    """Return one component of a path: an index, a dict key, or an attribute."""
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def _own_results(program: ExportedProgram) -> list[str]:
    """Copy returned tensors so that none of them share memory, and return their names."""
    graph = program.graph_module.graph
    paths = [
        ".".join(["output"] * (not _is_named(path)) + [*map(key_text, path)])
        for path in _paths(program.call_spec.out_spec)
    ]
    (output,) = (node for node in graph.nodes if node.op == "output")
    kept, names = [], []
    values = output.args[0][len(output.args[0]) - len(paths) :]
    for name, value in zip(paths, values, strict=True):
        if value is None:
            continue
        if not isinstance(value, Node) or not isinstance(value.meta["val"], torch.Tensor):
            shown = value.meta["val"] if isinstance(value, Node) else value
            raise SettingError(
                f"to_program: the model must return tensors, got {name}={shown!r}; remove "
                "it from the results of forward"
            )
        with graph.inserting_before(output):
            copied = graph.call_function(aten.clone.default, (value,))
        copied.meta["val"] = aten.clone.default(value.meta["val"])
        kept.append(copied)
        names.append(name)
    if not names:
        raise SettingError("to_program: the model must return tensors, got none")
    output.args = (tuple(kept),)
    program.graph_module.recompile()
    return names


def _is_named(path: Sequence[Any]) -> bool:
    return bool(path) and not key_text(path[0]).isdigit()


def _show_values(module: GraphModule) -> None:
    """Set the example value of each node as Dynamo does, also in nested graphs."""
    for part in module.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.nodes:
                if "val" in node.meta:
                    node.meta["example_value"] = node.meta["val"]
