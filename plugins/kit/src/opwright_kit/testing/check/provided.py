"""Rules of other packages, which check operators inside the frameworks that they support.

An annex of the topic ``rule`` is a function ``check(op_type, uses)``; its subject is the name of
the rule. The arguments of the function are an operator type and a few `Use` objects of it. The
function yields a pair (use, fault) for each fault, and may return the reason why there was nothing
to check.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright.errors import GradientError, MissingRequirementError, OpwrightError, PluginError
from opwright.op import (
    GradOp,
    NoGradient,
    OpDefinition,
    graded_outputs,
)
from opwright_kit.testing.gradients.training import graded_slots
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import find_on
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import OperatorSubject
from opwright_kit.testing.rules import Rule
from opwright_kit.testing.samples.choice import SampleChoice
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import Array, Sample

TOPIC: Final = "rule"
MAX_USES: Final = 4


@dataclass(frozen=True)
class Use:
    """A call of an operator, and opwright's results.

    Attributes
    ----------
    sample : Sample
        Arrays by slot in ``inputs``, and ``attrs``.
    arguments : list of ndarray
        All arrays, slot by slot.
    results : list of ndarray
        What ``opwright.ops`` returns.
    places : tuple of int
        The arguments that have a gradient; empty if none has.
    weights : list of ndarray or None
        The weight of each result, in the loss ``sum(weight * result)``; None for one without a
        gradient.
    gradients : list of ndarray
        The gradients of this loss, by the arguments at `places`.
    """

    sample: Sample
    definition: OpDefinition
    arguments: list[Array]
    results: list[Array]
    places: tuple[int, ...]
    weights: list[Array | None]
    gradients: list[Array]

    def call(self, ops: Any, arguments: Sequence[Any]) -> list[Any]:
        """Return the results of the operator in a namespace like ``opwright.ops``, as a list."""
        return _call(self.definition, self.sample, ops, arguments)


def provided_rules(context: ow.Context) -> list[Rule]:
    """Return the rules that the plugins of a Context provide, without imports."""
    return [
        Rule(
            entry.subject,
            f"the operator works as {entry.package.distribution} promises",
            OperatorSubject,
            partial(_check, entry),
            _concerns,
        )
        for entry in context.annexes.entries(TOPIC)
    ]


def _concerns(subject: OperatorSubject) -> bool:
    """Return whether users call the operator: it has no blocks and is not a gradient operator."""
    definition = subject.definition
    is_called = not definition.plan_only and not definition.proto.has_blocks
    return is_called and find_forward(subject.name, subject.context) is None


def _check(entry: Any, subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield the findings of a package's function."""
    try:
        found = entry.load()(subject.name, _draw(subject, context))
        reason = yield from _find_on(entry.subject, subject, found)
    except (MissingRequirementError, PluginError) as error:
        raise Skipped(" ".join(str(error).split())) from error
    if reason:
        raise Skipped(reason)


def _find_on(
    rule: str, subject: OperatorSubject, found: Any
) -> Generator[Finding, None, str | None]:
    """Yield findings; return the result of the package's function."""
    while True:
        try:
            use, fault = next(found)
        except StopIteration as end:
            reason: str | None = end.value
            return reason
        yield find_on(rule, subject, use.sample, fault)


def _draw(subject: OperatorSubject, context: CheckContext) -> Iterator[Use]:
    """Yield a few small uses that opwright computes."""
    definition = subject.definition
    dtypes = context.operator_dtypes(subject.name)
    dtype = "float32" if "float32" in dtypes else next(iter(dtypes), "")
    choice, count = SampleChoice([dtype]), 0
    for sample in context.samples(definition, dtype) if dtype else ():
        if count == MAX_USES:
            return
        if not choice.wants(sample):
            continue
        context.note(f"a use of {subject.name}", sample)
        use = _make_use(definition, sample, context)
        if use is not None:
            choice.add(sample)
            count += 1
            yield use
    if not count:
        raise Skipped("no small sample could be drawn that opwright.ops computes")


def _make_use(definition: OpDefinition, sample: Sample, context: CheckContext) -> Use | None:
    """Return a sample with its results and gradients, or None if the operator refuses it."""
    if definition.random and "step" in definition.proto.input_slots:
        sample = replace(sample, inputs={**sample.inputs, "step": (np.array([3]),)})
    slots = [slot for slot in definition.proto.inputs if sample.inputs.get(slot.name)]
    arguments = [a for slot in slots for a in sample.inputs[slot.name]]
    owners = [slot.name for slot in slots for _ in sample.inputs[slot.name]]
    try:
        with np.errstate(all="ignore"):
            results = [np.asarray(r) for r in _call(definition, sample, ow.ops, arguments)]
    except OpwrightError:
        return None
    weights = _draw_weights(definition, sample, results, context)
    graded = graded_slots(definition) if any(w is not None for w in weights) else set()
    places = [i for i, name in enumerate(owners) if name in graded and arguments[i].size]
    use = Use(sample, definition, arguments, results, (), weights, [])
    return _differentiate(use, [i for i in places if arguments[i].dtype.kind == "f"])


def _call(
    definition: OpDefinition, sample: Sample, ops: Any, arguments: Sequence[Any]
) -> list[Any]:
    items = iter(arguments)
    inputs: dict[str, Any] = {}
    for slot in definition.proto.inputs:
        given = [next(items) for _ in sample.inputs.get(slot.name, ())]
        if slot.duplicable and (given or not slot.optional):
            inputs[slot.name] = given
        elif given:
            inputs[slot.name] = given[0]
    for part in definition.op_type.split("."):
        ops = getattr(ops, part)
    results = ops(**inputs, **{k: v for k, v in sample.attrs.items() if v is not None})
    several = isinstance(results, (list, tuple))
    flat: list[Any] = []
    for result in results if several else [results]:
        flat += result if isinstance(result, (list, tuple)) else [result]
    return flat


def _draw_weights(
    definition: OpDefinition, sample: Sample, results: Sequence[Array], context: CheckContext
) -> list[Array | None]:
    """Return a random weight for each result that has a gradient, and None for other results."""
    rule, proto = definition.gradient, definition.proto
    slots = [slot for slot in proto.outputs if not slot.intermediate]
    if isinstance(rule, NoGradient) or len(slots) != len(results):
        return [None] * len(results)
    graded = graded_outputs(proto, rule) if isinstance(rule, GradOp) else slots
    names = {slot.name for slot in graded if not slot.aliases}
    rng = context.rng(sample)
    return [
        rng.standard_normal(r.shape).astype(r.dtype)
        if slot.name in names and r.dtype.kind == "f" and r.size
        else None
        for slot, r in zip(slots, results, strict=True)
    ]


def _differentiate(use: Use, places: Sequence[int]) -> Use:
    """Return the use with its gradients if they can be computed, otherwise unchanged."""
    n = len(use.arguments)
    weighed = [i for i, weight in enumerate(use.weights) if weight is not None]

    def loss(*values: Any) -> Any:  # large weights must be arguments, not constants
        results = use.call(ow.ops, values[:n])
        pairs = zip(weighed, values[n:], strict=True)
        return ow.ops.add_n([ow.ops.sum(ow.ops.multiply(results[i], w)) for i, w in pairs])

    values = [*use.arguments, *[use.weights[i] for i in weighed]]
    for tried in (tuple(places), tuple(places[:1])):
        try:
            found = ow.grad(loss, tried)(*values) if tried else []
        except GradientError:
            continue
        return replace(use, places=tried, gradients=[np.asarray(g) for g in found])
    return use
