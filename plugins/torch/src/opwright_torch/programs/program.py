"""`to_program` and `to_state_dict`, which convert PyTorch models to opwright programs and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

import opwright as ow
from opwright import LoadedProgram, vocabulary
from opwright.errors import OperatorNotFoundError, SettingError
from opwright.plugin import suggest_arguments
from opwright_torch.plans.building import write_state
from opwright_torch.programs.examples import read_model
from opwright_torch.programs.exporting import Exported, export
from opwright_torch.translate import Declined, Translated, translate

NOTE: Final = "state_dict"
"""The program note that maps names in ``model.state_dict()`` to variables."""


@suggest_arguments
def to_program(
    model: torch.nn.Module,
    example_inputs: Any,
    dynamic: Any = None,
    *,
    trainable: bool | None = None,
) -> LoadedProgram:
    """Convert a PyTorch model to an opwright program with a copy of its parameters.

    The program does not need PyTorch. In processes without PyTorch, the program can be called,
    saved by ``save``, loaded by `opwright.load`, and compiled for other devices.

    Parameters
    ----------
    model : torch.nn.Module
        It is captured in its current mode; call ``model.eval()`` for inference. In training mode,
        dropout is active and batch normalization updates its statistics. Calls of the result run
        inference in both cases.
    example_inputs : tuple or dict
        Arguments of ``forward``, by position or by name. Tensors are fed by argument name, or by
        their path in a list or dict, such as ``"states.0"``. Other values become constants.
    dynamic : bool, dict, tuple or list, optional
        The dimensions that differ between calls, in the form of ``dynamic_shapes`` of
        `torch.export.export`, for some of the inputs: ``{"x": {0: "batch", 1: Dim("n",
        max=512)}}``. A string is a dimension without bounds; dimensions with the same string are
        equal. True means every dimension that the model does not fix. By default all dimensions are
        fixed.
    trainable : bool, optional
        Whether parameters that require gradients become trainable parameters of the program.
        Default: ``model.training``.

    Returns
    -------
    LoadedProgram
        Its results are named after the keys of a dict or ``ModelOutput``. A single tensor is named
        ``"output"``, and the first of several is named ``"output.0"``. An input that the model
        writes, such as a cache, is written by plans that are compiled with it in ``writes``; its
        new value is also a result. A result with the name of an input has the suffix ``".new"``.

    Raises
    ------
    OperatorNotFoundError
        For operators without a counterpart in opwright; the message lists all of them.
    SettingError
        For inputs and results that are not tensors, and for dynamic dimensions that the model
        fixes.
    Exception
        Errors of `torch.export.export`, if it cannot capture the model.

    Notes
    -----
    A dimension is captured for sizes of at least 2. Size 1 runs the same graph, even if the code of
    the model would behave differently. Other conditions of the model are checked for each new
    shape: ``reshape`` fails if a condition is violated.
    """
    model = read_model(model)
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
    """Name the results and append writes of mutated inputs; return the result names."""
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
    """Return one line per operator and reason, followed by the model lines that use it."""
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
        The program, which may have been saved and loaded, or trained.

    Returns
    -------
    dict of str to torch.Tensor
        The names of ``model.state_dict()`` with copies of the values; tied parameters share a copy.

    Raises
    ------
    SettingError
        For a program that was not created by `to_program`.
    """
    names = getattr(loaded, "notes", {}).get(NOTE)
    if not isinstance(names, Mapping):
        raise SettingError(
            "to_state_dict: loaded must be a program from opwright_torch.to_program, got "
            f"{loaded!r}; for other programs use parameters()"
        )
    values = {name: _tensor(loaded.scope, name) for name in dict.fromkeys(names.values())}
    return {name: values[variable] for name, variable in names.items()}


def _tensor(scope: ow.Scope, name: str) -> torch.Tensor:
    variable = scope.var(name)
    return torch.from_dlpack(variable.tensor()).clone()
