"""Shapes of images, for convolution and pooling: order of axes, and paddings for "same"."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.errors import ShapeError
from opwright_nn import checks

_FORMATS = {"NCHW": "[n, channels, height, width]", "NHWC": "[n, height, width, channels]"}


class Images:
    """A variable that holds images, whose shape may be known only in part.

    Parameters
    ----------
    who : str
        The layer, for messages.
    x : object
        The variable, not checked yet.
    data_format : object
        "NCHW" or "NHWC", not checked yet.
    """

    def __init__(self, who: str, x: object, data_format: object) -> None:
        self._who = who
        self.variable = checks.check_variable(who, "x", x)
        self.data_format = checks.check_choice(who, "data_format", data_format, tuple(_FORMATS))

    def shape(self) -> tuple[int, ...]:
        """Return batch, channels, height and width; -1 for unknown dimensions.

        Raises
        ------
        ShapeError
            The variable does not have four axes.
        """
        shape = self.variable.shape
        if shape is None:
            return (-1, -1, -1, -1)
        if len(shape) != 4:
            raise ShapeError(
                f"{self._who}: x must be {_FORMATS[self.data_format]} for data_format="
                f"{self.data_format!r}, got {self.variable!r}; reshape it, or add an axis for the "
                "channels"
            )
        return shape if self.data_format == "NCHW" else (shape[0], shape[3], *shape[1:3])

    def stored(self, n: int, channels: int, height: int, width: int) -> tuple[int, ...]:
        """Return a shape in the order of axes of these images."""
        if self.data_format == "NCHW":
            return n, channels, height, width
        return n, height, width, channels

    def paddings(
        self,
        paddings: Sequence[int] | None,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int] = (1, 1),
    ) -> list[int]:
        """Return top, bottom, left and right; None stands for "same"."""
        if paddings is not None:
            return list(paddings)
        same: list[int] = []
        for axis, size in enumerate(self.shape()[2:]):
            reach, stride = (kernel[axis] - 1) * dilations[axis] + 1, strides[axis]
            total = reach - 1
            if stride != 1:
                self._require_size(size, strides)
                total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            same += [total // 2, total - total // 2]
        return same

    def _require_size(self, size: int, strides: Sequence[int]) -> None:
        if size < 0:
            raise ShapeError(
                f"{self._who}: paddings='same' with strides={tuple(strides)} depends on the "
                f"height and width of x, got {self.variable!r}; declare them in layers.data, or "
                "write the paddings as numbers"
            )
