"""Training steps as sequences of computation and communication events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from opwright_dist import DistError
from opwright_dist.names import DEFAULT_BUCKET_BYTES


class Compute(NamedTuple):
    """A computation of the process.

    Attributes
    ----------
    seconds : float
        The duration on an otherwise idle core or device.
    label : str
        The label in plots.
    """

    seconds: float
    label: str


class Start(NamedTuple):
    """The start of an asynchronous collective.

    Attributes
    ----------
    key : int
        A key that is unique in a step and shared with its `Wait`.
    collective : str
        The name without ``dist.``.
    size_bytes : int
        As in `Network.cost`.
    """

    key: int
    collective: str
    size_bytes: int


class Wait(NamedTuple):
    """The point at which the process needs the result of a collective."""

    key: int


Event: TypeAlias = Compute | Start | Wait


class Step(NamedTuple):
    """One training step of one process.

    Attributes
    ----------
    events : tuple of Compute, Start or Wait
        The events in order.
    examples : int
        The number of examples per process and step, for rates; 0 if unknown.
    """

    events: tuple[Event, ...]
    examples: int = 0

    @property
    def compute_s(self) -> float:
        """Duration of the step in seconds without communication."""
        return sum(event.seconds for event in self.events if isinstance(event, Compute))

    @property
    def sent_bytes(self) -> int:
        """Total bytes of all collectives in one step."""
        return sum(event.size_bytes for event in self.events if isinstance(event, Start))


_BACKWARD_SHARE: Final = 2 / 3
"""The fraction of a layer's arithmetic that computes gradients of its inputs and weights."""


def step_of_layers(
    layers: Sequence[tuple[float, int]],
    *,
    update_s: float = 0.0,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    examples: int = 0,
) -> Step:
    """Return the step of a network, given estimates for its layers.

    The forward pass takes a third of the time of each layer. The backward pass runs from the last
    layer to the first, and completed gradients are sent in buckets. All updates are at the end.

    Parameters
    ----------
    layers : sequence of (float, int)
        The layers from input to output: seconds of forward and backward, and bytes of parameters.
    update_s : float
        Seconds of the optimizer update.
    bucket_bytes : int
        Maximum bytes of a bucket; a larger gradient is sent in one piece.
    examples : int
        As in `Step`.

    Raises
    ------
    DistError
        If there are no layers, or a value is negative.
    """
    if not layers or min(map(min, layers)) < 0 or update_s < 0 or bucket_bytes < 1:
        raise DistError(
            "step_of_layers: layers must be pairs of non-negative seconds and bytes, got "
            f"{list(layers)!r}, update_s={update_s}, bucket_bytes={bucket_bytes}"
        )
    total_s = sum(seconds for seconds, _ in layers)
    events: list[Event] = [Compute((1 - _BACKWARD_SHARE) * total_s, "forward")]
    keys: list[int] = []
    bucket = 0
    for number, (seconds, size_bytes) in reversed(list(enumerate(layers))):
        events.append(Compute(_BACKWARD_SHARE * seconds, f"backward {number}"))
        bucket += size_bytes
        if bucket >= bucket_bytes or (number == 0 and bucket):
            keys.append(len(keys))
            events.append(Start(keys[-1], "all_reduce", bucket))
            bucket = 0
    events += map(Wait, keys)
    return Step((*events, Compute(update_s, "update")), examples)
