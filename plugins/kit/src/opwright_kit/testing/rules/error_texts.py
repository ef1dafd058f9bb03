"""Error messages of an operator begin with its name, and contain the invalid value.

This rule covers shapes and dtypes, which the shape rule refuses; `out-of-range` covers kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from opwright.errors import OpwrightError
from opwright.op import OpDefinition
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import OperatorSubject
from opwright_kit.testing.samples.sample import Sample
from opwright_kit.testing.samples.wrong_inputs import find_wrong_metas

RULE = "error-texts"
SUMMARY = "errors about inputs of a wrong shape or dtype name the rule and the value"
SUBJECT = OperatorSubject


def check(subject: OperatorSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each wrong input whose error message lacks the operator or the value."""
    definition = subject.definition
    sample = _find_sample(definition, context)
    counts = sample.output_counts(definition)
    faults: set[str] = set()
    for what, metas in find_wrong_metas(definition, sample.input_metas(definition)):
        try:
            definition.infer(metas, sample.attrs, counts)
        except OpwrightError as error:
            fault = _find_fault(definition.op_type, error)
        else:
            continue
        if fault is not None and fault not in faults:
            faults.add(fault)
            yield Finding(RULE, subject.name, f"{subject.name}: {fault}", what)


def _find_sample(definition: OpDefinition, context: CheckContext) -> Sample:
    dtypes = context.declared_dtypes(definition)
    for dtype in sorted(dtypes, key=lambda name: name != "float32")[:4]:
        for sample in context.samples(definition, dtype):
            if any(sample.inputs.values()):
                return sample
    raise context.lack_of_inputs(definition.op_type)


def _find_fault(op_type: str, error: OpwrightError) -> str | None:
    """Return the fault of an error message, or None."""
    text = str(error)
    excerpt = repr(" ".join(text.split())[:200])
    if error.__cause__ is not None and "infer_shape must" in text:  # the core's, around another
        return f"infer_shape must say what is wrong itself, got {excerpt}; call ctx.require first"
    if not text.startswith(op_type):
        return f"an error must begin with the operator's name, got {excerpt}; call ctx.fail"
    if "got " not in text:
        return f"an error must say what it got, got {excerpt}; add 'got' and the value"
    return None
