"""Loops over blocks: `scan`, one iteration per element, and `while_loop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opwright.op import BLOCK, InferContext, Loop, Meta, OpMaker, merge_dims, shapes_match


def _carry(ctx: InferContext, slot: str, inputs: str, outputs: str, given: Sequence[Meta]) -> None:
    """Set the final carried values: their shapes and dtypes are loop-invariant."""
    entering = ctx.block_metas("body", ctx.attr(inputs))
    leaving = ctx.block_metas("body", ctx.attr(outputs))
    if not len(given) == len(entering) == len(leaving) == ctx.output_count(slot):
        ctx.fail(
            f"init, {inputs}, {outputs} and {slot} must have equally many variables, got "
            f"{len(given)}, {len(entering)}, {len(leaving)} and {ctx.output_count(slot)}"
        )
    found = []
    for name, first, inner, after in zip(ctx.attr(inputs), given, entering, leaving, strict=True):
        for other in (inner, after):
            if other.dtype != first.dtype or not shapes_match(other.shape, first.shape):
                ctx.fail(
                    f"an iteration must return its carried values with the same shape and dtype, "
                    f"got {after} after "
                    f"{first} for {name!r}, which is {inner}"
                )
        found.append(Meta(tuple(map(merge_dims, first.shape, after.shape)), first.dtype))
    ctx.set_metas(slot, found)


def _stack(ctx: InferContext, slot: str, names: str, lengths: Mapping[str, int]) -> None:
    """Set the stacked outputs of all iterations."""
    metas = ctx.block_metas("body", ctx.attr(names))
    if len(metas) != ctx.output_count(slot):
        ctx.fail(
            f"{slot} must have as many variables as {names}, got {ctx.output_count(slot)} for "
            f"{len(metas)}"
        )
    arrays = []
    segmented = ctx.attr("body_segments") if "elements" in lengths else ()
    for name, meta in zip(ctx.attr(names), metas, strict=True):
        if name not in segmented:
            shape = (lengths["turns"], *meta.shape)
        elif meta.shape:
            shape = (lengths["elements"], *meta.shape[1:])
        else:
            ctx.fail(f"{name!r} must have the elements of a segment along axis 0, got {meta}")
        arrays.append(Meta(shape, meta.dtype))
    ctx.set_metas(slot, arrays)


def _check_segments(ctx: InferContext) -> frozenset[str]:
    """Return the names of body_segments, after checking the related attributes."""
    names = frozenset(ctx.attr("body_segments"))
    if ctx.attr("segment") is None:
        if names:
            ctx.fail("segment must be given with body_segments, got none")
        return names
    known = {*ctx.attr("body_xs"), *ctx.attr("body_out"), *ctx.attr("body_kept")}
    if not names <= known or names.isdisjoint(ctx.attr("body_xs")):
        ctx.fail(
            "body_segments must contain at least one of body_xs, and otherwise only names of "
            "body_out, got "
            f"{list(ctx.attr('body_segments'))}"
        )
    for other in ("turns", "checkpoint_every"):
        given = ctx.has_input(other) if other == "turns" else ctx.attr(other) is not None
        if given:
            ctx.fail(f"{other} must be absent if segment is given")
    return names


def _measure(ctx: InferContext) -> dict[str, int]:
    """Return the number of iterations and, with segments, of elements; -1 if not yet known.

    The lengths of `xs` and the attribute `length` must agree.
    """
    given, segmented = ctx.inputs("xs"), _check_segments(ctx)
    if ctx.attr("length") is None and not given:
        ctx.fail("xs or length must determine the number of iterations, got neither")
    rows = ctx.attr("segment")
    found = {"turns": -1 if ctx.attr("length") is None else int(ctx.attr("length"))}
    if rows is not None:
        found["elements"] = -1
    for name, meta in zip(ctx.attr("body_xs"), given, strict=False):
        word = "elements" if name in segmented else "turns"
        if not meta.shape or not shapes_match(meta.shape[:1], (found[word],)):
            lengths = ", ".join(map(str, given))
            ctx.fail(
                f"xs must have the same length along axis 0, equal to length if given, got "
                f"{lengths} and length={ctx.attr('length')}"
            )
        found[word] = merge_dims(found[word], meta.shape[0])
    if found.get("elements", -1) >= 0:
        n_turns = -(-found["elements"] // rows)
        if not shapes_match((found["turns"],), (n_turns,)):
            ctx.fail(
                f"{found['elements']} elements must be {found['turns']} segments of {rows} (the "
                f"last may be shorter), got {n_turns}"
            )
        found["turns"] = n_turns
    return found


def _scan_shape(ctx: InferContext) -> None:
    """Set the outputs: final carried values, and body outputs stacked along a new first axis."""
    elements = ctx.block_metas("body", ctx.attr("body_xs"))
    if len(elements) != len(ctx.inputs("xs")):
        ctx.fail(
            f"body_xs must have one variable for each of xs, got {len(elements)} for "
            f"{len(ctx.inputs('xs'))}"
        )
    lengths = _measure(ctx)
    for name, meta, given in zip(ctx.attr("body_xs"), elements, ctx.inputs("xs"), strict=True):
        rows = (-1,) if name in ctx.attr("body_segments") else ()
        if meta.dtype != given.dtype or not shapes_match(meta.shape, (*rows, *given.shape[1:])):
            what = "a segment" if rows else "an element"
            ctx.fail(f"{name!r} must be {what} of {given}, got {meta}")
    if ctx.has_input("turns") and ctx.output_count("out"):
        ctx.fail("out must be absent if turns is given")
    if ctx.attr("checkpoint_every") is not None and (not elements or ctx.has_input("turns")):
        ctx.fail(
            "checkpoint_every must be absent with turns and without xs, whose segments the "
            "gradient uses; pass xs of shape [n, 0] to loop n times without data"
        )
    _carry(ctx, "final", "body_init", "body_final", ctx.inputs("init"))
    _stack(ctx, "out", "body_out", lengths)
    _stack(ctx, "kept", "body_kept", lengths)


# The gradient of a loop, built by the core, is a reversed scan over the gradients of its body.
SCAN = (
    OpMaker("scan")
    .add_comment(
        "Runs body for each element of xs along axis 0: out[i] = body_out, and body_init of the "
        "next iteration = body_final. final = body_final of the last iteration, or init without "
        "any."
    )
    .add_input("init", "the initial carried values")
    .as_duplicable()
    .as_optional()
    .add_input(
        "xs", "arrays of equal length n along axis 0; each iteration reads one element of each"
    )
    .as_duplicable()
    .as_optional()
    .add_input("x", "the outer variables that body reads; determined if not given")
    .as_duplicable()
    .as_optional()
    .add_input("turns", "one element: the number of iterations to run, in [0, n]")
    .dtypes("int64")
    .as_optional()
    .add_output("final", "the final carried values, as init")
    .as_duplicable()
    .as_optional()
    .add_output("out", "[n, ...]: outputs of every iteration; not with turns")
    .as_duplicable()
    .as_optional()
    .add_output("kept", "[n, ...]: values of every iteration that a gradient reads")
    .as_duplicable()
    .as_optional()
    .as_intermediate()
    .add_attr("body", BLOCK, "one turn")
    .required()
    .add_attr("body_init", list[str], "variables of body for the carried values")
    .default([])
    .add_attr("body_xs", list[str], "variables of body for an element of each of xs")
    .default([])
    .add_attr(
        "body_final",
        list[str],
        "variables of body with the next carried values, of the shapes of init",
    )
    .default([])
    .add_attr("body_out", list[str], "variables of body that are stacked into out")
    .default([])
    .add_attr("body_kept", list[str], "variables of body that are stacked into kept")
    .default([])
    .add_attr("length", int, "the number of iterations n, if not determined by xs")
    .at_least(0)
    .add_attr("reverse", bool, "whether the first iteration reads the last element")
    .default(False)
    .add_attr(
        "checkpoint_every",
        int,
        "k: the gradient saves the carried values of every k-th iteration, and recomputes the k "
        "iterations after it, with memory for n / k + k iterations instead of n",
    )
    .at_least(1)
    .add_attr(
        "segment",
        int,
        "k: each iteration reads or appends k elements, and the last iteration the rest, of "
        "the variables in body_segments; the gradient saves the carried values of an "
        "iteration, and recomputes it",
    )
    .at_least(1)
    .add_attr("body_segments", list[str], "the variables of body_xs and body_out that are segments")
    .default([])
    .build(
        infer_shape=_scan_shape,
        control=Loop(
            condition=None,
            carried="init",
            captured="x",
            outputs="final",
            block="body",
            block_inputs="body_init",
            block_outputs="body_final",
            block_condition=None,
            max_iterations="length",
            sequences="xs",
            block_elements="body_xs",
            stacks=(("out", "body_out"), ("kept", "body_kept")),
            turns="turns",
            reverse="reverse",
            checkpoint_every="checkpoint_every",
            segment="segment",
            segmented="body_segments",
        ),
    )
)


def _while_shape(ctx: InferContext) -> None:
    """Carried values keep their shapes; conditions have one element."""
    if any(dim not in (1, -1) for dim in ctx.input("condition").shape):
        ctx.fail(f"condition must have one element, got {ctx.input('condition')}")
    (again,) = ctx.block_metas("body", [ctx.attr("body_condition")])
    if again.dtype != "bool" or any(dim not in (1, -1) for dim in again.shape):
        ctx.fail(f"body_condition must be one bool, got {again}")
    n_turns = ctx.attr("max_steps")
    if n_turns is None and ctx.attr("body_kept"):
        ctx.fail("max_steps must be given for saved iterations, got none")
    _carry(ctx, "out", "body_init", "body_out", ctx.inputs("init"))
    for slot in ("stacked", "kept"):
        _stack(ctx, slot, f"body_{slot}", {"turns": -1 if n_turns is None else n_turns})
    ctx.set_output("steps", (1,))


WHILE_LOOP = (
    OpMaker("while_loop")
    .add_comment(
        "out = init; while condition: out = body_out, condition = body_condition. More than "
        "max_steps iterations are an error."
    )
    .add_input("condition", "bool of one element: whether to run the first iteration")
    .dtypes("bool")
    .add_input("init", "the initial carried values")
    .as_duplicable()
    .add_input("x", "the outer variables that body reads; determined if not given")
    .as_duplicable()
    .as_optional()
    .add_output("out", "the final carried values, as init")
    .as_duplicable()
    .add_output(
        "stacked",
        "[n, ...] for n iterations: outputs of every iteration; with max_steps [max_steps, ...], "
        "of which the first n are written",
    )
    .as_duplicable()
    .as_optional()
    .add_output("steps", "[1]: the number of iterations run")
    .dtypes("int64")
    .as_optional()
    .as_intermediate()
    .add_output("kept", "[max_steps, ...]: values of every iteration that a gradient reads")
    .as_duplicable()
    .as_optional()
    .as_intermediate()
    .add_attr("body", BLOCK, "one iteration, and whether there is a next one")
    .required()
    .add_attr("body_init", list[str], "variables of body for the carried values")
    .required()
    .add_attr(
        "body_out",
        list[str],
        "variables of body with the next carried values, of the shapes of init",
    )
    .required()
    .add_attr("body_condition", str, "the condition of the next iteration")
    .required()
    .add_attr("body_stacked", list[str], "variables of body that are stacked")
    .default([])
    .add_attr("body_kept", list[str], "variables of body that are stacked into kept")
    .default([])
    .add_attr("max_steps", int, "maximum number of iterations; without it there is no gradient")
    .at_least(0)
    .dynamic_output()
    .build(
        infer_shape=_while_shape,
        control=Loop(
            condition="condition",
            carried="init",
            captured="x",
            outputs="out",
            block="body",
            block_inputs="body_init",
            block_outputs="body_out",
            block_condition="body_condition",
            max_iterations="max_steps",
            stacks=(("stacked", "body_stacked"), ("kept", "body_kept")),
            turns_taken="steps",
        ),
    )
)
