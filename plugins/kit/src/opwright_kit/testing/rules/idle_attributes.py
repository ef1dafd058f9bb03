"""An attribute changes a result of some sample, or the package declares why it does not.

Comparisons with a reference and with differences do not detect an attribute that every kernel
ignores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opwright.errors import OpwrightError
from opwright.kernel import KernelEntry, Refuse
from opwright.op import AttrProto, AttrType
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.observation import find_difference
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import KernelSubject
from opwright_kit.testing.samples import attributes
from opwright_kit.testing.samples.gradient_samples import find_forward
from opwright_kit.testing.samples.sample import Sample, count_elements

RULE = "idle-attributes"
SUMMARY = "each attribute changes a result, or is declared to have no effect"
SUBJECT = KernelSubject

_MOST_ELEMENTS = 2000
"""The largest size of a sample's inputs: few elements show the effect of an attribute."""


def concerns(subject: KernelSubject) -> bool:
    """Return whether there are attributes; a gradient may ignore attributes of its operator."""
    definition = subject.definition
    if find_forward(definition.op_type, subject.context) is not None:
        return False
    return any(map(_can_be_tried, definition.proto.attrs))


def check(subject: KernelSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each attribute without an effect on any sample."""
    idle = {a.name: a for a in subject.definition.proto.attrs if _can_be_tried(a)}
    last: Sample | None = None
    # Seed 0 is always used, since another seed may not draw any value that matters, such as
    # padding.
    contexts = [context.with_seed(seed) for seed in dict.fromkeys((context.seed, 0))]
    for entry, sample in (run for each in contexts for run in each.launches(subject.entries[:1])):
        for name in sample.without_effect:
            idle.pop(name, None)
        n_elements = count_elements(sample)
        if n_elements > _MOST_ELEMENTS or (sample.inputs and not n_elements):
            continue
        try:
            context.run(entry, sample)
        except (Refuse, OpwrightError):
            continue
        last = sample
        for name in [n for n, attr in idle.items() if _has_effect(attr, entry, sample, context)]:
            del idle[name]
        if not idle:
            return
    if last is None:
        raise Skipped("the kernel computed none of the samples")
    for name in idle:
        message = (
            f"{subject.name}: each attribute must change a result, got the same for all values of "
            f"{name}; use it, or name it in draw.without_effect with the reason (opwright.samples)"
        )
        yield Finding(RULE, subject.name, message)


def _can_be_tried(attr: AttrProto) -> bool:
    """Return whether other values can be tried, unlike for free text, dtypes and blocks."""
    is_text = attr.type.element is AttrType.STRING and not attr.allowed
    return not (attr.is_dtype or is_text or attr.type.element is AttrType.BLOCK)


def _has_effect(attr: AttrProto, entry: KernelEntry, sample: Sample, context: CheckContext) -> bool:
    """Return whether another value changes the result, is refused, or fails."""
    definition = context.context.ops.get(sample.op_type)
    expected = context.run(entry, sample).outputs
    for value in attributes.others(attr, context.rng(sample)):
        if value == sample.attrs.get(attr.name):
            continue
        label = f"{attr.name}={value!r}"
        changed = replace(sample, attrs={**sample.attrs, attr.name: value}, label=label)
        try:
            changed.infer(definition)
            outputs = context.new_launch(entry, changed).run().outputs
        except (Refuse, OpwrightError):
            return True
        if find_difference(expected, outputs) is not None:
            return True
    return False
