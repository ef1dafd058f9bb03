"""Saving a Model to a folder, loading its parameters, and resuming its training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import FileMissingError, ProgramError
from opwright.op import format_shape, shapes_match
from opwright_nn import checks
from opwright_nn.datasets.batches import Batches
from opwright_nn.model.layer_methods import LayerMethods
from opwright_nn.model.startup import Startup
from opwright_nn.optimizer import Optimizer
from opwright_nn.parameters.deferred import Shape

Array = npt.NDArray[Any]

_MAX_LISTED: Final = 8
_POSITION: Final = "opwright_nn.position"


class ModelFiles(LayerMethods):
    """The methods of a `Model` that read and write files; see there."""

    scope: ow.Scope
    optimizer: Optimizer | None
    _startup: Startup

    def _fetches(self) -> list[str]:
        raise NotImplementedError

    def save(
        self, path: str | os.PathLike[str], batches: Batches | None = None, *, keep: int = 2
    ) -> None:
        """Write program, parameters and optimizer states, for `resume` and `load_parameter`.

        Parameters
        ----------
        path : str or PathLike
            The folder; see `opwright.save` for its files, and for what a crash leaves in it.
        batches : Batches, optional
            The iterator of the training. `resume` continues after its last batch: call `save` when
            the step with that batch is done.
        keep : int, at least 1
            How many saves the folder keeps, including this one.
        """
        who = "Model.save"
        checks.check_instance(who, "batches", batches, Batches)
        self._startup.check_initialized(who, self.program)
        notes = {} if batches is None else {_POSITION: batches.position}
        ow.save(path, self.program, self.scope, self._fetches(), keep=keep, notes=notes)

    def resume(
        self,
        path: str | os.PathLike[str],
        batches: Batches | None = None,
        *,
        missing_ok: bool = False,
    ) -> bool:
        """Continue the training that `save` wrote as if it had not been interrupted.

        It restores everything that later steps depend on: parameters, states of the optimizer,
        learning rate, the seed and the step of random numbers, and the position in the data. On
        the same machine, with the same releases and number of threads, later steps have the same
        bits.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        batches : Batches, optional
            Created with the same arguments as those that were passed to `save`; they continue
            after the last one. Required if `save` got batches, and refused if it did not.
        missing_ok : bool
            True returns False if nothing has been saved yet, instead of raising.

        Returns
        -------
        bool
            Whether the folder held a saved model.

        Raises
        ------
        FileMissingError
            The folder holds no saved model.
        ProgramError
            This model and the saved one differ in an operator; nothing is changed.
        AttributeTypeError, AttributeValueError
            The batches were created with other arguments; nothing is changed.
        """
        who = "Model.resume"
        checks.check_instance(who, "batches", batches, Batches)
        try:
            saved = _load(path)
        except FileMissingError:
            if checks.check_bool(who, "missing_ok", missing_ok) and not _has_program(path):
                return False
            raise
        values = _fitting_values(who, path, self.program, saved)
        position = saved.notes.get(_POSITION)
        _check_same(who, path, self.program, saved, values)
        if (position is None) is not (batches is None):
            state = "no position" if position is None else "a position"
            raise ProgramError(
                f"{who}: batches must be passed if they were passed to Model.save, and only then: "
                f"{os.fspath(path)} has {state} in the data; call both with the same argument"
            )
        if batches is not None and position is not None:
            batches.restore(position)
        self._load_values(saved, values)
        return True

    def load_parameter(self, path: str | os.PathLike[str]) -> None:
        """Load parameters and optimizer states from a folder that `save` wrote.

        The folder must hold exactly the parameters of this model, with their shapes. The next `run`
        initializes states of the optimizer that are not in it. The seed and the step of random
        numbers are loaded, too; the learning rate remains that of this model. `resume` loads
        everything.

        Warns
        -----
        RuntimeWarning
            The saved model has the same operators, but its training used another learning rate or
            other attributes.
        """
        who = "Model.load_parameter"
        saved = _load(path)
        # The learning rate is that of this script, not that of the saved model.
        ignored = () if self.optimizer is None else (self.optimizer.learning_rate.name,)
        values = _fitting_values(who, path, self.program, saved, ignored)
        differences = self._list_differences(saved)
        self._load_values(saved, values)
        if differences:
            warnings.warn(
                f"{who}: training does not continue as in {os.fspath(path)}: "
                f"{'; '.join(differences)}; model.resume loads everything from there",
                RuntimeWarning,
                stacklevel=2,
            )

    def _load_values(self, saved: _Saved, values: Mapping[str, Array]) -> None:
        for name, array in values.items():
            self.scope.var(name).set(array)
        self.program.seed = saved.program.seed
        self._startup.note_loaded({name: array.shape for name, array in values.items()})

    def _list_differences(self, saved: _Saved) -> list[str]:
        """Return the differences that make training continue otherwise than in the saved model."""
        optimizer = self.optimizer
        if optimizer is None or _op_types(self.program) != _op_types(saved.program):
            return []  # another model, or one without an optimizer
        name = optimizer.learning_rate.name
        own, other = self.scope.find_var(name), saved.scope.find_var(name)
        rate = float(np.float32(optimizer.initial_learning_rate))
        if own is not None and own.is_set:
            rate = own.numpy().item()
        problems = []
        if other is not None and other.numpy().item() != rate:
            problems.append(f"learning rate {rate:g} instead of {other.numpy().item():g}")
        return problems + _compare_operators(self.program, saved.program)


class _Saved(NamedTuple):
    program: ow.Program
    scope: ow.Scope
    notes: Mapping[str, Any]


def _load(path: str | os.PathLike[str]) -> _Saved:
    scope = ow.Scope()
    model = ow.load(path, scope)
    return _Saved(model.program, scope, model.notes)


def _has_program(path: str | os.PathLike[str]) -> bool:
    try:
        ow.load_program(path)
    except FileMissingError:
        return False
    return True


def _persistables(program: ow.Program) -> list[ow.Variable]:
    return [var for var in program.global_block().vars.values() if var.persistable]


def _fitting_values(
    who: str,
    path: str | os.PathLike[str],
    program: ow.Program,
    saved: _Saved,
    ignored: Collection[str] = (),
) -> dict[str, Array]:
    """Return the saved values of the persistable variables of a program.

    Parameters
    ----------
    who, path : str
        For messages.
    program : Program
        Its parameters must be the saved ones, in name, shape and dtype.
    saved : _Saved
        The model in the folder.
    ignored : collection of str
        Names of variables that are not returned.

    Raises
    ------
    ProgramError
        Parameters are missing, superfluous, or of another shape or dtype.
    """
    variables = [var for var in _persistables(program) if var.name not in ignored]
    values = {var.name: saved.scope.find_var(var.name) for var in variables}
    problems = _compare_names(program, saved.program)
    for variable in variables:
        value = values[variable.name]
        if value is not None:
            problems += _compare_metas(variable, value.shape or (), value.dtype or "")
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold the parameters of this model, got "
            f"{_list_some(problems)}; build the same model"
        )
    return {name: value.numpy() for name, value in values.items() if value is not None}


def _check_same(
    who: str,
    path: str | os.PathLike[str],
    program: ow.Program,
    saved: _Saved,
    values: Collection[str],
) -> None:
    """Raise ProgramError unless a program is the saved one, with all persistable variables."""
    problems = _compare_operators(program, saved.program)
    problems += [
        f"none for {var.name!r}" for var in _persistables(program) if var.name not in values
    ]
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold this model, got {_list_some(problems)}; build the "
            "same model, or load its parameters alone: model.load_parameter(folder)"
        )


def _list_some(problems: list[str]) -> str:
    more = f" and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
    return f"{'; '.join(problems[:_MAX_LISTED])}{more}"


def _op_types(program: ow.Program) -> list[list[str]]:
    return [[op.type for op in block.ops] for block in program.blocks]


def _compare_operators(program: ow.Program, saved: ow.Program) -> list[str]:
    """Return the first operator that differs, in attributes and streams, too."""
    own_ops = [_describe(op) for block in program.blocks for op in block.ops]
    other_ops = [_describe(op) for block in saved.blocks for op in block.ops]
    for index, (own, other) in enumerate(zip(own_ops, other_ops, strict=False)):
        for name in dict.fromkeys([*own, *other]):
            if own.get(name) != other.get(name):
                difference = f"{name} {other.get(name)} instead of {own.get(name)}"
                return [f"operator {index}, {own['type']}, with {difference}"]
    if len(own_ops) != len(other_ops):
        return [f"{len(other_ops)} operators instead of {len(own_ops)}"]
    return []


def _describe(op: ow.Operator) -> dict[str, str]:
    """Return an operator as texts by name: those of equal operators are equal."""
    return {
        "type": op.type,
        **{f"input {slot}": str(list(names)) for slot, names in op.inputs.items() if names},
        **{f"output {slot}": str(list(names)) for slot, names in op.outputs.items() if names},
        **{name: repr(value) for name, value in op.attrs.items()},
    }


def _compare_names(program: ow.Program, saved: ow.Program) -> list[str]:
    own = {parameter.name: None for parameter in program.parameters()}
    others = {parameter.name: None for parameter in saved.parameters()}
    return [
        *[f"none for {name!r}" for name in own if name not in others],
        *[f"{name!r}, which the model lacks" for name in others if name not in own],
    ]


def _compare_metas(variable: ow.Variable, shape: Shape, dtype: str) -> list[str]:
    own = shape if variable.shape is None else variable.shape
    if shapes_match(own, shape) and dtype == variable.dtype:
        return []
    meta, own_meta = f"{dtype}{format_shape(shape)}", f"{variable.dtype}{format_shape(own)}"
    return [f"{variable.name!r} as {meta} instead of {own_meta}"]
