"""Inputs of operators on tag and id sequences, and of losses over sampled classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


INDICES = ["int32", "int64"]


def _add_lengths(draw: Draw, given: dict[str, Any], slot: str, n: int, steps: int) -> None:
    if draw.choice([False, True]):
        given[slot] = draw.integers((n,), 0, steps + 1, draw.choice(INDICES))
        draw.refused[slot] = (-1, steps + 1)


def edit_distance(draw: Draw) -> Drawn:
    """Draw ids from a small range so that some are equal, and lengths of at most all steps."""
    n, steps, wanted = draw.other_length(), draw.length, draw.other_length()
    given: dict[str, Any] = {
        "x": draw.integers((n, steps), 0, 4, draw.dtype),
        "label": draw.integers((n, wanted), 0, 4, draw.dtype),
    }
    _add_lengths(draw, given, "lengths", n, steps)
    _add_lengths(draw, given, "label_lengths", n, wanted)
    return given, draw.attrs


def chain(draw: Draw) -> Drawn:
    """Draw the weights of a chain of tags, valid tags, and lengths of at most all steps."""
    n, steps, tags = draw.other_length(), draw.choice([0, 1, 3]), max(1, draw.length % 40)
    given: dict[str, Any] = {"x": draw.floats((n, steps, tags))}
    if draw.definition.op_type == "linear_chain_crf":
        given["label"] = draw.integers((n, steps), 0, tags, draw.choice(INDICES))
    given["transition"] = draw.floats((tags, tags))
    for slot in ("start", "end"):
        if draw.choice([False, True]):
            given[slot] = draw.floats((tags,))
    _add_lengths(draw, given, "lengths", n, steps)
    if "label" in given and "lengths" not in given:
        draw.refused["label"] = (-1, tags)
    return given, draw.attrs


def sampled_loss(draw: Draw) -> Drawn:
    """Draw class ids within the rows of weight."""
    n, size, count = draw.other_length(), max(1, draw.length), draw.other_length()
    classes, kind = draw.choice([1, 5, 20]), draw.choice(INDICES)
    given: dict[str, Any] = {
        "x": draw.floats((n, size), -0.5, 0.5),
        "weight": draw.floats((classes, size), -0.5, 0.5),
        "label": draw.integers((n,), 0, classes, kind),
        "samples": draw.integers((count,), 0, classes, kind),
    }
    draw.refused |= {"label": (-1, classes), "samples": (-1, classes)}
    if draw.choice([False, True]):
        given["bias"] = draw.floats((classes,))
    if draw.choice([False, True]):
        given["label_log_probability"] = draw.floats((n,), -2.0, 0.0)
        given["samples_log_probability"] = draw.floats((count,), -2.0, 0.0)
    return given, draw.attrs


SAMPLES = {
    "edit_distance": edit_distance,
    **dict.fromkeys(("linear_chain_crf", "viterbi_decode"), chain),
    **dict.fromkeys(("nce", "sampled_softmax"), sampled_loss),
}
