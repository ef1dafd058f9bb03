"""Saving a Model to a folder, loading its parameters, and resuming its training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import FileMissingError, ProgramError
from opwright.vocabulary import STEP
from opwright_nn import arguments, checks, fields
from opwright_nn.checkpoint.comparing import (
    check_same,
    compare_operators,
    fitting_values,
    list_some,
    op_types,
    shared_values,
)
from opwright_nn.checkpoint.reading import Saved, describe_saved, has_program, read_saved
from opwright_nn.checkpoint.weights import load_weights, transposed
from opwright_nn.datasets.batches import Batches
from opwright_nn.datasets.position import check_position
from opwright_nn.layers.inputs import Input
from opwright_nn.model.inference import inference_program, persistable_names
from opwright_nn.model.layer_methods import LayerMethods
from opwright_nn.model.startup import Startup
from opwright_nn.model.trained_parameters import match_names
from opwright_nn.optimizer import Optimizer
from opwright_nn.parallel import check_alike, own_values, save_once, whole_program

Array = npt.NDArray[Any]

POSITION: Final = "opwright_nn.position"
"""The key of the data position among the notes of a save."""


class ModelFiles(LayerMethods):
    """The methods of a `Model` that read and write files, described in `Model`."""

    scope: ow.Scope
    optimizer: Optimizer | None
    _startup: Startup

    @arguments.suggest
    def save(
        self, path: str | os.PathLike[str], batches: Batches[Any] | None = None, *, keep: int = 2
    ) -> None:
        """Write program, parameters and optimizer states, for `resume` and `load_parameter`.

        All processes that train together call `save`, and the first process writes.

        Parameters
        ----------
        path : str or PathLike
            The folder; see `opwright.save` for its files, also after a crash.
        batches : Batches, optional
            The iterator used for training. `resume` continues after its last batch, so call `save`
            when the step with that batch is done.
        keep : int, at least 1
            The number of saves that the folder keeps, including this one.
        """
        who = "Model.save"
        checks.check_instance(who, "batches", batches, Batches)
        self._startup.check_initialized(who, self.program)
        notes = {} if batches is None else {POSITION: batches.position}

        def write(program: ow.Program, scope: ow.Scope | None) -> None:
            ow.save(path, program, scope, self._fetches(), keep=keep, notes=notes)

        save_once(who, self.program, self.scope, write)

    @arguments.suggest
    def export(
        self,
        path: str | os.PathLike[str],
        outputs: Input | Iterable[Input],
        *,
        keep: int = 2,
    ) -> None:
        """Write only the computation of `predict`; `opwright.load` does not need the model's code.

        The program does not contain the loss, gradients or updates, and the files do not contain
        optimizer states. The feeds of the program are the inputs on which `outputs` depend.
        ``opwright lock`` and ``opwright graph`` show the program as it is served. `save` writes
        everything that training needs.

        Parameters
        ----------
        path : str or PathLike
            The folder; see `opwright.save` for its files.
        outputs : Variable or str, or list of these
            The results of a call of the loaded program, in this order.
        keep : int, at least 1
            The number of exports that the folder keeps, including this one.

        Raises
        ------
        VariableNotFoundError
            An output is not a variable of the model.
        ProgramError
            A parameter has no value yet.
        """
        who = "Model.export"
        is_single = isinstance(outputs, ow.Variable | str)
        names = self._get_names(who, "outputs", [outputs] if is_single else outputs)

        def write(program: ow.Program, scope: ow.Scope | None) -> None:
            ow.save(path, inference_program(program, names), scope, names, keep=keep)

        self._startup.check_initialized(who, inference_program(self.program, names))
        save_once(who, self.program, self.scope, write)

    @arguments.suggest
    def resume(
        self,
        path: str | os.PathLike[str],
        batches: Batches[Any] | None = None,
        *,
        missing_ok: bool = False,
    ) -> bool:
        """Continue training from a `save` as if it had not been interrupted.

        `resume` restores everything that later steps depend on: parameters, optimizer states,
        learning rate, the seed and the step of random numbers, and the position in the data. On the
        same machine, with the same releases and number of threads, later steps are bitwise
        identical.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        batches : Batches, optional
            Created with the same arguments as for `save`; they continue after the last batch.
            Required if `save` got batches, and refused if it did not.
        missing_ok : bool
            Whether to return False instead of raising if nothing has been saved yet.

        Returns
        -------
        bool
            Whether the folder contained a saved model.

        Raises
        ------
        FileMissingError
            The folder has no saved model.
        ProgramError
            This model and the saved model differ in an operator; nothing is changed.
        AttributeTypeError, AttributeValueError
            The batches were created with other arguments; nothing is changed.
        """
        who = "Model.resume"
        checks.check_instance(who, "batches", batches, Batches)
        try:
            saved: Saved | None = read_saved(path)
        except FileMissingError:
            if not checks.check_bool(who, "missing_ok", missing_ok) or has_program(path):
                raise
            saved = None
        check_alike(who, self.program, "saved model", lambda: describe_saved(saved))
        if saved is None:
            return False
        whole = whole_program(who, self.program)
        values = fitting_values(who, path, whole, saved)
        with saved.reading_notes():
            position = fields.optional(check_position)(POSITION, saved.notes.get(POSITION))
        check_same(who, path, whole, saved, values)
        if (position is None) is not (batches is None):
            state = "no position" if position is None else "a position"
            raise ProgramError(
                f"{who}: batches must be passed to both Model.save and {who}, or to neither: "
                f"{os.fspath(path)} has {state} in the data; pass the same argument to both"
            )
        if batches is not None and position is not None:
            batches.restore(position)
        self._load_values(saved, own_values(who, self.program, values))
        return True

    @arguments.suggest
    def load_parameter(
        self,
        path: str | os.PathLike[str],
        *,
        only: Iterable[ow.Variable | str] | ow.Variable | str | None = None,
        strict: bool = True,
    ) -> list[str]:
        """Load parameters and optimizer states from a folder that `save` wrote.

        The folder must have exactly the parameters of this model, with their shapes. The next `run`
        initializes optimizer states that are not in the folder. The seed and the step of random
        numbers are also loaded; the learning rate of this model is kept. `resume` loads everything.

        With `only`, or without `strict`, the method loads only parameters and states of layers, for
        a model that shares layers with the saved model.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        only : Variable or str, or iterable of these, optional
            Names of parameters to load; may be patterns: ``"backbone_*"``.
        strict : bool
            False skips parameters that the folder lacks or has with a different shape or dtype.

        Returns
        -------
        list of str The names of the loaded parameters.

        Raises
        ------
        ProgramError
            The folder lacks a requested parameter; without `strict`, it has none of them.

        Warns
        -----
        RuntimeWarning
            The saved model has the same operators, but its training used a different learning rate
            or different attributes.
        """
        who = "Model.load_parameter"
        saved = read_saved(path)
        if only is not None or not checks.check_bool(who, "strict", strict):
            return self._load_part(who, path, saved, only, strict)
        # The learning rate of this script is used, not the saved rate.
        ignored = () if self.optimizer is None else (self.optimizer.learning_rate.name,)
        whole = whole_program(who, self.program)
        values = fitting_values(who, path, whole, saved, ignored)
        differences = self._list_differences(whole, saved)
        self._load_values(saved, own_values(who, self.program, values))
        if differences:
            warnings.warn(
                f"{who}: training does not continue as in {os.fspath(path)}: "
                f"{'; '.join(differences)}; model.resume loads everything from there",
                RuntimeWarning,
                stacklevel=3,
            )
        return list(values)

    def _load_part(
        self, who: str, path: str | os.PathLike[str], saved: Saved, only: Any, strict: bool
    ) -> list[str]:
        """Load parameters and states of layers that the model shares with a saved model."""
        forward = self.program.clone(for_inference=True)
        names = [name for name in persistable_names(forward) if name != STEP]
        if only is not None:
            names = match_names(who, only, names)
        values, problems = shared_values(whole_program(who, self.program), saved, names)
        if problems and (strict or not values):
            raise ProgramError(
                f"{who}: {os.fspath(path)} must hold {'all' if strict else 'some'} of the "
                f"variables to load, got {list_some(problems)}; choose with only=[...], or pass "
                "strict=False to skip missing variables"
            )
        own = own_values(who, self.program, values)
        for name, array in own.items():
            self.scope.var(name).set(array)
        self._startup.note_loaded({name: array.shape for name, array in own.items()})
        return list(own)

    @arguments.suggest
    def load_weights(
        self,
        path: str | os.PathLike[str],
        names: Mapping[str, str | transposed],
        *,
        strict: bool = True,
    ) -> None:
        """Load parameters from a safetensors file, such as a PyTorch ``state_dict``.

        The arguments are the same as for `checkpoint.load_weights`. The next `run` initializes the
        other parameters that have no value.
        """
        load_weights(path, self.program, self.scope, names, strict=strict)
        self._startup.note_loaded({})

    def _load_values(self, saved: Saved, values: Mapping[str, Array]) -> None:
        for name, array in values.items():
            self.scope.var(name).set(array)
        self.program.seed = saved.program.seed
        self._startup.note_loaded({name: array.shape for name, array in values.items()})

    def _list_differences(self, program: ow.Program, saved: Saved) -> list[str]:
        """Return the differences that would change how training continues."""
        optimizer = self.optimizer
        if optimizer is None or op_types(program) != op_types(saved.program):
            return []  # another model, or one without an optimizer
        name = optimizer.learning_rate.name
        own, other = self.scope.find_var(name), saved.scope.find_var(name)
        rate = float(np.float32(optimizer.initial_learning_rate))
        if own is not None and own.is_set:
            rate = own.numpy().item()
        problems = []
        if optimizer.schedule is None and other is not None and (other.numpy() != rate).any():
            problems.append(f"learning rate {rate:g} instead of {other.numpy().ravel()[0]:g}")
        return problems + compare_operators(program, saved.program)
