"""Shapes of sequences, images and volumes, for convolution and pooling: axes and paddings."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.errors import ShapeError
from opwright_nn import checks
from opwright_nn.layers.inputs import find_input

_FORMATS = {
    "NCL": "[n, channels, length]",
    "NLC": "[n, length, channels]",
    "NCHW": "[n, channels, height, width]",
    "NHWC": "[n, height, width, channels]",
    "NCDHW": "[n, channels, depth, height, width]",
    "NDHWC": "[n, depth, height, width, channels]",
}
_BY_RANK = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class Images:
    """A variable that holds sequences, images or volumes; its shape may be partially known.

    Parameters
    ----------
    who : str
        The layer, for messages.
    x : object
        The unchecked variable.
    data_format : object
        The unchecked order of axes: channels first, such as "NCHW", or last, "NHWC".
    rank : int
        The number of axes of a window: 1, 2 or 3.
    """

    def __init__(self, who: str, x: object, data_format: object, rank: int = 2) -> None:
        self._who = who
        self.rank = rank
        self.variable = find_input(who, "input", x)
        self.data_format = checks.check_choice(who, "data_format", data_format, _BY_RANK[rank])
        self._is_channels_first = self.data_format == _BY_RANK[rank][0]

    def shape(self) -> tuple[int, ...]:
        """Return batch, channels and sizes, with -1 for unknown dimensions.

        Raises
        ------
        ShapeError
            The variable has a wrong number of axes.
        """
        shape = self.variable.shape
        if shape is None:
            return (-1,) * (self.rank + 2)
        if len(shape) != self.rank + 2:
            raise ShapeError(
                f"{self._who}: input must be {_FORMATS[self.data_format]} for data_format="
                f"{self.data_format!r}, got {self.variable!r}; reshape it, or add an axis for the "
                "channels"
            )
        return shape if self._is_channels_first else (shape[0], shape[-1], *shape[1:-1])

    def stored(self, n: int, channels: int) -> tuple[int, ...]:
        """Return a shape in this variable's axis order, with -1 for the unknown sizes."""
        sizes = (-1,) * self.rank
        return (n, channels, *sizes) if self._is_channels_first else (n, *sizes, channels)

    def windows(self, name: str, value: object) -> tuple[int, ...]:
        """Check an argument, and return it as an int of at least 1 for each axis of a window."""
        return checks.check_sizes(self._who, name, value, rank=self.rank, at_least=1)

    def group_size(self, groups: int) -> int:
        """Return the channels per group, or -1 if unknown; raise if `groups` is not a divisor."""
        channels = self.shape()[1]
        if channels > 0 and channels % groups:
            raise ShapeError(
                f"{self._who}: groups must divide the {channels} channels of {self.variable!r}, "
                f"got {groups}; all groups have the same number of input channels"
            )
        return channels if channels < 0 else channels // groups

    def paddings(
        self,
        paddings: object,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int] | None = None,
    ) -> list[int]:
        """Return the padding before and after each axis, from an unchecked argument."""
        given = checks.check_paddings(self._who, paddings, rank=self.rank)
        if given is not None:
            return list(given)
        same: list[int] = []
        for axis, size in enumerate(self.shape()[2:]):
            dilation = 1 if dilations is None else dilations[axis]
            reach, stride = (kernel[axis] - 1) * dilation + 1, strides[axis]
            total = reach - 1
            if stride != 1:
                self._require_size(size, strides)
                total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            same += [total // 2, total - total // 2]
        return same

    def _require_size(self, size: int, strides: Sequence[int]) -> None:
        if size < 0:
            sizes = checks.AXES[self.rank]
            shown = strides[0] if self.rank == 1 else tuple(strides)
            raise ShapeError(
                f"{self._who}: paddings='same' with strides={shown} depends on the "
                f"{sizes} of x, got {self.variable!r}; declare {'it' if self.rank == 1 else 'them'}"
                " in layers.data, or write the paddings as numbers"
            )
