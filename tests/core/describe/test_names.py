"""Hints for misspelled names, and unique names."""

from __future__ import annotations

import pytest

from opwright.messages.foreign_arguments import FOREIGN_ARGUMENTS
from opwright.plugin import find_nearest, hint, hint_argument
from opwright.program.names import make_name


@pytest.mark.parametrize(
    ("name", "known", "nearest"),
    [
        ("axes", ["axis", "keepdims"], "axis"),
        ("num", ["num_classes", "axis"], "num_classes"),
        ("ADAM", ["Adam", "Sgd"], "Adam"),
        ("zzz", ["axis"], None),
        ("", ["axis"], None),
        ("x", [], None),
    ],
)
def test_find_nearest_returns_the_most_similar_name(name, known, nearest):
    assert find_nearest(name, known) == nearest


def test_a_hint_suggests_the_nearest_name_or_lists_all():
    assert hint("axes", ["axis", "x"], "attributes") == "; did you mean 'axis'?"
    assert hint("zzz", ["a", "b"], "inputs") == "; inputs are 'a', 'b'"
    assert hint("zzz", [], "inputs") == "; it has no inputs"
    assert hint("zzz", [f"n{i}" for i in range(20)]).endswith("'n11' and 8 more")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("dim", ["x", "axis"], "axis"),
        ("DIM", ["x", "axis"], "axis"),
        ("perm", ["x", "axes"], "axes"),
        ("kernel_size", ["x", "kernel"], "kernel"),
        ("stride", ["x", "strides"], "strides"),
        ("padding", ["x", "padding_index", "paddings"], "paddings"),
        ("keepdim", ["x", "keepdims"], "keepdims"),
        ("input", ["x", "axis"], "x"),
        ("input", ["logits", "label"], "logits"),
        ("out_channels", ["x", "filters"], "filters"),
        ("weight_decay", ["learning_rate", "regularizer"], "regularizer"),
        ("momentum", ["learning_rate", "mu"], "mu"),
        ("top_k", ["scores", "k"], "k"),
        ("params", ["targets", "parameters"], "parameters"),
        ("axes", ["axis"], "axis"),
    ],
)
def test_the_hint_for_an_argument_name_of_another_framework_suggests_the_opwright_name(
    name, known, meant
):
    assert hint_argument(name, known) == f"; did you mean {meant!r}?"


def test_the_error_for_an_unknown_argument_name_suggests_the_nearest():
    assert hint_argument("strids", ["strides"]) == "; did you mean 'strides'?"
    assert hint_argument("dim", ["x", "value"], "inputs") == "; inputs are 'x', 'value'"


def test_no_name_of_another_framework_maps_to_itself():
    for foreign, names in FOREIGN_ARGUMENTS.items():
        assert len({foreign, *names}) == 1 + len(names), foreign
        assert foreign == foreign.lower()


def test_hints_do_not_depend_on_the_order_of_a_set():
    assert {hint("abx", {"aby", "abz", "abw"}) for _ in range(10)} == {
        hint("abx", ["abw", "aby", "abz"])
    }


def test_unique_names_count_by_prefix_and_skip_taken_names():
    counts: dict[str, int] = {}
    taken = {"fc_2", "fc_3"}.__contains__
    names = [make_name(prefix, counts, taken) for prefix in ("fc", "fc", "conv", "fc", "fc")]
    assert names == ["fc_0", "fc_1", "conv_0", "fc_4", "fc_5"]
