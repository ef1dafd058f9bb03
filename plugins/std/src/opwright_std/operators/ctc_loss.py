"""Connectionist temporal classification: the likelihood of labels without an alignment.

A path may have blanks before, between and after its n labels: states 0, 2, ..., 2n are blanks,
state 2i + 1 is label i. A time step stays in its state, advances to the next state, or skips a
blank between two different labels. All scores are logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims, shapes_match
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array


class _Paths(NamedTuple):
    """The states of each row, and the ends of its paths."""

    classes: Array  # int64 [n, states]
    skips: Array  # [n, states]: 0 where a step may skip the blank before, else -inf
    lengths: Array  # int64 [n]
    last: Array  # int64 [n]: the blank after the last label


def _lengths(slot: str, given: Array | None, n: int, most: int) -> Array:
    if given is None:
        return np.full(n, most, np.int64)
    check_ids(f"ctc_loss: {slot}", given, most + 1)
    return given.astype(np.int64)


def _find_paths(
    x: Array, label: Array, lengths: Array | None, label_lengths: Array | None, blank: int
) -> _Paths:
    n, time, n_classes = x.shape
    if not 0 <= blank < n_classes:
        raise ValueError(f"ctc_loss: blank must be in [0, {n_classes}), got {blank}")
    most = label.shape[1]
    counts = _lengths("label_lengths", label_lengths, n, most)
    is_there = np.arange(most) < counts[:, None]
    check_ids("ctc_loss: label", label[is_there], n_classes)
    if (label[is_there] == blank).any():
        raise ValueError(f"ctc_loss: label must not be blank, {blank}")
    classes = np.full((n, 2 * most + 1), blank, np.int64)
    classes[:, 1::2] = np.where(is_there, label, blank)
    skips = np.full(classes.shape, -np.inf, x.dtype)
    skips[:, 3::2] = np.where(classes[:, 3::2] != classes[:, 1:-2:2], 0, -np.inf)
    return _Paths(classes, skips, _lengths("lengths", lengths, n, time), 2 * counts)


def _shifted(states: Array, by: int) -> Array:
    """Return the states shifted up by `by`, or down if it is negative, filled with -inf."""
    moved = np.full_like(states, -np.inf)
    if by > 0:
        moved[:, by:] = states[:, :-by]
    else:
        moved[:, :by] = states[:, -by:]
    return moved


def _add_up(*terms: Array) -> Array:
    """Return the logarithm of the sum of the exponentials."""
    stacked = np.stack(terms)
    top = stacked.max(axis=0)
    base = np.where(np.isneginf(top), 0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(base + np.log(np.exp(stacked - base).sum(axis=0)))


def _find_scores(x: Array, paths: _Paths) -> Array:
    """Return the score of each state at each time, in float64.

    Log-probabilities grow with the length of a row, and gradients depend on their low-order digits.
    """
    return np.take_along_axis(x.astype(np.float64), paths.classes[:, None], axis=2)


def _find_alphas(scores: Array, paths: _Paths) -> Array:
    """Return forward log-probabilities [n, time + 1, states] before each step and at the end.

    Before the first step a path is in a virtual state, stored as state 0, from which it can advance
    to state 1.
    """
    n, time, states = scores.shape
    alphas = np.full((n, time + 1, states), -np.inf, scores.dtype)
    alphas[:, 0, 0] = 0
    for t in range(time):
        before = alphas[:, t]
        ways = _add_up(before, _shifted(before, 1), _shifted(before, 2) + paths.skips)
        alphas[:, t + 1] = ways + scores[:, t]
    return alphas


def _find_ends(alphas: Array, paths: _Paths) -> Array:
    """Return the log-probability of each row's labels."""
    rows = np.arange(len(paths.last))
    last = alphas[rows, paths.lengths]
    behind = last[rows, paths.last]
    label = np.where(paths.last > 0, last[rows, np.maximum(paths.last - 1, 0)], -np.inf)
    return _add_up(behind, label)


