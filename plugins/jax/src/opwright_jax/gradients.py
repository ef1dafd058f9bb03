"""The derivatives of the primitive, as computations that can be differentiated again.

JAX derives reverse mode from a forward-mode rule, whose linear part it transposes. The linear part
is the primitive `tangent`: transposed, it is a `Vjp`; computed, the gradient of a `Vjp` with
respect to its seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import opwright as ow
from opwright.errors import GradientError
from opwright.op import is_float
from opwright_jax.calls import Forward, Vjp, What, label
from opwright_jax.dtypes import metas_of, to_jax
from opwright_jax.pieces import Metas, compile_piece, differentiate, make_piece
from opwright_jax.primitive import compute, make_aval, primitive, vary

MAX_CHOICES: Final = 4096
"""Maximum number of cached choices of saved values."""

tangent = Primitive("opwright_tangent")
tangent.multiple_results = True


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, what: What
) -> tuple[list[Any], list[Any]]:
    """Compute the results and the values that gradients read; return results and tangents.

    Gradients that read saved values recompute them if they are differentiated themselves, since
    saved outputs may lack a gradient.
    """
    primals = [jnp.asarray(p) for p in primals]  # JAX may pass a float
    places = compile_piece(what, metas_of(label(what), primals)).places
    if isinstance(what, Vjp) and what.saved:
        end = len(primals) - len(what.given)
        begin = end - len(what.saved)
        what = what._replace(saved=())
        primals, tangents = ([*p[:begin], *p[end:]] for p in (primals, tangents))
    metas = metas_of(label(what), primals)
    wanted = tuple(
        i for i, t in enumerate(tangents) if not isinstance(t, ad.Zero) and is_float(metas[i].dtype)
    )
    given, saved, rest = _choose(what, metas, wanted, places) if wanted else ((), (), ())
    found = compute(Forward(what, given, wanted) if saved else what, primals)
    outputs = {i: ad.Zero(jax.typeof(found[i]).to_tangent_aval()) for i in places}
    arrays = found[len(found) - len(saved) :] if saved else []
    parts = [tangents[i] for i in wanted]
    for chosen, names, read in ((given, saved, arrays), (rest, (), [])):
        if chosen:
            known = {"what": what, "saved": names, "given": chosen, "wanted": wanted}
            outputs |= zip(chosen, tangent.bind(*primals, *read, *parts, **known), strict=True)
    return [found[i] for i in places], [outputs[i] for i in places]


@lru_cache(maxsize=MAX_CHOICES)
def _choose(
    what: What, metas: Metas, wanted: tuple[int, ...], places: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]:
    """Return the results that have a gradient, the values that gradients read, and other results.

    The other results raise GradientError if their tangents or gradients are used. State that an
    operator updates, and saved values, are not among them: their tangents are 0. Raises
    GradientError if no float result has a gradient.
    """
    piece = make_piece(what, metas)
    block, results = piece.block, piece.results
    given = tuple(i for i in places if is_float(block.var(str(results[i])).dtype))
    if not given:
        return (), (), ()
    try:
        return given, differentiate(what, metas, given, wanted).saved, ()
    except GradientError:
        graded = tuple(i for i in given if _has_gradient(what, metas, i, wanted))
        if not graded:
            raise
    constant = _find_state(block)
    n = len(make_piece(_without_saved(what), metas).results)
    rest = tuple(i for i in given if i < n and i not in graded and results[i] not in constant)
    return graded, differentiate(what, metas, graded, wanted).saved, rest


def _without_saved(what: What) -> What:
    return _without_saved(what.of) if isinstance(what, Forward) else what


def _find_state(block: ow.Block) -> set[str]:
    """Return the variables with which operators update their arguments."""
    return {
        name
        for op in block.ops
        for slot in op.definition.proto.outputs
        if slot.aliases
        for name in op.output(slot.name)
    }


def _has_gradient(what: What, metas: Metas, result: int, wanted: tuple[int, ...]) -> bool:
    try:
        differentiate(what, metas, (result,), wanted)
    except GradientError:
        return False
    return True


def _transpose(
    grads: Sequence[Any],
    *operands: Any,
    what: What,
    saved: tuple[str, ...],
    given: tuple[int, ...],
    wanted: tuple[int, ...],
) -> list[Any]:
    """Return the gradients of the tangents, and None for the values."""
    end = len(operands) - len(wanted)
    begin = end - len(saved)
    values, arrays = operands[:begin], operands[begin:end]
    live = [i for i, grad in zip(given, grads, strict=True) if not isinstance(grad, ad.Zero)]
    linear = [i for i, t in zip(wanted, operands[end:], strict=True) if ad.is_undefined_primal(t)]
    by_place: dict[int, Any] = {}
    if live:
        vjp = Vjp(what, saved, tuple(live), tuple(linear))
        is_whole = (vjp.given, vjp.wanted) == (given, wanted)
        if not is_whole and not _is_enough(vjp, metas_of(label(what), values)):
            vjp, arrays = vjp._replace(saved=()), ()
        seeds = [grad for grad in grads if not isinstance(grad, ad.Zero)]
        found = compute(vjp, [*values, *arrays, *seeds])
        by_place = dict(zip(linear, found, strict=True))
    gradients: list[Any] = [None] * end
    for i, operand in zip(wanted, operands[end:], strict=True):
        gradient = by_place.get(i)
        if gradient is None and ad.is_undefined_primal(operand):
            gradient = ad.Zero(operand.aval)
        gradients.append(gradient)
    return gradients


@lru_cache(maxsize=MAX_CHOICES)
def _is_enough(vjp: Vjp, metas: Metas) -> bool:
    """Whether the saved values are all that the gradients read; otherwise they are recomputed."""
    needed = differentiate(vjp.of, metas, vjp.given, vjp.wanted).saved
    return bool(vjp.saved) and set(needed) <= set(vjp.saved)


@tangent.def_abstract_eval
def _infer(*avals: Any, what: What, saved: Any, given: Any, wanted: Any) -> Any:
    begin = len(avals) - len(saved) - len(wanted)
    compiled = compile_piece(what, metas_of(label(what), avals[:begin]))
    metas = [compiled.fetches[compiled.places.index(i)] for i in given]
    return [make_aval(meta.shape, to_jax(meta.dtype), avals) for meta in metas]


def _compute_tangents(
    *operands: Any,
    what: What,
    saved: tuple[str, ...],
    given: tuple[int, ...],
    wanted: tuple[int, ...],
) -> list[Any]:
    """Return the tangents of the results.

    A Vjp is linear in its seeds, so zeros can be passed for them when it is differentiated with
    respect to them.
    """
    end = len(operands) - len(wanted)
    values, parts = operands[:end], operands[end:]
    compiled = compile_piece(what, metas_of(label(what), values[: end - len(saved)]))
    metas = [compiled.fetches[compiled.places.index(i)] for i in given]
    zeros = [jnp.zeros(meta.shape, to_jax(meta.dtype)) for meta in metas]
    seeds = vary([*operands, *zeros])[len(operands) :]
    vjp = Vjp(what, saved, given, wanted)
    sources = compile_piece(vjp, metas_of(label(vjp), [*values, *seeds])).sources
    used = tuple(i for i, source in enumerate(sources) if source is not None)
    if not used:
        return list(seeds)
    places = tuple(range(end, end + len(seeds)))
    chosen = [parts[i] for i in used]
    try:
        found = compute(Vjp(vjp, (), used, places), [*values, *seeds, *chosen])
    except GradientError as error:
        raise GradientError(
            f"{error}; forward mode (jvp, jacfwd) requires a second gradient, but jax.vjp and "
            "jax.jacrev do not"
        ) from None
    return [zero if part is None else part for zero, part in zip(seeds, found, strict=True)]


def _differentiate_tangents(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    places = [i for i, t in enumerate(tangents) if not isinstance(t, ad.Zero)]

    def push(*moving: Any) -> list[Any]:
        operands = list(primals)
        for place, value in zip(places, moving, strict=True):
            operands[place] = value
        return _compute_tangents(*operands, **params)

    results: tuple[list[Any], list[Any]] = jax.jvp(
        push, tuple(primals[i] for i in places), tuple(tangents[i] for i in places)
    )
    return results


def _batch_tangents(
    operands: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[int]]:
    results = jax.vmap(partial(_compute_tangents, **params), in_axes=tuple(dims))(*operands)
    return results, [0] * len(results)


def _transpose_vjp(grads: Sequence[Any], *operands: Any, what: What) -> list[Any]:
    """Transpose a Vjp, which is linear in its seeds, and with which `tangent` is computed."""
    linear = tuple(i for i, x in enumerate(operands) if ad.is_undefined_primal(x))
    if not isinstance(what, Vjp) or linear[0] < len(operands) - len(what.given):
        raise GradientError(
            f"{label(what)}: jax.linear_transpose requires a function that JAX knows to be "
            "linear, got a call of an operator; use jax.vjp"
        )
    values = [
        jnp.zeros(x.aval.shape, x.aval.dtype) if i in linear else x for i, x in enumerate(operands)
    ]
    places = compile_piece(what, metas_of(label(what), values)).places
    live = [(i, g) for i, g in zip(places, grads, strict=True) if not isinstance(g, ad.Zero)]
    results: list[Any] = [None] * len(operands)
    for i in linear:
        results[i] = ad.Zero(operands[i].aval)
    if live:
        vjp = Vjp(what, (), tuple(i for i, _ in live), linear)
        found = compute(vjp, [*values, *(g for _, g in live)])
        for i, gradient in zip(linear, found, strict=True):
            results[i] = results[i] if gradient is None else gradient
    return results


tangent.def_impl(_compute_tangents)
ad.primitive_jvps[primitive] = _differentiate
ad.primitive_jvps[tangent] = _differentiate_tangents
ad.primitive_transposes[primitive] = _transpose_vjp
ad.primitive_transposes[tangent] = _transpose
batching.primitive_batchers[tangent] = _batch_tangents
mlir.register_lowering(tangent, mlir.lower_fun(_compute_tangents, multiple_results=True))
