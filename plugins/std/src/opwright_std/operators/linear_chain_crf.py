"""Linear-chain conditional random field: the likelihood of tags, and the most likely tags."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims, no_gradient
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.numerics.lengths import read_lengths


def _log_sum(terms: Array) -> Array:
    """Return log(sum(exp(terms))) along axis 1, which is not empty."""
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


def _read_counts(op_type: str, x: Array, lengths: Array | None) -> Array:
    return read_lengths(f"{op_type}: lengths", lengths, x.shape[1], x.shape[0])


def _read_tags(label: Array, counts: Array, tags: int) -> Array:
    """Return the tags of all steps, checked within each sequence and 0 in the padding."""
    valid = np.arange(label.shape[1]) < counts[:, None]
    check_ids("linear_chain_crf: label", label[valid], tags)
    return np.where(valid, label, 0)


def _scores(x: Array, transition: Array, tags: Array, counts: Array) -> Array:
    """Return the sum of each sequence's weights and transitions, without start and end weights."""
    steps = np.arange(x.shape[1])
    each = np.take_along_axis(x, tags[:, :, None], axis=2)[:, :, 0]
    each[:, 1:] += transition[tags[:, :-1], tags[:, 1:]]
    return np.asarray(np.sum(np.where(steps < counts[:, None], each, 0), axis=1))


def linear_chain_crf(
    x: Array,
    label: Array,
    transition: Array,
    start: Array | None,
    end: Array | None,
    lengths: Array | None,
    out: Array,
    alpha: Array,
) -> None:
    n, steps, size = x.shape
    counts = _read_counts("linear_chain_crf", x, lengths)
    tags = _read_tags(label, counts, size)
    alpha[...] = 0
    out[...] = 0
    if n == 0 or steps == 0:
        return
    rows = np.arange(n)
    last = np.maximum(counts - 1, 0)
    score = _scores(x, transition, tags, counts)
    score += 0 if start is None else start[tags[:, 0]]
    score += 0 if end is None else end[tags[rows, last]]
    log_total = np.zeros(n, x.dtype)
    for t in range(steps):
        if t == 0:
            sums = x[:, 0] + (0 if start is None else start)
        else:
            sums = _log_sum(alpha[:, t - 1, :, None] + transition) + x[:, t]
        # Subtracts the maximum so that long sequences do not lose precision.
        top = sums.max(axis=1)
        present = t < counts
        alpha[present, t] = (sums - top[:, None])[present]
        log_total[present] += top[present]
    log_total += _log_sum(alpha[rows, last] + (0 if end is None else end))
    np.copyto(out, score - log_total, where=counts > 0)


def linear_chain_crf_grad(
    label: Array,
    transition: Array,
    end: Array | None,
    lengths: Array | None,
    alpha: Array,
    out_grad: Array,
    x_grad: Array | None,
    transition_grad: Array | None,
    start_grad: Array | None,
    end_grad: Array | None,
) -> None:
    n, steps, size = alpha.shape
    counts = _read_counts("linear_chain_crf", alpha, lengths)
    tags = _read_tags(label, counts, size)
    # Marginals times out_grad, computed from the last step backward, are subtracted from gradients.
    share = np.zeros((n, size), alpha.dtype)
    score_grad = np.zeros_like(alpha)
    pairs = np.zeros_like(transition)
    ends = np.zeros((n, size), alpha.dtype)
    hits = np.eye(size, dtype=alpha.dtype)[tags] * out_grad[:, None, None]
    for t in range(steps - 1, -1, -1):
        is_last, goes_on = t == counts - 1, t < counts - 1
        if goes_on.any():
            moves = alpha[:, t, :, None] + transition
            moves = np.exp(moves - _log_sum(moves)[:, None]) * share[:, None]
            moves = moves[goes_on]
            share[goes_on] = moves.sum(axis=2)
            pairs -= moves.sum(axis=0)
            here, after = tags[goes_on, t], tags[goes_on, t + 1]
            np.add.at(pairs, (here, after), out_grad[goes_on])
        finals = alpha[:, t] + (0 if end is None else end)
        finals = np.exp(finals - _log_sum(finals)[:, None]) * out_grad[:, None]
        share[is_last] = finals[is_last]
        ends[is_last] = (hits[:, t] - finals)[is_last]
        present = t < counts
        score_grad[present, t] = (hits[:, t] - share)[present]
    for grad, value in (
        (x_grad, score_grad),
        (transition_grad, pairs),
        (end_grad, ends.sum(axis=0)),
    ):
        if grad is not None:
            grad[...] = value
    if start_grad is not None:
        start_grad[...] = score_grad[:, 0].sum(axis=0) if steps else 0


