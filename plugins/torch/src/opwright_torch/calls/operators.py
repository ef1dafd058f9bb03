"""Defines ``torch.call`` and its gradient; PyTorch is imported when a kernel is prepared."""

from __future__ import annotations

import json
from typing import Any, Final

from opwright.kernel import PrepareContext, Unsupported
from opwright.op import (
    GradientContext,
    InferContext,
    Meta,
    OpMaker,
    is_float,
    no_gradient,
    shapes_match,
)


def _metas(ctx: InferContext, key: str) -> list[Meta]:
    """Return the metas of the inputs or results, as given in the string."""
    try:
        listed = json.loads(ctx.attr("call"))[key]
        return [Meta(tuple(map(int, shape)), str(dtype)) for dtype, shape in listed]
    except (ValueError, KeyError, TypeError) as error:
        return ctx.fail(f"call must be a string written by the translator, got {error!r}")


def _call_shape(ctx: InferContext) -> None:
    """Set the result shapes that PyTorch computes for these input shapes."""
    _check_alike(ctx, "x", _metas(ctx, "inputs"))
    ctx.set_metas("out", _metas(ctx, "results"))


def _check_alike(ctx: InferContext, slot: str, expected: list[Meta]) -> None:
    given = ctx.inputs(slot)
    alike = len(given) == len(expected) and all(
        one.dtype == other.dtype and shapes_match(one.shape, other.shape)
        for one, other in zip(given, expected)
    )
    if not alike:
        wanted, got = (", ".join(map(str, metas)) or "none" for metas in (expected, given))
        ctx.fail(f"{slot} must match the shapes and dtypes in call, {wanted}, got {got}")


def _count_results(ctx: InferContext) -> int:
    return len(_metas(ctx, "results"))


def _gradient(g: GradientContext) -> None:
    """Append an operator that recomputes the call under autograd and differentiates it."""
    x, grads = g.inputs("x"), g.output_grads("out")
    wanted = [i for i in range(len(x)) if g.wants("x", i)]
    given = [i for i, grad in enumerate(grads) if grad is not None]
    attrs: dict[str, Any] = {"call": g.attr("call"), "wanted": wanted, "given": given}
    inputs: dict[str, Any] = {"x": x, "out_grad": [grads[i] for i in given]}
    if "step" in g.proto.input_slots:
        inputs["step"] = g.input("step")
        attrs.update(seed=g.attr("seed"), stream=g.attr("stream"))
    results = g.emit_multi("torch.call_grad", inputs, {"x_grad": len(wanted)}, attrs)["x_grad"]
    for i, name in zip(wanted, results):
        g.set_input_grad("x", name, i)


def _gradient_shape(ctx: InferContext) -> None:
    """Give the results the shapes and dtypes of the inputs in `wanted`."""
    x, wanted = ctx.inputs("x"), ctx.attr("wanted")
    if any(not 0 <= i < len(x) or not is_float(x[i].dtype) for i in wanted):
        ctx.fail(f"wanted must be indices of float inputs, got {list(wanted)}")
    results, given = _metas(ctx, "results"), ctx.attr("given")
    if any(not 0 <= i < len(results) for i in given):
        ctx.fail(f"given must be indices of the {len(results)} results, got {list(given)}")
    _check_alike(ctx, "out_grad", [results[i] for i in given])
    ctx.set_metas("x_grad", [x[i] for i in wanted])


def _maker(op_type: str, comment: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "the tensors that the calls read, with the shapes and dtypes given in call")
        .as_duplicable()
        .as_optional()
    )


def _with_text(maker: OpMaker) -> OpMaker:
    return (
        maker.add_attr("call", str, "calls of ATen operators, as JSON")
        .required()
        .add_attr("dtype", str, "selects the kernel; there is only one")
        .as_dtype()
        .default("float32")
    )


def _with_out(maker: OpMaker) -> OpMaker:
    return _with_text(maker.add_output("out", "the results").as_duplicable())


def _with_seed(maker: OpMaker) -> OpMaker:
    return (
        maker.add_attr("seed", int, "seeds the random numbers, with stream and step")
        .default(0)
        .add_attr("stream", int, "distinguishes operators of one program")
    )


def _with_step(maker: OpMaker) -> OpMaker:
    return maker.add_input("step", "int64 [1], index of the run").dtypes("int64").as_optional()


CALL: Final = _with_out(
    _maker("torch.call", "Calls PyTorch: ATen operators without a counterpart in opwright.")
).build(infer_shape=_call_shape, gradient=_gradient, count_outputs=_count_results)

RANDOM_CALL: Final = _with_seed(
    _with_out(
        _with_step(
            _maker(
                "torch.random_call",
                "Calls PyTorch operators whose random numbers are determined by seed, "
                "stream and step.",
            )
        )
    )
).build(infer_shape=_call_shape, gradient=_gradient, count_outputs=_count_results, random=True)

CALL_GRAD: Final = (
    _with_seed(
        _with_text(
            _with_step(
                _maker(
                    "torch.call_grad",
                    "The gradient of a PyTorch call, computed by PyTorch's autograd.",
                )
            )
            .add_input("out_grad", "the gradients of the results in given")
            .as_duplicable()
            .add_output("x_grad", "the gradients of the inputs in wanted")
            .as_duplicable()
        )
    )
    .add_attr("wanted", list[int], "indices of inputs with gradients")
    .required()
    .add_attr("given", list[int], "indices of results with gradients")
    .required()
    .build(
        infer_shape=_gradient_shape,
        gradient=no_gradient(
            "a call of PyTorch inside a plan can be differentiated only once; compute second "
            "derivatives in PyTorch, outside of the compiled region"
        ),
        count_outputs=lambda ctx: len(ctx.attr("wanted")),
    )
)


class CallKernel:
    """The kernel of these operators; it requires PyTorch."""

    @staticmethod
    def prepare(ctx: PrepareContext) -> Any:
        """Return a function that binds to the arrays of a plan."""
        try:
            from opwright_torch.calls.running import ready
        except ImportError as error:
            raise Unsupported(f"PyTorch ({error})") from error
        return ready(ctx)
