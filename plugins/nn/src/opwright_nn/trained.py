"""Which parameters the optimizer of a Model serves, and that nothing said of it is ignored."""

from __future__ import annotations

from collections.abc import Iterable

import opwright as ow
from opwright.errors import AttributeTypeError, ProgramError
from opwright.plugin import hint
from opwright.plugin import record_undo as record

from .optimizer.base import Pair


class TrainedParameters:
    """Knows what ``trainable`` was when gradients and updates were appended.

    Parameters
    ----------
    program : Program
        Holds the parameters.
    """

    def __init__(self, program: ow.Program) -> None:
        self._program = program
        self._flags: dict[str, bool] = {}

    def note_flags(self) -> None:
        """Take note of what is trainable: operators that follow from it were appended now."""
        record(setattr, self, "_flags", self._flags)
        self._flags = {param.name: param.trainable for param in self._program.parameters()}

    def choose(
        self,
        who: str,
        pairs: Iterable[Pair],
        parameters: Iterable[ow.Variable | str] | ow.Variable | str | None,
    ) -> list[Pair]:
        """Return the pairs of parameter and gradient that an optimizer is to serve.

        Parameters
        ----------
        who : str
            The caller, for messages.
        pairs : iterable of (Variable, Variable)
            All parameters that have gradients.
        parameters : iterable of Variable or str, optional
            Which of them; by default all that are trainable now.

        Raises
        ------
        ProgramError
            One of `parameters` has no gradient; one has become trainable behind `backward`.
        """
        found = {parameter.name: (parameter, gradient) for parameter, gradient in pairs}
        if parameters is None:
            for name in self._changed(to=True):
                raise ProgramError(
                    f"{who}: what is trainable must be so before model.backward, got {name!r}, "
                    "which has no gradient; set trainable=True earlier"
                )
            kept = found.values()
            return [pair for pair in kept if getattr(pair[0], "trainable", True)]
        listed = [parameters] if isinstance(parameters, ow.Variable | str) else parameters
        if not isinstance(listed, Iterable):
            raise AttributeTypeError(
                f"{who}: parameters must be a list of variables or names, got {parameters!r}; "
                "write parameters=['fc_0_w_param'], for example"
            )
        names = [item.name if isinstance(item, ow.Variable) else item for item in listed]
        for name in names:
            if name not in found:
                raise ProgramError(
                    f"{who}: parameters must have gradients by model.backward, got "
                    f"{name!r}{hint(str(name), found, 'parameters')}"
                )
        return [found[name] for name in dict.fromkeys(names)]

    def check_unchanged(self, who: str) -> None:
        """Raise ProgramError where ``trainable`` was set too late to change what is trained."""
        for value in (False, True):
            for name in self._changed(to=value):
                raise ProgramError(
                    f"{who}: trainable must be set before the optimizer is appended, got "
                    f"trainable={value} of {name!r} since; set it between model.backward and "
                    "model.optimize, or build the layer with nn.ParamAttr(trainable=...)"
                )

    def _changed(self, to: bool) -> list[str]:
        """The parameters whose ``trainable`` became this since it was noted."""
        return [
            param.name
            for param in self._program.parameters()
            if param.trainable is to and self._flags.get(param.name, to) is not to
        ]
