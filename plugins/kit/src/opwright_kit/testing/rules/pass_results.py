"""A pass changes programs, but not their results.

Programs of the operators that the pass names are drawn until it changes some of them. The changed
programs are run with the pass and without it, first fetching only the last results, then all
intermediate values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from opwright import Network, Scope
from opwright.device import HOST_DEVICE
from opwright.errors import OpwrightError
from opwright.kernel import ANY
from opwright.op import is_float
from opwright.runtime import CompiledNetwork
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.observation.programs import (
    DrawnProgram,
    ProgramDrawer,
    find_operators,
    floats_first,
)
from opwright_kit.testing.results.scorecard import Finding, Skipped
from opwright_kit.testing.results.subjects import PassSubject
from opwright_kit.testing.rules.reference import EPSILON
from opwright_kit.testing.samples.sample import Array, differ, meta_of, widen
from opwright_kit.testing.samples.samplers import GROUP

RULE = "pass-results"
SUMMARY = "a pass changes programs, but not their results"
SUBJECT = PassSubject

_PROGRAMS: Final = 400
"""The limit of drawn programs; fewer if `_CHANGED` of them were changed."""

_CHANGED: Final = 20

_ULPS: Final = 2**12
"""Rounding errors of a chain of operators, relative to the largest number in it."""


class Compared(NamedTuple):
    """A program that a pass changes, compiled in both forms.

    Attributes
    ----------
    program : DrawnProgram
    forms : (CompiledNetwork, CompiledNetwork)
        With the pass, and without it.
    """

    program: DrawnProgram
    forms: tuple[CompiledNetwork, CompiledNetwork]


def check(subject: PassSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield a finding for each changed result, or for a pass that changes no program."""
    n_changed = 0
    programs: list[DrawnProgram] = []
    for program, compared, fault in compare_programs(subject, context):
        programs += [] if programs and programs[-1] is program else [program]
        n_changed += compared is not None or fault is not None
        if fault is not None:
            yield _report(subject, program, fault)
    # Run the pass alone, in case other passes match the pattern first, or undo its change.
    for program in programs if not n_changed else ():
        compared, fault = _compare(subject, program, program.results, ([subject.pass_name], []))
        n_changed += compared is not None or fault is not None
        if fault is not None:
            yield _report(subject, program, fault)
        if n_changed == _CHANGED:
            break
    if not n_changed:
        first, others = find_operators(subject.pass_name, subject.context)
        names = ", ".join(dict.fromkeys([*first, *others])) or "no operators"
        text = (
            f"{subject.name}: a pass must change some program, got none of {len(programs)} of "
            f"{names} that it changed; name its operators in the registration and as strings, or "
            f"the reason in {GROUP}, as {subject.name!r}"
        )
        yield Finding(RULE, subject.name, text)


def _report(subject: PassSubject, program: DrawnProgram, fault: str) -> Finding:
    return Finding(RULE, subject.name, f"{subject.name}: {fault}", program.text)


def compare_programs(
    subject: PassSubject, context: CheckContext
) -> Iterator[tuple[DrawnProgram, Compared | None, str | None]]:
    """Yield drawn programs, with both forms or a fault, until enough programs were changed.

    Raises
    ------
    Skipped
        If the package declares why no drawn program is changed.
    """
    context.need_device(subject.device)
    reason = context.reasons.get(subject.name)
    if reason is not None:
        raise Skipped(f"no drawn program is changed: {reason}")
    n_changed = 0
    for seed in dict.fromkeys((context.seed, 0)):  # another seed may miss a rare pattern
        for program in _draw(subject, context.with_seed(seed)):
            everything = (*program.results, *program.between)
            for fetches in dict.fromkeys((tuple(program.results), everything)):
                passes = None, [f"-{subject.pass_name}"]
                compared, fault = _compare(subject, program, fetches, passes)
                n_changed += compared is not None
                yield program, compared, fault
            if n_changed >= _CHANGED:
                return
        if n_changed:
            return


def _draw(subject: PassSubject, context: CheckContext) -> Iterator[DrawnProgram]:
    last, others = find_operators(subject.pass_name, subject.context)
    dtypes = [d for op_type in last or others for d in context.operator_dtypes(op_type)]
    drawers = [
        ProgramDrawer(last, others, dtype, context)
        for dtype in floats_first(list(dict.fromkeys(dtypes)))[:2]
    ]
    rng = np.random.default_rng(context.seed)
    for number in range(_PROGRAMS if drawers else 0):
        try:
            program = drawers[number % len(drawers)].draw(rng)
        except OpwrightError:
            continue  # the operators that were drawn do not go together
        if program is not None:
            yield program


def _compare(
    subject: PassSubject,
    program: DrawnProgram,
    fetches: Sequence[str],
    passes: tuple[list[str] | None, list[str]],
) -> tuple[Compared | None, str | None]:
    """Return both forms of a program that the pass changes, or a fault in its results.

    `passes` contains the list of passes for the form with this pass, then the list for the form
    without it; None means all passes.
    """
    try:
        plain = _Form(subject, program, fetches, passes[1])
        expected = plain.run()
    except OpwrightError:
        return None, None  # a program that does not run has no results
    try:
        form = _Form(subject, program, fetches, passes[0])
        got = form.run()
    except OpwrightError as error:
        return None, f"a program must run with it as without it, got {error}"
    for name, array, reference in zip(fetches, got, expected, strict=True):
        if not _agree(array, reference):
            return None, (
                f"a pass must not change results, got a different {name} than without it, if "
                f"{', '.join(fetches)} are fetched; compare slots, order and readers of replaced "
                "operators"
            )
    if form.operators == plain.operators:
        return None, None
    return Compared(program, (form.call, plain.call)), None


class _Form:
    """A program compiled with some passes; None means all."""

    def __init__(
        self,
        subject: PassSubject,
        program: DrawnProgram,
        fetches: Sequence[str],
        passes: list[str] | None,
    ) -> None:
        device = subject.device
        scope = Scope()
        for name, array in program.persistables.items():
            scope.var(name).set(array)
        self._feeds = program.feeds
        self._network = Network(program.block)
        self.call = self._network.compile(
            [*program.feeds],
            [*fetches],
            scope=scope,
            device=HOST_DEVICE if device == ANY else device,
            passes=passes,
        )

    def run(self) -> list[Array]:
        """Return the fetched arrays."""
        with np.errstate(all="ignore"):
            return [np.asarray(array) for array in self.call(**self._feeds)]

    @property
    def operators(self) -> object:
        """The number of operators by type, and the number of copies."""
        placement = self._network.placement()
        return placement.types, placement.copies


def _agree(array: Array, reference: Array) -> bool:
    if array.shape != reference.shape or array.dtype != reference.dtype:
        return False
    dtype = meta_of(array).dtype
    if not is_float(dtype):
        return not differ(array, reference).any()
    numbers = widen(reference)
    finite = numbers[np.isfinite(numbers)]
    largest = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
    bound = _ULPS * EPSILON[dtype]
    return bool(
        np.allclose(widen(array), numbers, rtol=bound, atol=bound * largest, equal_nan=True)
    )
