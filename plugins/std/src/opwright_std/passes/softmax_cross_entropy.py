"""``fuse_softmax_cross_entropy``: fuse softmax, loss and the gradient of the scores.

If every loss has the same gradient, as in a mean over the batch, that gradient is a known number.
Softmax, cross entropy and both gradients then become one operator, and the exact (softmax -
one_hot) replaces a division by a probability.
"""

from __future__ import annotations

import math

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    output_of,
    writer_of,
)

FUSED = "std.softmax_cross_entropy"


def fuse_softmax_cross_entropy(graph: Graph) -> None:
    """Fuse losses of class ids and their gradients into ``std.softmax_cross_entropy``."""
    if not graph.is_served(FUSED):
        return
    _fuse_from_scores(graph)
    _fuse_from_probabilities(graph)


def constant_of(value: Value | None) -> float | None:
    """Return the constant value of all elements, or None if unknown."""
    op = None if value is None else value.op
    if op is None or value is None:
        return None
    if op.type in ("fill", "fill_like"):
        return float(op.attrs["value"])
    if op.type in ("sum_grad", "mean_grad"):
        grad = constant_of(input_of(op, "out_grad"))
        x = input_of(op, "x")
        if grad is None or x is None or op.type == "sum_grad":
            return grad
        summed = math.prod(x.meta.shape)
        kept = math.prod(input_of(op, "out_grad").meta.shape)  # type: ignore[union-attr]
        return grad * kept / summed if summed else None
    return None


def _fuse_from_scores(graph: Graph) -> None:
    edit = graph.edit()
    for backward in graph.of_type("softmax_with_cross_entropy_grad"):
        loss_grad = constant_of(input_of(backward, "out_grad"))
        forward = writer_of(input_of(backward, "softmax"), "softmax_with_cross_entropy")
        if loss_grad is None or forward is None or forward.attrs["soft_label"]:
            continue
        logits = input_of(forward, "logits")
        if logits is None or input_of(forward, "label") is not input_of(backward, "label"):
            continue
        if forward.attrs["axis"] not in (-1, len(logits.meta.shape) - 1):
            continue
        outputs = {
            "softmax": _if_needed(graph, output_of(forward, "softmax"), [forward, backward]),
            "loss": _if_needed(graph, output_of(forward, "out"), [forward, backward]),
            "logits_grad": output_of(backward, "logits_grad"),
        }
        attrs = {"ignore_index": forward.attrs["ignore_index"]}
        made = _make(graph, forward, logits, outputs, {**attrs, "loss_grad": loss_grad})
        if made is not None:
            edit.fuse([forward, backward], [made], at=forward)
    edit.apply()


def _fuse_from_probabilities(graph: Graph) -> None:
    edit = graph.edit()
    for backward in graph.of_type("softmax_grad"):
        middle = writer_of(input_of(backward, "out_grad"), "cross_entropy_grad")
        softmax = writer_of(input_of(backward, "out"), "softmax", "fc")
        loss_grad = None if middle is None else constant_of(input_of(middle, "out_grad"))
        if middle is None or softmax is None or loss_grad is None or middle.attrs["soft_label"]:
            continue
        probabilities = output_of(softmax, "out")
        loss = _loss_of(graph, middle, probabilities)
        if probabilities is None or not _is_last_axis(softmax, probabilities) or loss is None:
            continue
        old = [softmax, loss, middle, backward]
        scores, before = _scores(graph, softmax, probabilities)
        outputs = {
            "softmax": _if_needed(graph, probabilities, old),
            "loss": _if_needed(graph, output_of(loss, "out"), old),
            "logits_grad": output_of(backward, "x_grad"),
        }
        attrs = {"epsilon": loss.attrs["epsilon"], "loss_grad": loss_grad}
        made = None if scores is None else _make(graph, loss, scores, outputs, attrs)
        if made is not None:
            edit.fuse(old, [*before, made], at=loss)
    edit.apply()


def _loss_of(graph: Graph, backward: LoweredOp, probabilities: Value | None) -> LoweredOp | None:
    """Return the ``cross_entropy`` of these probabilities with the gradient ``backward``."""
    if probabilities is None or input_of(backward, "x") is not probabilities:
        return None
    label = input_of(backward, "label")
    for reader in graph.uses().readers(probabilities):
        if (
            reader.type == "cross_entropy"
            and input_of(reader, "label") is label
            and reader.attrs == backward.attrs
        ):
            return reader
    return None


def _is_last_axis(softmax: LoweredOp, probabilities: Value) -> bool:
    if softmax.type == "fc":
        return bool(softmax.attrs["activation"] == "softmax")
    return softmax.attrs["axis"] in (-1, len(probabilities.meta.shape) - 1)


def _scores(
    graph: Graph, softmax: LoweredOp, probabilities: Value
) -> tuple[Value | None, list[LoweredOp]]:
    """Return the scores, and the layer that computes them without its softmax, if any."""
    if softmax.type == "softmax":
        return input_of(softmax, "x"), []
    scores = graph.value(f"{probabilities.name}/scores", probabilities.meta)
    inputs = {slot: input_of(softmax, slot) for slot in ("x", "weight", "bias")}
    attrs = {**softmax.attrs, "activation": ""}
    layer = make_if_served(graph, "fc", inputs, {"out": scores}, attrs, softmax)
    return (scores, [layer]) if layer is not None else (None, [])


def _if_needed(graph: Graph, value: Value | None, old: list[LoweredOp]) -> Value | None:
    """Return a value if it is fetched or has readers other than `old`, otherwise None."""
    if value is None:
        return None
    uses = graph.uses()
    if uses.is_visible(value) or any(reader not in old for reader in uses.readers(value)):
        return value
    return None


def _make(
    graph: Graph,
    source: LoweredOp,
    logits: Value,
    outputs: dict[str, Value | None],
    attrs: dict[str, float],
) -> LoweredOp | None:
    label = input_of(source, "label")
    if label is None:
        return None
    inputs = {"logits": logits, "label": label}
    given = {**attrs, "source": source.type}
    return make_if_served(graph, FUSED, inputs, outputs, given, source)
