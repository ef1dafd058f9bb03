"""Saving a Model, taking parameters from a folder, and going on with a training that was ended."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright import load_program
from opwright.errors import FileMissingError, ProgramError
from opwright.op import format_shape, shapes_match

from . import checks
from .batches import Batches
from .deferred import Shape
from .model_layers import ModelLayers
from .optimizer import Optimizer
from .startup import Startup

Array = npt.NDArray[Any]

_MAX_LISTED: Final = 8
_POSITION: Final = "opwright_nn.position"


class ModelFiles(ModelLayers):
    """What a `Model` has to do with files; see there."""

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
            The folder; see `opwright.save` for what it holds, and for what a crash leaves in it.
        batches : Batches, optional
            What the training iterates over. `resume` goes on behind the batch that it gave last:
            call `save` when the step with that one is done.
        keep : int, at least 1
            How many saves are left in the folder, this one among them.
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
        """Go on with the training that `save` wrote, as if it had never been ended.

        Everything that later steps depend on comes back: parameters, states of the optimizer,
        learning rate, the seed and the step of random numbers, and the position in the data. On
        the same machine and releases, with as many threads, what follows is the same bit for bit.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        batches : Batches, optional
            Made as those that were given to `save`; they go on behind the last one. Required where
            `save` was given some, and refused where it was not.
        missing_ok : bool
            True returns False where nothing has been saved yet, instead of raising.

        Returns
        -------
        bool
            Whether there was something to go on with.

        Raises
        ------
        FileMissingError
            Where the folder holds no saved model.
        ProgramError
            Where the model is another one than was saved, in any operator; nothing is changed.
        AttributeTypeError, AttributeValueError
            Where the batches are made otherwise; nothing is changed.
        """
        who = "Model.resume"
        checks.check_instance(who, "batches", batches, Batches)
        try:
            saved = _load(path)
        except FileMissingError:
            if checks.check_bool(who, "missing_ok", missing_ok) and not _has_program(path):
                return False
            raise
        found = _fitting_values(who, path, self.program, saved)
        position = saved.notes.get(_POSITION)
        _check_same(who, path, self.program, saved, found)
        if (position is None) is not (batches is None):
            got = "none was saved" if position is None else "one was saved"
            raise ProgramError(
                f"{who}: batches must be given if they were given to Model.save, and only then: "
                f"{got} in {os.fspath(path)}; call both with the same argument"
            )
        if batches is not None and position is not None:
            batches.restore(position)
        self._take(saved, found)
        return True

    def load_parameter(self, path: str | os.PathLike[str]) -> None:
        """Take parameters and optimizer states from a folder that `save` wrote.

        Every parameter of this model must be in it, with its shape, and no other. States of the
        optimizer that are not in it are initialized by the next `run`. The seed and the step of
        random numbers are those of the folder, too; the learning rate stays that of this model.
        `resume` takes everything.

        Warns
        -----
        RuntimeWarning
            Where this is the model that was saved, but its training will go on otherwise: with
            another learning rate, or with other attributes of operators.
        """
        who = "Model.load_parameter"
        saved = _load(path)
        # The learning rate is what the script says, not what another one said.
        leave = () if self.optimizer is None else (self.optimizer.learning_rate.name,)
        found = _fitting_values(who, path, self.program, saved, leave)
        differences = self._list_differences(saved)
        self._take(saved, found)
        if differences:
            warnings.warn(
                f"{who}: training does not go on as in {os.fspath(path)}: "
                f"{'; '.join(differences)}; model.resume takes everything from there",
                RuntimeWarning,
                stacklevel=2,
            )

    def _take(self, saved: _Saved, found: Mapping[str, Array]) -> None:
        for name, array in found.items():
            self.scope.var(name).set(array)
        self.program.seed = saved.program.seed
        self._startup.note_loaded({name: array.shape for name, array in found.items()})

    def _list_differences(self, saved: _Saved) -> list[str]:
        """What makes the training of the model that was saved go on otherwise."""
        optimizer = self.optimizer
        if optimizer is None or _op_types(self.program) != _op_types(saved.program):
            return []  # another model, or none that is trained
        name = optimizer.learning_rate.name
        held, kept = self.scope.find_var(name), saved.scope.find_var(name)
        own = float(np.float32(optimizer.initial_learning_rate))
        if held is not None and held.is_set:
            own = held.numpy().item()
        problems = []
        if kept is not None and kept.numpy().item() != own:
            problems.append(f"learning rate {own:g} instead of {kept.numpy().item():g}")
        return problems + _compare_operators(self.program, saved.program)


class _Saved(NamedTuple):
    program: ow.Program
    scope: ow.Scope
    notes: Mapping[str, Any]


def _load(path: str | os.PathLike[str]) -> _Saved:
    held = ow.Scope()
    loaded = ow.load(path, held)
    return _Saved(loaded.program, held, loaded.notes)


def _has_program(path: str | os.PathLike[str]) -> bool:
    try:
        load_program(path)
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
    leave: Collection[str] = (),
) -> dict[str, Array]:
    """Return the saved values of the persistable variables that a program has, too.

    Parameters
    ----------
    who, path : str
        For messages.
    program : Program
        Its parameters must be those that were saved, in name, shape and dtype.
    saved : _Saved
        What was loaded.
    leave : collection of str
        Names of variables that are left out.

    Raises
    ------
    ProgramError
        Naming the parameters that are missing, extra or misshapen.
    """
    wanted = [var for var in _persistables(program) if var.name not in leave]
    values = {var.name: saved.scope.find_var(var.name) for var in wanted}
    problems = _compare_names(program, saved.program)
    for variable in wanted:
        value = values[variable.name]
        if value is not None:
            problems += _compare_metas(variable, value.shape or (), value.dtype or "")
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold the parameters of this model, got "
            f"{_list_some(problems)}; build the same model as was saved"
        )
    return {name: value.numpy() for name, value in values.items() if value is not None}


def _check_same(
    who: str,
    path: str | os.PathLike[str],
    program: ow.Program,
    saved: _Saved,
    found: Collection[str],
) -> None:
    """Raise ProgramError unless a program is the one that was saved, with all that it keeps."""
    problems = _compare_operators(program, saved.program)
    problems += [
        f"none for {var.name!r}" for var in _persistables(program) if var.name not in found
    ]
    if problems:
        raise ProgramError(
            f"{who}: {os.fspath(path)} must hold this model, got {_list_some(problems)}; build the "
            "same model as was saved, or take its parameters alone: model.load_parameter(folder)"
        )


def _list_some(problems: list[str]) -> str:
    more = f" and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
    return f"{'; '.join(problems[:_MAX_LISTED])}{more}"


def _op_types(program: ow.Program) -> list[list[str]]:
    return [[op.type for op in block.ops] for block in program.blocks]


def _compare_operators(program: ow.Program, saved: ow.Program) -> list[str]:
    """Name the first operator that is another one; its streams and attributes are part of it."""
    own = [_describe(op) for block in program.blocks for op in block.ops]
    theirs = [_describe(op) for block in saved.blocks for op in block.ops]
    for index, (mine, other) in enumerate(zip(own, theirs, strict=False)):
        for name in dict.fromkeys([*mine, *other]):
            if mine.get(name) != other.get(name):
                got = f"{name} {other.get(name)} instead of {mine.get(name)}"
                return [f"operator {index}, {mine['type']}, with {got}"]
    if len(own) != len(theirs):
        return [f"{len(theirs)} operators instead of {len(own)}"]
    return []


def _describe(op: ow.Operator) -> dict[str, str]:
    """All that an operator is, as text: equal where the operators are."""
    return {
        "type": op.type,
        **{f"input {slot}": str(list(names)) for slot, names in op.inputs.items() if names},
        **{f"output {slot}": str(list(names)) for slot, names in op.outputs.items() if names},
        **{name: repr(value) for name, value in op.attrs.items()},
    }


def _compare_names(program: ow.Program, saved: ow.Program) -> list[str]:
    own = {parameter.name: None for parameter in program.parameters()}
    theirs = {parameter.name: None for parameter in saved.parameters()}
    return [
        *[f"none for {name!r}" for name in own if name not in theirs],
        *[f"{name!r}, which the model lacks" for name in theirs if name not in own],
    ]


def _compare_metas(variable: ow.Variable, shape: Shape, dtype: str) -> list[str]:
    wanted = shape if variable.shape is None else variable.shape
    if shapes_match(wanted, shape) and dtype == variable.dtype:
        return []
    found, asked = f"{dtype}{format_shape(shape)}", f"{variable.dtype}{format_shape(wanted)}"
    return [f"{variable.name!r} as {found} instead of {asked}"]