def viterbi_decode(
    x: Array,
    transition: Array,
    start: Array | None,
    end: Array | None,
    lengths: Array | None,
    out: Array,
    path: Array,
) -> None:
    n, steps, size = x.shape
    counts = _read_counts("viterbi_decode", x, lengths)
    path[...] = 0
    out[...] = 0
    if n == 0 or steps == 0:
        return
    best = x[:, 0] + (0 if start is None else start)
    back = np.zeros((steps, n, size), np.int64)
    for t in range(1, steps):
        moves = best[:, :, None] + transition
        back[t] = moves.argmax(axis=1)
        reached = moves.max(axis=1) + x[:, t]
        best = np.where((t < counts)[:, None], reached, best)
    best = best + (0 if end is None else end)
    np.copyto(out, best.max(axis=1), where=counts > 0)
    tag = best.argmax(axis=1)
    for t in range(steps - 1, -1, -1):
        present = t < counts
        path[present, t] = tag[present]
        before = back[t][np.arange(n), tag]
        tag = np.where(present, before, tag)


def _check_chain(ctx: InferContext) -> int:
    """Check inputs and attributes; return the number of sequences."""
    x = ctx.input("x").shape
    if len(x) != 3 or x[2] == 0:
        ctx.fail(f"x must be [n, t, tags] with at least 1 tag, got {format_shape(x)}")
    ctx.require_shape("transition", (x[2], x[2]))
    for slot in ("start", "end"):
        if ctx.has_input(slot):
            ctx.require_shape(slot, (x[2],))
    n = x[0]
    if ctx.has_input("lengths"):
        ctx.require_shape("lengths", (n,))
        n = merge_dims(n, ctx.input("lengths").shape[0])
    return n


def _crf_shape(ctx: InferContext) -> None:
    """The output has one log-likelihood per sequence; alpha has the shape of x."""
    n, x = _check_chain(ctx), ctx.input("x").shape
    ctx.require_shape("label", (n, x[1]))
    ctx.set_output("out", (n,))
    ctx.set_output("alpha", x)


def _viterbi_shape(ctx: InferContext) -> None:
    """The output has one score per sequence, path one tag per step."""
    n = _check_chain(ctx)
    ctx.set_output("out", (n,))
    ctx.set_output("path", (n, ctx.input("x").shape[1]))


def _add_weights(maker: OpMaker) -> OpMaker:
    maker.add_input("transition", "[tags, tags], weights from tag i to tag j; dtype of x")
    maker.same_dtype_as("x")
    for slot, what in (("start", "first"), ("end", "last")):
        maker.add_input(slot, f"[tags], weights of the {what} tag; absent counts as 0")
        maker.same_dtype_as("x").as_optional()
    maker.add_input("lengths", "[n], from 0 to t; absent: all t").dtypes(*INDICES).as_optional()
    return maker


_SCORE = (
    "The score of tags y is start[y[0]] + sum of x[i, y[i]] + sum of transition[y[i - 1], y[i]] + "
    "end[y[-1]]"
)


def _crf_maker() -> OpMaker:
    maker = OpMaker("linear_chain_crf").add_comment(
        f"Log-likelihood of the tags of each sequence in a linear-chain conditional random field. "
        f"{_SCORE}; out = score(label) - logsumexp of the scores of all tag sequences, and 0 for "
        f"an empty sequence. Its negative is the loss. Lafferty, McCallum and Pereira, 2001."
    )
    maker.add_input("x", "float [n, t, tags], weights of each tag at each step").dtypes(*FLOATS)
    maker.add_input("label", "int32 or int64 [n, t], in [0, tags); ignored in the padding")
    maker.dtypes(*INDICES)
    _add_weights(maker).add_output("out", "[n], dtype of x").same_dtype_as("x")
    maker.add_output("alpha", "[n, t, tags], forward log-weights minus their maximum")
    return maker.same_dtype_as("x").as_intermediate()


def _viterbi_maker() -> OpMaker:
    maker = OpMaker("viterbi_decode").add_comment(
        f"The tags with the greatest score in a linear-chain conditional random field, and that "
        f"score. {_SCORE}. Ties take the lower tag, from the last step backward. Viterbi, "
        "1967."
    )
    maker.add_input("x", "float [n, t, tags], weights of each tag at each step").dtypes(*FLOATS)
    _add_weights(maker).add_output("out", "[n], 0 for an empty sequence; dtype of x")
    maker.same_dtype_as("x").add_output("path", "int64 [n, t], 0 in the padding")
    return maker.dtypes("int64")


LINEAR_CHAIN_CRF = _crf_maker().build(
    infer_shape=_crf_shape,
    gradient=grad_op(
        "linear_chain_crf_grad", needs=["label", "transition", "end", "lengths", "alpha"]
    ),
)

VITERBI_DECODE = _viterbi_maker().build(
    infer_shape=_viterbi_shape,
    gradient=no_gradient("its path is indices; linear_chain_crf trains the weights"),
)
