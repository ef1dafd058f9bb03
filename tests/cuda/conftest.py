"""Makes the modules of these folders and the operator table importable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opwright_cuda.launch import LaunchPlan

HERE = Path(__file__).parent
ROOMS = [HERE / name for name in ("cudnn", "device", "kernels")]
for folder in (HERE, *ROOMS, HERE.parent / "std" / "operators"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of launched kernels."""
    names: list[str] = []
    launch = LaunchPlan.launch

    def record(plan: Any, source: Any, expression: str, *rest: Any) -> None:
        names.append(expression)
        launch(plan, source, expression, *rest)

    monkeypatch.setattr(LaunchPlan, "launch", record)
    return names
