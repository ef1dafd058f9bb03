"""Writes TensorBoard event files, with tensorboardX or tensorboard, which are optional."""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import (
    AttributeTypeError,
    MissingRequirementError,
    ProgramError,
    ShapeError,
)
from opwright.plugin import path_of
from opwright_nn import arguments, checks
from opwright_nn.model.trained_parameters import match_names
from opwright_nn.training.callback import Callback

if TYPE_CHECKING:
    from opwright_nn.training.training import Training

Array = npt.NDArray[Any]

_CHANNELS: Final = (1, 3)
_MOST_IMAGES: Final = 16
_COLUMNS: Final = 8
_BUCKETS: Final = 30


class EventWriter:
    """An event file with a curve for each column of a history.

    Parameters
    ----------
    folder : str
        The folder in which the file is created; ``tensorboard --logdir folder`` shows it.
    """

    def __init__(self, folder: str) -> None:
        self._writer = _open_writer(folder)

    def add(self, record: Mapping[str, float]) -> None:
        """Append a row of a history; its column "steps" is the x axis."""
        for name, value in record.items():
            if name not in {"epoch", "steps"}:
                self._writer.add_scalar(name, value, int(record["steps"]))
        self._writer.flush()

    def add_images(self, name: str, images: Array, step: int) -> None:
        """Append an image [height, width, channels], uint8, of images side by side."""
        self._writer.add_image(name, images, step, dataformats="HWC")

    def add_histogram(self, name: str, values: Array, step: int) -> None:
        """Append the distribution of numbers."""
        self._writer.add_histogram(name, values, step)

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

    ::

        nn.TensorBoard(
            "logs",
            histograms="*_w_param",
            images={"samples": lambda: model.predict(picture, z=noise)},
        )

    Parameters
    ----------
    folder : str or PathLike
        The folder in which the event file is created.
    histograms : Variable or str, or list of these, optional
        Parameters and states whose distribution is written after each epoch; names may be patterns:
        ``"*_w_param"``.
    images : mapping of str to callable, optional
        Functions without arguments that return images, called after each epoch: [n, channels,
        height, width] or [n, height, width, channels], of 1 or 3 channels; uint8, or floats in
        [0, 1], clipped to this range. The first 16 are shown, eight per row.
    """

    @arguments.suggest
    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        histograms: Iterable[ow.Variable | str] | ow.Variable | str | None = None,
        images: Mapping[str, Callable[[], Array]] | None = None,
    ) -> None:
        self._folder = path_of("TensorBoard", folder, name="folder")
        self._patterns = histograms
        given = {} if images is None else images
        self._images = dict(checks.check_mapping("TensorBoard", "images", given, "{'x': draw}"))
        for name, function in self._images.items():
            if not callable(function):
                raise AttributeTypeError(
                    f"TensorBoard: images[{name!r}] must be a function that returns images, got "
                    f"{type(function).__name__}; write lambda: model.predict(...)"
                )
        self._writer: EventWriter | None = None

    def begin(self, training: Training) -> None:
        """Open the file, in the first of the processes that train together.

        Raises MissingRequirementError if no writer is installed.
        """
        self._writer = EventWriter(self._folder) if training.is_first else None
        self._match(training)

    def _match(self, training: Training) -> list[str]:
        if self._patterns is None:
            return []
        if training.program is None:
            raise ProgramError(
                "TensorBoard: histograms need the training of a Model, got a step, whose variables "
                "are not known; pass the Model to train"
            )
        variables = training.program.global_block().vars.values()
        known = [variable.name for variable in variables if variable.persistable]
        return match_names("TensorBoard: histograms", self._patterns, known)

    def after_epoch(self, training: Training, record: Mapping[str, float]) -> None:
        """Write the row, then histograms and images."""
        if self._writer is None:
            return
        step = int(record["steps"])
        for name in self._match(training):
            self._writer.add_histogram(name, training.scope.var(name).numpy().ravel(), step)
        for name, function in self._images.items():
            self._writer.add_images(name, _tile(name, np.asarray(function())), step)
        self._writer.add(record)

    def end(self, training: Training) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.__exit__(None, None, None)


class _PlainWriter:
    """The needed subset of tensorboardX's SummaryWriter, based on tensorboard's own writer."""

    def __init__(self, folder: str) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._histogram = summary_pb2.HistogramProto
        self._file = EventFileWriter(folder)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Append a point of a curve."""
        self._add(self._summary.Value(tag=name, simple_value=value), step)

    def add_image(self, name: str, image: Array, step: int, dataformats: str) -> None:
        """Append an image, uint8 [height, width, channels]."""
        height, width, channels = image.shape
        picture = self._summary.Image(height=height, width=width, colorspace=channels)
        picture.encoded_image_string = _encode_png(image)
        self._add(self._summary.Value(tag=name, image=picture), step)

    def add_histogram(self, name: str, values: Array, step: int) -> None:
        """Append a histogram of numbers."""
        numbers = np.asarray(values, np.float64)
        counts, limits = np.histogram(numbers, _BUCKETS)
        histogram = self._histogram(
            min=numbers.min(),
            max=numbers.max(),
            num=numbers.size,
            sum=numbers.sum(),
            sum_squares=np.square(numbers).sum(),
            bucket_limit=limits[1:],
            bucket=counts,
        )
        self._add(self._summary.Value(tag=name, histo=histogram), step)

    def _add(self, value: Any, step: int) -> None:
        summary = self._summary(value=[value])
        self._file.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """Write pending entries to the disk."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _tile(name: str, images: Array) -> Array:
    """Return the first images side by side, uint8 [height, width, channels]."""
    channels_first = images.ndim == 4 and images.shape[1] in _CHANNELS
    if images.ndim != 4 or not (channels_first or images.shape[3] in _CHANNELS) or not images.size:
        raise ShapeError(
            f"TensorBoard: images[{name!r}] must be [n, channels, height, width] or [n, height, "
            f"width, channels] with 1 or 3 channels, got shape {list(images.shape)}; reshape them"
        )
    images = images.transpose(0, 2, 3, 1) if channels_first else images
    if images.dtype != np.uint8:
        images = np.round(np.clip(np.nan_to_num(images.astype(np.float64)), 0, 1) * 255)
    shown = images[:_MOST_IMAGES].astype(np.uint8)
    columns = min(len(shown), _COLUMNS)
    n, height, width, channels = shown.shape
    rows = -(-n // columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:n] = shown
    grid = grid.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return grid.reshape(rows * height, columns * width, channels)


def _encode_png(image: Array) -> bytes:
    """Return a PNG of uint8 [height, width, channels], since tensorboard lacks an encoder."""
    height, width, channels = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


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
