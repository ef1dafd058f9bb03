"""Each planted defect is reported by the rule that it breaks, and by no other rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from every_case import EVERY, is_one_in
from opwright import Context
from opwright_kit.testing import Scorecard, check_package, load_rules
from opwright_kit.testing.rules import import_cost


class Planted(NamedTuple):
    """The location of a defect, and the rules that detect the defect.

    Attributes
    ----------
    rule : str
        The broken rule.
    operator : str
        The operator that has it, after the plugin's name; or the pass.
    also : mapping of str to str
        Rules that also find it, each with the reason.
    """

    rule: str
    operator: str
    also: Mapping[str, str] = MappingProxyType({})

    @property
    def plugin(self) -> str:
        if self.operator.startswith("pass "):
            return "broken_pass_results"
        return self.operator.partition(".")[0]


FAILS = {"shape-rule": "the shape rule accepts what the kernel fails on, whatever the reason"}
SHARED = {"threads": "another thread packs the input while it is turned round"}

FAR = {"gradient-extremes": "the wrong branch is the one far below 0"}

PAGES = {"guard-pages": "what is written beyond an array lies on the page behind it"}

PLANTED = (
    Planted("documented", "broken_documented.twice"),
    Planted("shape-rule", "broken_shape_rule.too_long"),
    Planted("shape-rule", "broken_shape_rule.unknown"),
    Planted("shape-rule", "broken_shape_rule.resized"),
    Planted("shape-rule", "broken_shape_rule.rows_claimed"),
    Planted("shape-rule", "broken_shape_rule.rows_needed"),
    Planted("shape-rule", "broken_compiled.writes_shape"),
    Planted("reference", "broken_reference.tail"),
    Planted("reference", "broken_reference.large"),
    Planted("reference", "broken_compiled.ignores_strides"),
    Planted("reference", "broken_reference.packed_end"),
    Planted("reference", "broken_reference.packed_once"),
    Planted("rejects-attributes", "broken_rejects_attributes.scaled", FAILS),
    Planted("rejects-attributes", "broken_rejects_attributes.raised", FAILS),
    Planted("gradient", "broken_gradient.square"),
    Planted("gradient", "broken_gradient.twice"),
    Planted("gradient", "broken_gradient.sum"),
    Planted("gradient", "broken_gradient.branch", FAR),
    Planted("idle-attributes", "broken_idle_attributes.scaled"),
    Planted("special-values", "broken_special_values.drops_nan"),
    Planted("special-values", "broken_special_values.drops_infinity"),
    Planted("special-values", "broken_special_values.raises"),
    Planted("special-values", "broken_special_values.like_reference"),
    Planted("gradient-extremes", "broken_gradient_extremes.multiplies"),
    Planted("gradient-extremes", "broken_gradient_extremes.drops_nan"),
    Planted("gradient-extremes", "broken_gradient_extremes.cancels"),
    Planted("gradient-extremes", "broken_gradient_extremes.overflows"),
    Planted("gradient-extremes", "broken_gradient_extremes.ends"),
    Planted("gradient-extremes", "broken_gradient_extremes.composed"),
    Planted("aliases", "broken_aliases.reverse"),
    Planted("aliases", "broken_aliases.accumulate"),
    Planted("inputs-unchanged", "broken_inputs_unchanged.negate"),
    Planted("inputs-unchanged", "broken_inputs_unchanged.double"),
    Planted("inputs-unchanged", "broken_compiled.writes_input"),
    Planted("inputs-unchanged", "broken_compiled.packs_in_place", SHARED),
    Planted("writes-every-element", "broken_writes_every_element.twice"),
    Planted("writes-every-element", "broken_compiled.leaves_last"),
    Planted("writes-every-element", "broken_compiled.leaves_tail"),
    Planted("writes-every-element", "broken_compiled.begins_at_row"),
    Planted("guard-bytes", "broken_guard_bytes.twice", PAGES),
    Planted("guard-bytes", "broken_compiled.writes_past_end", PAGES),
    Planted("guard-pages", "broken_compiled.reads_past_end"),
    Planted("guard-pages", "broken_compiled.reads_before_begin"),
    Planted("pass-results", "pass broken_swapped"),
    Planted("pass-results", "pass broken_unobserved"),
    Planted("pass-results", "pass broken_never"),
    Planted("pass-time", "pass broken_slow"),
    Planted("deterministic", "broken_deterministic.center"),
    Planted("threads", "broken_threads.twice"),
    Planted("threads", "broken_compiled.shares_sum"),
    Planted("refusals", "broken_refusals.silent"),
    Planted("refusals", "broken_refusals.all"),
    Planted("error-texts", "broken_error_texts.bare"),
    Planted("error-texts", "broken_error_texts.unnamed"),
    Planted("error-texts", "broken_error_texts.no_value"),
    Planted("out-of-range", "broken_out_of_range.pick"),
    Planted("out-of-range", "broken_out_of_range.pick_clipped"),
    Planted("inconsistent-inputs", "broken_inconsistent_inputs.reads_beside"),
    Planted("inconsistent-inputs", "broken_inconsistent_inputs.writes_beside"),
    Planted("inconsistent-inputs", "broken_inconsistent_inputs.cuts"),
)

WITH_TWIN = (
    "pass broken_swapped",
    "broken_compiled.reads_past_end",
    "broken_compiled.leaves_tail",
    "broken_gradient.branch",
    "broken_compiled.shares_sum",
    "broken_threads.twice",
    "broken_compiled.begins_at_row",
    "broken_compiled.ignores_strides",
    "broken_idle_attributes.scaled",
)
"""Each has a variant without the defect, with the suffix ``_fixed``."""

IN_PROCESSES = {"returns", "garbage-collection"}
"""Rules whose defects terminate or hang the process; test_isolated.py covers them."""

IMPORT_COST, ANNEXES = "import-cost", "annexes"
ALL_BUT_IMPORT = [rule.name for rule in load_rules() if rule.name != IMPORT_COST]
IN_C = {"broken_compiled", "broken_guard_bytes"}
"""Plugins with defects for guard-pages, which takes longer than all other rules together."""


def rules_for(plugin: str) -> list[str]:
    """Return the rules that detect the defects of a plugin, and some rules that must find nothing.

    `make test-all` applies every rule to every plugin.
    """
    if EVERY or plugin in IN_C:
        return ALL_BUT_IMPORT
    own = {rule for each in PLANTED if each.plugin == plugin for rule in (each.rule, *each.also)}
    others = {name for name in ALL_BUT_IMPORT if is_one_in(3, name)} - {"guard-pages"}
    return [name for name in ALL_BUT_IMPORT if name in own | others]


@pytest.fixture(scope="module")
def cards(controls: Context) -> dict[str, Scorecard]:
    """The findings of the kit in each broken plugin, without the rule that measures imports."""
    plugins = dict.fromkeys(planted.plugin for planted in PLANTED)
    return {
        plugin: check_package(
            f"opwright-{plugin.replace('_', '-')}", rules=rules_for(plugin), context=controls
        )
        for plugin in plugins
    }


def broken_rules(card: Scorecard, operator: str) -> set[str]:
    """Return the rules that an operator or its kernels break."""
    return {
        finding.rule
        for finding in card.findings
        if finding.subject.partition("[")[0].removesuffix("_grad") == operator
    }


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.operator)
def test_a_planted_defect_is_reported_only_by_its_rule(
    planted: Planted, cards: dict[str, Scorecard]
) -> None:
    found = broken_rules(cards[planted.plugin], planted.operator)
    assert planted.rule in found
    assert found <= {planted.rule, *planted.also}


@pytest.mark.parametrize("operator", WITH_TWIN)
def test_the_fixed_version_of_a_defect_is_not_reported(
    operator: str, cards: dict[str, Scorecard]
) -> None:
    planted = next(each for each in PLANTED if each.operator == operator)
    assert broken_rules(cards[planted.plugin], f"{operator}_fixed") == set()


@pytest.mark.long("each defect and its twin are checked again, at two seeds")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("operator", WITH_TWIN)
def test_for_other_seeds_a_defect_is_reported_but_its_fixed_version_is_not(
    operator: str, seed: int, controls: Context
) -> None:
    planted = next(each for each in PLANTED if each.operator == operator)
    package = f"opwright-{planted.plugin.replace('_', '-')}"
    options: dict[str, Any] = {"rules": [planted.rule], "seed": seed, "context": controls}
    assert check_package(package, subject=operator, **options).findings
    assert not check_package(package, subject=f"{operator}_fixed", **options).findings


def test_a_kernel_that_accepts_only_parameters_is_checked(cards: dict[str, Scorecard]) -> None:
    name = "broken_compiled.takes_parameters[cpu, broken_compiled]"
    results = [r for r in cards["broken_compiled"].results if r.subject == name]
    states = {result.rule: result.state for result in results}
    assert set(states.values()) == {"passed", "skipped"}
    assert [rule for rule, state in states.items() if state == "skipped"] == ["reference"]


def test_every_finding_names_its_subject_in_one_line(cards: dict[str, Scorecard]) -> None:
    for card in cards.values():
        for finding in card.findings:
            assert finding.message.startswith(finding.subject)
            assert "\n" not in finding.message


def test_a_wrong_value_far_along_an_axis_is_reported_with_its_position(
    cards: dict[str, Scorecard],
) -> None:
    found = [
        finding
        for finding in cards["broken_gradient"].findings
        if finding.subject == "broken_gradient.twice"
    ]
    places = [re.search(r"the gradient of x\[[\d, ]+\] is ", each.message) for each in found]
    lengths = {each.sample.rpartition("(length ")[2] for each in found}
    assert "5003)" in lengths
    assert lengths <= {"257)", "855)", "1501)", "5003)"}
    assert all(place is not None for place in places)


def test_the_finding_for_a_kernel_that_writes_its_input_suggests_a_fix(
    cards: dict[str, Scorecard],
) -> None:
    found = [
        finding.message
        for finding in cards["broken_inputs_unchanged"].findings
        if finding.subject.startswith("broken_inputs_unchanged.double[")
    ]
    assert "inputs must stay unchanged, got ValueError: " in found[0]
    assert found[0].endswith("is read-only; write to an output, or declare one with aliases")


def test_a_finding_can_be_reproduced_by_its_sample_number(controls: Context) -> None:
    name, rule = "opwright-broken-reference", "reference"
    first = check_package(name, rules=[rule], context=controls).findings[0]
    again = check_package(
        name,
        rules=[rule],
        subject=first.subject,
        sample=first.number,
        dtype=first.dtype,
        context=controls,
    )
    assert again.findings == [first]


def test_every_rule_has_a_planted_defect() -> None:
    planted = {each.rule for each in PLANTED} | {IMPORT_COST, ANNEXES, *IN_PROCESSES}
    assert planted == {rule.name for rule in load_rules()}


def test_a_plugin_without_defects_has_no_findings(
    controls: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_cost, "LIMIT_MS", 10_000.0)  # however busy the machine is
    rules = [rule.name for rule in load_rules() if EVERY or rule.name != "guard-pages"]
    card = check_package("opwright-good", rules=rules, context=controls)
    assert [finding.message for finding in card.findings] == []
    passed = {result.rule for result in card.results if result.state == "passed"}
    assert passed == set(rules)


def test_an_annex_is_checked_by_the_rule_of_the_package_that_uses_it(controls: Context) -> None:
    card = check_package("opwright-broken-annexes", rules=[ANNEXES], context=controls)
    (finding,) = card.findings
    expected = "table[broken]: good.pick: its purpose must be a sentence, got 'nothing'"
    assert finding.message == expected


def test_a_slow_hook_module_is_reported_with_its_imports(controls: Context) -> None:
    card = check_package("opwright-broken-import-cost", rules=[IMPORT_COST], context=controls)
    (finding,) = card.findings
    assert "import of opwright_broken_import_cost must take at most 5 ms, got" in finding.message
    assert "asyncio (" in finding.message
    assert "http.server (" in finding.message


def test_a_hook_module_that_sleeps_is_reported_without_naming_an_import(controls: Context) -> None:
    card = check_package("opwright-broken-import-sleep", rules=[IMPORT_COST], context=controls)
    (finding,) = card.findings
    assert "its own code" in finding.message
