"""Inputs of operators on padded sequences, with valid lengths, and packed rows to match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


_PADDING = "padding is not read"


def _lengths(draw: Draw, n: int, steps: int) -> Any:
    draw.refused["lengths"] = (-1, steps + 1)
    return draw.integers((n,), 0, steps + 1, str(draw.choice(["int32", "int64"])))


def _steps(draw: Draw) -> int:
    return int(draw.choice([0, 1, 2, 5]))


def padded(draw: Draw) -> Drawn:
    """Draw sequences of up to 5 steps with some features."""
    draw.drops_nan = _PADDING
    return sequence_reverse(draw)


def sequence_reverse(draw: Draw) -> Drawn:
    """Draw sequences of up to 5 steps with some features; the padding is copied."""
    n, steps = draw.other_length(), _steps(draw)
    x = draw.floats((n, steps, draw.length))
    return {"x": x, "lengths": _lengths(draw, n, steps)}, draw.attrs


def sequence_mask(draw: Draw) -> Drawn:
    """Draw the number of steps as a tensor or an attribute."""
    n, steps = draw.length, _steps(draw)
    kind = draw.dtype
    draw.refused["lengths"] = (-1, steps + 1)
    given: dict[str, Any] = {"lengths": draw.integers((n,), 0, steps + 1, kind)}
    if draw.choice([False, True]):
        return {**given, "like": draw.floats((n, steps))}, {}
    return given, {"max_length": steps}


def sequence_unpack(draw: Draw) -> Drawn:
    """Draw packed sequences with as many rows as the sum of lengths."""
    n, steps = draw.other_length(), _steps(draw)
    lengths = _lengths(draw, n, steps)
    if steps > 1 and lengths.sum() <= n:
        return None  # rows that would fit into fewer steps, but not with their lengths
    x = draw.floats((int(lengths.sum()), draw.length))
    return {"x": x, "lengths": lengths}, {"max_length": steps}


def sequence_conv(draw: Draw) -> Drawn:
    """Draw contexts before and after a step."""
    drawn = padded(draw)
    if drawn is None:
        return None
    inputs = dict(drawn[0])
    length, m = int(draw.choice([1, 2, 3])), draw.other_length()
    inputs["weight"] = draw.floats((length * draw.length, m), -0.5, 0.5)
    if draw.choice([False, True]):
        inputs["bias"] = draw.floats((m,))
    attrs: dict[str, Any] = {"context_length": length}
    if draw.choice([False, True]):
        attrs["context_start"] = int(draw.choice([-3, -1, 0, 1]))
    return inputs, attrs


SAMPLES = {
    **dict.fromkeys(("sequence_pack", "sequence_pool", "sequence_softmax"), padded),
    "sequence_conv": sequence_conv,
    "sequence_mask": sequence_mask,
    "sequence_reverse": sequence_reverse,
    "sequence_unpack": sequence_unpack,
}
