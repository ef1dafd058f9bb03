"""Wrong arguments raise before the start, even if Ray is not installed."""

from __future__ import annotations

from typing import Any

import pytest

from opwright.errors import AttributeTypeError, AttributeValueError, MissingRequirementError
from opwright_dist import DistError
from opwright_ray import OpwrightTrainer, report, requirement, resume


def nothing() -> None:
    """Train nothing."""


@pytest.mark.parametrize(
    ("options", "error", "rule"),
    [
        ({"num_workers": 0}, AttributeValueError, "num_workers must be at least 1, got 0"),
        ({"num_workers": "2"}, AttributeTypeError, "num_workers must be an int, got '2'"),
        ({"num_workers": True}, AttributeTypeError, "num_workers must be an int, got True"),
        ({"num_workers": (2, 1)}, AttributeValueError, r"num_workers=\(2, 1\); pass \(1, 2\)"),
        ({"num_workers": (1, 2, 3)}, AttributeValueError, "a minimum and a maximum, got"),
        ({"max_failures": -2}, AttributeValueError, "max_failures must be at least -1, got -2"),
        ({"keep": 0}, AttributeValueError, "keep must be at least 1, got 0"),
        (
            {"deadline_s": 0},
            AttributeValueError,
            "deadline_s must be a finite number of seconds above 0",
        ),
        (
            {"engine": "gloo"},
            DistError,
            "engine: an installed package must.*pip install opwright-gloo",
        ),
        ({"engine": "mpj"}, DistError, "got 'mpj'; did you mean 'mpi'"),
    ],
)
def test_the_error_for_a_wrong_argument_states_the_rule(
    options: Any, error: Any, rule: str
) -> None:
    with pytest.raises(error, match=rule):
        OpwrightTrainer(nothing, **{"num_workers": 2, **options})


def test_passing_the_result_of_train_fn_instead_of_the_function_raises() -> None:
    with pytest.raises(AttributeTypeError, match="train_fn must be a function, got NoneType"):
        OpwrightTrainer(nothing(), num_workers=2)  # type: ignore[func-returns-value]


@pytest.mark.parametrize(("release", "rule"), [(None, "got none"), ("2.61.0", "got 2.61.0")])
def test_without_a_supported_ray_release_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, release: str | None, rule: str
) -> None:
    monkeypatch.setattr(requirement, "find_release", lambda: release)
    advice = r"pip install \"ray\[train\]>=2.60,<2.61\""
    with pytest.raises(MissingRequirementError, match=f"OpwrightTrainer: .*{rule}; {advice}"):
        OpwrightTrainer(nothing, num_workers=2)
    with pytest.raises(MissingRequirementError, match=f"report: .*{rule}"):
        report({})
    with pytest.raises(MissingRequirementError, match=f"resume: .*{rule}"):
        resume(None)  # type: ignore[arg-type]
