"""Writes event files of TensorBoard, by tensorboardX or tensorboard, which are optional."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opwright.errors import MissingRequirementError
from opwright_nn import arguments
from opwright_nn.training.callback import Callback

if TYPE_CHECKING:
    from opwright_nn.training.training import Training


class EventWriter:
    """An event file with a curve for each column of a history.

    Parameters
    ----------
    folder : str or PathLike
        Where the file is made; ``tensorboard --logdir folder`` shows it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._writer = _open_writer(os.fspath(folder))

    def add(self, record: Mapping[str, float]) -> None:
        """Append a row of a history; its column "steps" is the axis."""
        for name, value in record.items():
            if name not in {"epoch", "steps"}:
                self._writer.add_scalar(name, value, int(record["steps"]))
        self._writer.flush()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()


class TensorBoard(Callback):
    """Write a row after each epoch to an event file, to watch the training in TensorBoard.

    Parameters
    ----------
    folder : str or PathLike
        Where the event file is made.
    """

    @arguments.suggest
    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = folder
        self._writer: EventWriter | None = None

    def begin(self, training: Training) -> None:
        """Open the file, in the first of processes that train together.

        MissingRequirementError where no writer is installed.
        """
        self._writer = EventWriter(self._folder) if training.is_first else None

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Write the row."""
        if self._writer is not None:
            self._writer.add(record)

    def end(self, training: Training) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.__exit__(None, None, None)


class _PlainWriter:
    """The part of tensorboardX's SummaryWriter that is needed, by tensorboard's own writer."""

    def __init__(self, folder: str) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._file = EventFileWriter(folder)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Append a point of a curve."""
        point = self._summary.Value(tag=name, simple_value=value)
        summary = self._summary(value=[point])
        self._file.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """Write what was added to the disk."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _open_writer(folder: str) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        pass
    else:
        return SummaryWriter(folder)
    try:
        return _PlainWriter(folder)
    except ImportError as error:
        raise MissingRequirementError(
            "TensorBoard: tensorboardX or tensorboard must be installed to write event files, got "
            f"{error}; run: pip install tensorboardX"
        ) from None
