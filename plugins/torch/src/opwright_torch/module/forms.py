"""The part of a program that a `Module` runs in one mode, as a string and as plans."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import opwright as ow
from opwright import vocabulary
from opwright.op import NoGradient, is_float
from opwright_torch.ops.calls import Whole, write
from opwright_torch.ops.gradients import let_flow
from opwright_torch.plans.building import Draft, Job, copy_value
from opwright_torch.plans.forward import Forward
from opwright_torch.plans.kept import Kept
from opwright_torch.plans.one_plan import OnePlan
from opwright_torch.plans.two_plans import TwoPlans
from opwright_torch.translate import Translated


class Form(NamedTuple):
    """The operators of one mode; indices refer to the arguments: feeds, then persistables."""

    program: ow.Program
    names: tuple[str, ...]  # names of all arguments
    fed: tuple[int, ...]  # feeds that are read
    kept: tuple[int, ...]  # persistables that are read
    written: tuple[int, ...]  # persistables that are modified
    results: tuple[str, ...]  # distinct variables, none of which is an argument
    is_random: bool
    text: str  # a `Whole` of feeds, persistables and step; returns results and new values


def make_form(
    program: ow.Program, feeds: Sequence[str], persistables: Sequence[str], fetches: Sequence[str]
) -> Form:
    """Return the form of a Program without updates; copy results that are also arguments."""
    block = program.global_block()
    names = (*feeds, *persistables)
    results: list[str] = []
    for name in fetches:
        is_own = name not in names and name not in results
        results.append(name if is_own else copy_value(block, block.var(name)))
    read = set(ow.names_read_first(block.ops))
    writers = [op for op in block.ops if op.attrs.get("training") is not False]
    written = {name for op in writers for name in op.output_names()}
    fed = tuple(i for i, name in enumerate(feeds) if name in read)
    kept = tuple(i for i in range(len(feeds), len(names)) if names[i] in read)
    changed = tuple(i for i in kept if names[i] in written)
    is_random = vocabulary.STEP in read
    arguments = [names[i] for i in (*fed, *kept)]
    if is_random:
        arguments.append(vocabulary.STEP)
    text = _write_text(program, arguments, [names[i] for i in changed], results)
    return Form(program, names, fed, kept, changed, tuple(results), is_random, text)


def _write_text(
    program: ow.Program, arguments: Sequence[str], changed: Sequence[str], results: Sequence[str]
) -> str:
    """Serialize a functional call of the Program that returns modified values as results."""
    twin = program.clone()
    block = twin.global_block()
    befores = {}
    for name in changed:
        variable = block.var(name)
        befores[name] = twin.free_name(f"{name}_before")
        block.create_var(befores[name], variable.shape, variable.dtype, is_data=True)
        block.prepend_op(vocabulary.ASSIGN, {"x": befores[name]}, {"out": name})
    return write(
        Whole(
            base64.b64encode(twin.to_proto().SerializeToString()).decode(),
            tuple(befores.get(name, name) for name in arguments),
            (*results, *changed),
        )
    )


def make_plan(
    form: Form, kept: Kept, trained: Sequence[int], choices: Mapping[str, Any]
) -> Forward:
    """Return a plan that computes the results, and gradients for the `trained` arguments."""
    block = form.program.global_block()
    flowing = _flow(block, [form.names[i] for i in trained])
    differentiable = [i for i, name in enumerate(form.results) if name in flowing]
    is_loss = len(differentiable) == 1 and _is_scalar(block.var(form.results[differentiable[0]]))
    job = Job(
        partial(_draft, form),
        form.kept,
        form.written,
        form.fed,
        tuple(trained),
        tuple(range(len(form.results))),
        tuple(differentiable),
        differentiable[0] if is_loss else -1,
    )
    kind = Forward
    if differentiable:
        kind = OnePlan if is_loss else TwoPlans
    return kind(job, (), kept, choices)


def _draft(form: Form, job: Job, sizes: Mapping[Any, int]) -> Draft:
    """Return a draft of the forward pass; gradient operators are appended to its program."""
    program = form.program.clone()
    block = program.global_block()
    wanted = [form.names[i] for i in job.trained]
    for name in wanted:
        let_flow(block.var(name))
    names: list[str | None] = [*form.names]
    translated = Translated(program, names, [], {}, {}, [], _flow(block, wanted))
    feeds = [form.names[i] for i in form.fed]
    if form.is_random:
        feeds.append(vocabulary.STEP)
    return Draft(translated, feeds, list(form.results), [], form.is_random, [])


def _flow(block: ow.Block, sources: Iterable[str]) -> frozenset[str]:
    """Return `sources` and every variable whose gradient can flow back to one of them."""
    flowing = set(sources)
    for op in block.ops:
        if isinstance(op.definition.gradient, NoGradient) or flowing.isdisjoint(op.input_names()):
            continue
        for name in op.output_names():
            variable = block.var(name)
            if is_float(variable.dtype) and not variable.stop_gradient:
                flowing.add(name)
    return frozenset(flowing)


def _is_scalar(variable: ow.Variable) -> bool:
    return variable.shape is not None and all(size == 1 for size in variable.shape)
