"""The parameters that the optimizer of a Model trains, and checks for late changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import opwright as ow
from opwright.errors import AttributeTypeError, ProgramError, VariableNotFoundError
from opwright.plugin import find_moving_ops, hint, record_undo
from opwright_nn.optimizer.base import Pair
from opwright_nn.optimizer.sharding import find_updates


class TrainedParameters:
    """Selects trained parameters; records the value of ``trainable`` when operators were
    appended.

    Parameters
    ----------
    program : Program
        The program of the parameters.
    """

    def __init__(self, program: ow.Program) -> None:
        self._program = program
        self._flags: dict[str, bool] = {}
        self._left_out: dict[str, tuple[Any, ...]] = {}
        self._stopped: frozenset[str] = frozenset()

    def change(self, who: str, names: Iterable[str], value: bool, has_updates: bool) -> None:
        """Set whether parameters are trainable; remove or restore their existing updates.

        Raises
        ------
        ProgramError
            A parameter has no update that could be restored.
        """
        parameters = {parameter.name: parameter for parameter in self._program.parameters()}
        for name in names:
            parameter = parameters[name]
            if has_updates and parameter.trainable is not value:
                if value:
                    self._take_back(who, name)
                else:
                    self._leave_out(name)
                flags = {**self._flags, name: value}
                record_undo(setattr, self, "_flags", self._flags)
                self._flags = flags
            record_undo(setattr, parameter, "trainable", parameter.trainable)
            parameter.trainable = value
        self._settle_statistics(frozenset(names))

    def _settle_statistics(self, names: frozenset[str]) -> None:
        """Make layers whose parameters are all frozen use their running statistics without
        updating them.

        Otherwise a frozen backbone would change with every batch.
        """
        trainable = {p.name: p.trainable for p in self._program.parameters()}
        for ops in find_moving_ops(self._program.global_block()):
            own = [name for name in ops[0].input_names() if name in trainable]
            if names.isdisjoint(own):
                continue
            key, frozen = next(iter(ops[0].output_names())), not any(trainable[n] for n in own)
            if frozen and ops[0].attrs["training"] is True:
                self._set_training(ops, False, self._stopped | {key})
            elif not frozen and key in self._stopped:
                self._set_training(ops, True, self._stopped - {key})

    def _set_training(
        self, ops: Iterable[ow.Operator], value: bool, stopped: frozenset[str]
    ) -> None:
        for op in ops:
            record_undo(op.attrs.__setitem__, "training", op.attrs["training"])
            op.attrs["training"] = value
        record_undo(setattr, self, "_stopped", self._stopped)
        self._stopped = stopped
        self._program.touch()

    def _leave_out(self, name: str) -> None:
        block = self._program.global_block()
        updates = find_updates(block, name)
        before = self._left_out
        record_undo(setattr, self, "_left_out", before)
        parts = tuple((op.type, op.inputs, op.outputs, op.attrs) for op in updates)
        self._left_out = {**before, name: parts}
        block.replace_ops([op for op in block.ops if op not in updates])

    def _take_back(self, who: str, name: str) -> None:
        before = self._left_out
        if name not in before:
            raise ProgramError(
                f"{who}: parameters must have an update, got {name!r}, which was not trainable "
                "when the updates were appended; build the model with it trainable, and call "
                "model.freeze after the optimizer"
            )
        record_undo(setattr, self, "_left_out", before)
        self._left_out = {key: parts for key, parts in before.items() if key != name}
        for op_type, inputs, outputs, attrs in before[name]:
            self._program.global_block().append_op(op_type, inputs, outputs, attrs)

    def note_flags(self) -> None:
        """Record which parameters are trainable when operators for them are appended."""
        record_undo(setattr, self, "_flags", self._flags)
        self._flags = {param.name: param.trainable for param in self._program.parameters()}

    def choose(
        self,
        who: str,
        pairs: Iterable[Pair],
        parameters: Iterable[ow.Variable | str] | ow.Variable | str | None,
    ) -> list[Pair]:
        """Return the pairs of parameter and gradient that an optimizer trains.

        Parameters
        ----------
        who : str
            The caller, for messages.
        pairs : iterable of (Variable, Variable)
            All parameters with gradients.
        parameters : iterable of Variable or str, optional
            The parameters to train; by default all parameters that are currently trainable.

        Raises
        ------
        ProgramError
            A parameter in `parameters` has no gradient, or became trainable after `backward`.
        """
        by_name = {parameter.name: (parameter, gradient) for parameter, gradient in pairs}
        if parameters is None:
            for name in self._changed(to=True):
                raise ProgramError(
                    f"{who}: parameters must be trainable before model.backward, got {name!r}, "
                    "which has no gradient; set trainable=True earlier"
                )
            return [pair for pair in by_name.values() if getattr(pair[0], "trainable", True)]
        items = [parameters] if isinstance(parameters, ow.Variable | str) else parameters
        if not isinstance(items, Iterable):
            raise AttributeTypeError(
                f"{who}: parameters must be a list of variables or names, got {parameters!r}; "
                "write parameters=['fc_0_w_param'], for example"
            )
        names = [item.name if isinstance(item, ow.Variable) else item for item in items]
        for name in names:
            if name not in by_name:
                raise ProgramError(
                    f"{who}: parameters must have gradients from model.backward, got "
                    f"{name!r}{hint(str(name), by_name, 'parameters')}"
                )
        return [by_name[name] for name in dict.fromkeys(names)]

    def check_unchanged(self, who: str) -> None:
        """Raise ProgramError if a change of parameters came too late to have an effect."""
        for parameter in self._program.parameters():
            if parameter.trainable and parameter.name not in self._flags:
                raise ProgramError(
                    f"{who}: layers must be appended before the optimizer, got "
                    f"{parameter.name!r} after it, which would never be trained; move its layer "
                    "before model.minimize, or set nn.ParamAttr(trainable=False)"
                )
        for value in (False, True):
            for name in self._changed(to=value):
                raise ProgramError(
                    f"{who}: trainable must be set before the optimizer is appended, got "
                    f"trainable={value} of {name!r} after it; call "
                    f"model.{'unfreeze' if value else 'freeze'}({name!r}) instead"
                )

    def _changed(self, to: bool) -> list[str]:
        """Return the parameters whose ``trainable`` is now `to`, but was recorded otherwise."""
        return [
            param.name
            for param in self._program.parameters()
            if param.trainable is to and self._flags.get(param.name, to) is not to
        ]


def match_names(who: str, patterns: object, known: Sequence[str]) -> list[str]:
    """Return the known names that match variables, names or patterns such as ``"fc_*"``.

    Raises
    ------
    VariableNotFoundError
        One of them matches nothing.
    """
    items = [patterns] if isinstance(patterns, ow.Variable | str) else patterns
    if not isinstance(items, Iterable):
        raise AttributeTypeError(
            f"{who}: parameters must be a list of variables, names or patterns, got {patterns!r} "
            f"({type(patterns).__name__}); write ['backbone_*'], for example"
        )
    matches: list[str] = []
    for item in items:
        pattern = item.name if isinstance(item, ow.Variable) else str(item)
        fitting = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
        if not fitting:
            raise VariableNotFoundError(
                f"{who}: each name or pattern must fit a variable of the model, "
                f"got {pattern!r}{hint(pattern, known, 'names')}"
            )
        matches += fitting
    return list(dict.fromkeys(matches))
