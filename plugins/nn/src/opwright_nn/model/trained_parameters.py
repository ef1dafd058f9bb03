"""The parameters that the optimizer of a Model trains, and checks of late changes to these."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
from opwright.errors import AttributeTypeError, ProgramError
from opwright.plugin import hint, record_undo
from opwright_nn.optimizer.base import Pair


class TrainedParameters:
    """Selects trained parameters; remembers ``trainable`` as it was when operators were appended.

    Parameters
    ----------
    program : Program
        Holds the parameters.
    """

    def __init__(self, program: ow.Program) -> None:
        self._program = program
        self._flags: dict[str, bool] = {}

    def note_flags(self) -> None:
        """Note which parameters are trainable now, when operators for these are appended."""
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
            The parameters to train; by default all that are trainable now.

        Raises
        ------
        ProgramError
            One of `parameters` has no gradient, or one became trainable after `backward`.
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
                    f"{who}: parameters must have gradients by model.backward, got "
                    f"{name!r}{hint(str(name), by_name, 'parameters')}"
                )
        return [by_name[name] for name in dict.fromkeys(names)]

    def check_unchanged(self, who: str) -> None:
        """Raise ProgramError if ``trainable`` was changed too late to have an effect."""
        for value in (False, True):
            for name in self._changed(to=value):
                raise ProgramError(
                    f"{who}: trainable must be set before the optimizer is appended, got "
                    f"trainable={value} of {name!r} after it; set it between model.backward and "
                    "model.optimize, or build the layer with nn.ParamAttr(trainable=...)"
                )

    def _changed(self, to: bool) -> list[str]:
        """Return the parameters whose ``trainable`` became this since it was noted."""
        return [
            param.name
            for param in self._program.parameters()
            if param.trainable is to and self._flags.get(param.name, to) is not to
        ]
