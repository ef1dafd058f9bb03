"""Callback: functions called between the steps of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright_nn.training.training import Training

Step = Callable[..., Sequence[Any]]
"""``step(**feeds)`` returns a list whose first value is the loss."""


class Callback:
    """The base class of `train` callbacks; a subclass overrides the methods that it needs.

    ::

        class PrintRate(nn.Callback):
            def after_epoch(self, training, record):
                print(record["epoch"], training.learning_rate)

    Attributes
    ----------
    every_steps : int or None
        `after_steps` is called after every `every_steps` training steps; None for never.
    is_last : bool
        Whether it is called after the other callbacks, as needed for saving their decisions.
    """

    every_steps: int | None = None
    is_last: bool = False

    def begin(self, training: Training) -> None:
        """Check the requirements of the callback, before the first step."""

    def wrap_step(self, training: Training, step: Step) -> Step:
        """Return a replacement of ``step(**feeds) -> list``; called before each epoch."""
        return step

    def after_steps(self, training: Training) -> None:
        """Run the callback after every `every_steps` training steps."""

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Run the callback after an epoch; `record` is the row of the epoch in the history."""

    def end(self, training: Training) -> None:
        """Run the callback after the last step, also after Ctrl-C."""

    def finish(self, training: Training) -> None:
        """Set values for the caller that checkpoints do not contain; not called after Ctrl-C.

        The method is called after the `end` of all callbacks.
        """

    def state(self) -> dict[str, Any]:
        """Return the state of the callback for a checkpoint, in JSON types."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
