"""`to_program` and `to_state_dict`: PyTorch models as programs of opwright."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

import opwright as ow
from opwright import LoadedProgram, vocabulary
from opwright.errors import OperatorNotFoundError, SettingError
from opwright.plugin import suggest_arguments
from opwright_torch.plans.building import write_state
from opwright_torch.programs.exporting import Exported, export
from opwright_torch.translate import Declined, Translated, translate

NOTE: Final = "state_dict"
"""The note of a program with the variable of each name in ``model.state_dict()``."""


@suggest_arguments
def to_program(
    model: torch.nn.Module,
    example_inputs: Any,
    dynamic: Any = None,
    *,
    trainable: bool | None = None,
) -> LoadedProgram:
    """Convert a PyTorch model to a program of opwright, with a copy of its parameters.

    The program does not need PyTorch: it can be called, saved by ``save``, loaded by
    `opwright.load`, and compiled for other devices in processes without it.

    Parameters
    ----------
    model : torch.nn.Module
        Captured in its current mode: ``model.eval()`` for inference. In training mode dropout is
        active and batch normalization updates its statistics; calls of the result run inference in
        either case.
    example_inputs : tuple or dict
        Arguments of ``forward``, by position or by name. Tensors are fed by the argument's name, or
        by their path in a list or dict, ``"states.0"``; other values become constants.
    dynamic : bool, dict, tuple or list, optional
        The dimensions that differ between calls, as ``dynamic_shapes`` of `torch.export.export`,
        for some of the inputs: ``{"x": {0: "batch", 1: Dim("n", max=512)}}``. A string is also
        allowed: a dimension without bounds, equal in all places. True: every dimension that the
        model does not fix. Default: none.
    trainable : bool, optional
        Whether parameters that require gradients become trainable parameters of the program.
        Default: ``model.training``.

    Returns
    -------
    LoadedProgram
        Its results are named by the keys of a dict or ``ModelOutput``, ``"output"`` for one tensor,
        ``"output.0"`` for the first of several. An input that the model writes, such as a cache, is
        written by plans compiled with it in ``writes``; its new value is a result, too. A result
        with the name of an input has the suffix ``".new"``.

    Raises
    ------
    OperatorNotFoundError
        For operators without a counterpart in opwright; the message lists all of them.
    SettingError
        For inputs and results that are not tensors, and dimensions that the model fixes.
    Exception
        Errors of `torch.export.export`, if it cannot capture the model.

    Notes
    -----
    A dimension is captured for sizes of at least 2. Size 1 runs the same graph, even if the model's
    code would differ. Other conditions of the model are checked for each new shape: ``reshape``
    fails if one is violated.
    """
    if not isinstance(model, torch.nn.Module):
        raise SettingError(
            f"to_program: model must be a torch.nn.Module, got {type(model).__name__}; wrap a "
            "function in a module"
        )
    if trainable not in (None, True, False):
        raise SettingError(f"to_program: trainable must be True, False or None, got {trainable!r}")
    is_trained = model.training if trainable is None else trainable
    exported = export(model, example_inputs, dynamic, is_trained)
    translated = _translate(exported, is_trained)
    if translated.declined:
        raise OperatorNotFoundError(_refusal(translated.declined))
    fetches = _finish(exported, translated)
    feeds = [str(translated.inputs[i]) for i in exported.feeds]
    variables = {name: str(translated.inputs[i]) for i, (name, _) in exported.tensors.items()}
    state = {name: variables[tensor] for name, tensor in exported.state.items()}
    return LoadedProgram(
        translated.program,
        _fill_scope(exported, translated),
        fetches,
        feeds,
        notes={NOTE: state},
    )


def _translate(exported: Exported, is_trained: bool) -> Translated:
    module = exported.captured.module
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    for i, node in enumerate(inputs):
        node.meta["name"] = exported.tensors[i][0] if i in exported.tensors else exported.feeds[i]
    trained = [i for i, (_, t) in exported.tensors.items() if is_trained and t.requires_grad]
    return translate(
        module.graph, module, {}, exported.tensors, trained, exported.conditions, alone=True
    )


def _finish(exported: Exported, translated: Translated) -> list[str]:
    """Name the results, and append writes of mutated inputs; return the names of the results."""
    program = translated.program
    block = program.global_block()
    fetches = []
    named = [(name, o.position) for name, o in zip(exported.results, exported.captured.outputs)]
    state = []
    for mutation in exported.captured.mutations:
        variable = str(translated.inputs[mutation.input])
        value = translated.outputs[mutation.position].name
        if value != variable:  # batch normalization writes its statistics itself
            state.append((variable, value))
        if mutation.input in exported.feeds and variable not in exported.results:
            named.append((variable, mutation.position))
    for name, position in named:
        fetches.append(program.take_name(name if block.find_var(name) is None else f"{name}.new"))
        value = translated.outputs[position].name
        block.append_op(vocabulary.ASSIGN, {"x": value}, {"out": fetches[-1]})
    write_state(block, state)
    return fetches


def _fill_scope(exported: Exported, translated: Translated) -> ow.Scope:
    scope = ow.Scope()
    held = [(str(translated.inputs[i]), tensor) for i, (_, tensor) in exported.tensors.items()]
    for name, tensor in (*held, *translated.constants.items()):
        scope.var(name).set(tensor.detach().cpu().contiguous().clone())
    return scope


def _refusal(declined: list[Declined]) -> str:
    """Return one line per operator and reason, with the model's lines that use it."""
    places: dict[str, dict[str, None]] = {}
    for node, reason in declined:
        lines = (node.meta.get("stack_trace") or "").rstrip().splitlines()
        found = places.setdefault(f"  {node.target}: {reason}", {})
        found["\n".join(f"    {line.strip()}" for line in lines[-2:])] = None
    shown = "\n".join(f"{what}\n" + "\n".join(lines) for what, lines in places.items())
    return (
        f"to_program: every operator must have a counterpart in opwright, got {len(declined)} "
        f"without one; replace them in the model, or add rows for them\n{shown}"
    )


def to_state_dict(loaded: LoadedProgram) -> dict[str, torch.Tensor]:
    """Return the values of a program from `to_program`, for ``model.load_state_dict``.

    Parameters
    ----------
    loaded : LoadedProgram
        May have been saved and loaded, or trained.

    Returns
    -------
    dict of str to torch.Tensor
        The names of ``model.state_dict()`` with copies of the values; tied parameters share one.

    Raises
    ------
    SettingError
        For a program not created by `to_program`.
    """
    names = getattr(loaded, "notes", {}).get(NOTE)
    if not isinstance(names, Mapping):
        raise SettingError(
            f"to_state_dict: must be given a program of opwright_torch.to_program, got {loaded!r}; "
            "for other programs use parameters()"
        )
    values = {name: _tensor(loaded.scope, name) for name in dict.fromkeys(names.values())}
    return {name: values[variable] for name, variable in names.items()}


def _tensor(scope: ow.Scope, name: str) -> torch.Tensor:
    variable = scope.var(name)
    return torch.from_dlpack(variable.tensor()).clone()