def ctc_loss(
    x: Array,
    label: Array,
    lengths: Array | None,
    label_lengths: Array | None,
    out: Array,
    *,
    blank: int,
    zero_infinity: bool,
) -> None:
    paths = _find_paths(x, label, lengths, label_lengths, blank)
    scores = _find_scores(x, paths)
    out[...] = -_find_ends(_find_alphas(scores, paths), paths)
    if zero_infinity:
        np.copyto(out, 0, where=np.isposinf(out))


def ctc_loss_grad(
    x: Array,
    label: Array,
    lengths: Array | None,
    label_lengths: Array | None,
    out_grad: Array,
    x_grad: Array,
    *,
    blank: int,
    **_: object,
) -> None:
    paths = _find_paths(x, label, lengths, label_lengths, blank)
    scores = _find_scores(x, paths)
    alphas = _find_alphas(scores, paths)
    ends = _find_ends(alphas, paths)
    is_possible = ~np.isneginf(ends)
    grad = np.zeros(x.shape)
    _, time, states = scores.shape
    state = np.arange(states)
    is_end = (state == paths.last[:, None]) | (state == paths.last[:, None] - 1)
    final = np.where(is_end, 0, -np.inf)
    onward = np.full_like(final, -np.inf)  # backward log-probabilities, including the next step
    for t in reversed(range(time)):
        skipped = _shifted(onward + paths.skips, -2)
        betas = _add_up(onward, _shifted(onward, -1), skipped)
        is_last = (paths.lengths == t + 1)[:, None]
        betas = np.where(is_last, final, betas)
        onward = betas + scores[:, t]
        counted = is_possible & (t < paths.lengths)
        share = alphas[counted, t + 1] + betas[counted] - ends[counted, None]
        step_grad = -np.exp(share) * out_grad[counted, None]
        step_grad[np.isneginf(share)] = 0
        np.add.at(grad[:, t], (np.flatnonzero(counted)[:, None], paths.classes[counted]), step_grad)
    x_grad[...] = grad


def _ctc_loss_shape(ctx: InferContext) -> None:
    """The output has one loss for each row."""
    x, label = ctx.input("x").shape, ctx.input("label").shape
    ctx.require(len(x) == 3, f"x must be [n, time, classes], got {format_shape(x)}")
    blank = ctx.attr("blank")
    if 0 <= x[2] <= blank:
        ctx.fail(f"blank must be below the number of classes, {x[2]}, got {blank}")
    if len(label) != 2 or not shapes_match(label[:1], x[:1]):
        wanted = format_shape((x[0], -1))
        ctx.fail(f"label must have the shape {wanted}, got {format_shape(label)}")
    n = merge_dims(x[0], label[0])
    for slot in ("lengths", "label_lengths"):
        if ctx.has_input(slot):
            ctx.require_shape(slot, (n,))
    ctx.set_output("out", (n,))


def _ctc_loss_maker() -> OpMaker:
    maker = OpMaker("ctc_loss").add_comment(
        "Connectionist temporal classification, out = -log p(label | x), with p the sum over all "
        "paths, of one class per time step, that reduce to the labels by merging repeated classes "
        "and removing blanks. Without such a path it is inf, with gradient 0. Graves et al., "
        "2006."
    )
    maker.add_input("x", "float [n, time, classes]: logarithms of probabilities").dtypes(*FLOATS)
    maker.add_input("label", "int [n, labels]: class ids in [0, classes) other than blank")
    maker.dtypes(*INDICES)
    maker.add_input("lengths", "[n], dtype of label: steps of each row, in [0, time]; absent: all")
    maker.same_dtype_as("label").as_optional()
    maker.add_input(
        "label_lengths", "[n], dtype of label: labels of each row, in [0, labels]; absent: all"
    )
    maker.same_dtype_as("label").as_optional()
    maker.add_output("out", "[n], dtype of x").same_dtype_as("x")
    maker.add_attr("blank", int, "class id of the blank, below classes").default(0).at_least(0)
    return maker.add_attr("zero_infinity", bool, "whether infinite losses become 0").default(False)


CTC_LOSS = _ctc_loss_maker().build(
    infer_shape=_ctc_loss_shape,
    gradient=grad_op("ctc_loss_grad", needs=["x", "label", "lengths", "label_lengths"]),
)
