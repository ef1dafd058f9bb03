"""Second gradients of selection operators: they select the same elements again."""

from __future__ import annotations

from opwright.errors import GradientError
from opwright.op import GradientContext


def _pick_nothing_else(g: GradientContext, grad: str) -> None:
    """Set the gradient of out_grad; the selection itself has no gradient."""
    for slot in g.proto.inputs:
        if slot.name != "out_grad" and g.wants_any(slot.name):
            g.set_input_grad(slot.name, None)
    g.set_input_grad("out_grad", grad)


def pick_in_shares(g: GradientContext) -> None:
    """Differentiate the gradient of a minimum or maximum along axes.

    For out_grad = 1, the gradient is the fraction of out_grad that each element of x receives.
    """
    ones = g.emit("fill_like", {"x": g.input("out_grad")}, attrs={"value": 1.0})
    inputs = {slot.name: g.inputs(slot.name) for slot in g.proto.inputs}
    shares = g.emit(g.type, {**inputs, "out_grad": ones}, {"x_grad": 1}, g.attrs)
    picked = g.emit("multiply", {"x": g.output_grad("x_grad"), "y": shares})
    attrs = {name: g.attrs[name] for name in ("axis", "keepdims") if name in g.attrs}
    _pick_nothing_else(g, g.emit("sum", {"x": picked}, attrs=attrs or {"axis": [1]}))


def pick_along_axis(g: GradientContext) -> None:
    """Differentiate the gradient of `top_k` and `sort`: gather at the same indices."""
    grad = g.output_grad("x_grad") or ""
    meta = g.meta(grad)
    if meta is None or meta.shape:
        inputs = {"x": grad, "index": g.input("indices")}
        grad = g.emit("take_along_axis", inputs, attrs={"axis": g.attr("axis")})
    _pick_nothing_else(g, grad)


def pick_in_planes(g: GradientContext) -> None:
    """Differentiate the gradient of max pooling by gathering at the pooling indices."""
    is_first = g.attr("data_format").startswith("NC")
    axes = {"start_axis": 2, "stop_axis": -1} if is_first else {"start_axis": 1, "stop_axis": -2}
    flat = [
        g.emit("flatten", {"x": name}, attrs=axes)
        for name in (g.output_grad("x_grad"), g.input("index"))
    ]
    inputs = {"x": flat[0], "index": flat[1]}
    taken = g.emit("take_along_axis", inputs, attrs={"axis": 2 if is_first else 1})
    grad = g.emit("reshape_like", {"x": taken, "like": g.input("out_grad")})
    _pick_nothing_else(g, grad)


def pick_in_boxes(g: GradientContext) -> None:
    """Differentiate the gradient of `roi_pool`: indices are per image, -1 for an empty bin."""
    boxes = {"x": g.output_grad("x_grad"), "index": g.input("batch_index")}
    images = g.emit("gather", boxes, attrs={"axis": 0})
    axes = {"start_axis": 2, "stop_axis": -1}
    flat = [g.emit("flatten", {"x": name}, attrs=axes) for name in (images, g.input("index"))]
    inputs = {"x": flat[0], "index": flat[1]}
    taken = g.emit("take_along_axis", inputs, attrs={"axis": 2})
    grad = g.emit("reshape_like", {"x": taken, "like": g.input("out_grad")})
    none = g.emit("fill_like", {"x": g.input("index")}, attrs={"value": 0})
    is_place = g.emit("greater_equal", {"x": g.input("index"), "y": none})
    zeros = g.emit("fill_like", {"x": grad}, attrs={"value": 0.0})
    _pick_nothing_else(g, g.emit("where", {"condition": is_place, "x": grad, "y": zeros}))


def scatter_again(g: GradientContext) -> None:
    """Differentiate the gradient of `scatter`, which is linear in x and updates together."""
    reduction, type = g.attr("reduction"), g.type.removesuffix("_grad")
    if reduction not in ("none", "add"):
        raise GradientError(
            f"{type}: with reduction={reduction!r} it has no second gradient; use "
            f"reduction='add', or set stop_gradient on its first "
            "gradient"
        )
    given: dict[str, str | None] = {"index": g.input("index")}
    for slot in ("x", "updates"):
        grad = g.output_grad(f"{slot}_grad") if f"{slot}_grad" in g.op.outputs else None
        given[slot] = grad or g.emit("fill_like", {"x": g.input(slot)}, attrs={"value": 0.0})
    _pick_nothing_else(g, g.emit(type, given, attrs=g.attrs))


def convolve_again(g: GradientContext) -> None:
    """Differentiate the gradient of a convolution, which is linear in x and in weight."""
    type = g.type.removesuffix("_grad")
    given = {slot: g.output_grad(f"{slot}_grad") for slot in ("x", "weight", "bias")}
    x, weight, grad = g.input("x"), g.input("weight"), g.input("out_grad")
    if g.wants("out_grad"):
        g.set_input_grad("out_grad", _convolved(g, type, given, x, weight))
    for slot, other in (("x", "weight"), ("weight", "x")):
        if not g.wants(slot):
            continue
        if given[other] is None:
            g.set_input_grad(slot, None)
            continue
        inputs = {"x": x, "weight": weight, "out_grad": grad, other: given[other]}
        g.set_input_grad(slot, g.emit(g.type, inputs, {f"{slot}_grad": 1}, g.attrs))


def _convolved(
    g: GradientContext, type: str, given: dict[str, str | None], x: str | None, weight: str | None
) -> str:
    """Return the change of out for given changes of x, weight and bias."""
    pairs = [(given["x"], weight), (x, given["weight"])]
    present = [pair for pair in pairs if None not in pair]
    if not present:  # of bias alone
        present = [(g.emit("fill_like", {"x": x}, attrs={"value": 0.0}), weight)]
    biases = [given["bias"]] + [None] * (len(present) - 1)
    parts = [
        g.emit(type, {"x": a, "weight": w, "bias": bias}, attrs=g.attrs)
        for (a, w), bias in zip(present, biases, strict=True)
    ]
    return parts[0] if len(parts) == 1 else g.emit("add_n", {"x": parts})
