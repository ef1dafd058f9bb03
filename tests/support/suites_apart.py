"""What suites share that need a large package, in an environment of its own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from every_case import EVERY, is_one_in


class _Absent(pytest.Module):
    """A file of tests whose package is not installed."""

    reason = ""

    def collect(self) -> Any:
        """Skip the file."""
        pytest.skip(self.reason, allow_module_level=True)


def make_absent(parent: Any, path: Path, package: str, target: str) -> pytest.Module:
    """Return what skips a file where a package is not installed, with the target that helps."""
    module: _Absent = _Absent.from_parent(parent, path=path)
    module.reason = f"{package} is not installed; make {target} installs it"
    return module


def keep_one_in(
    share: int, files: Collection[str], config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out all but one in so many parametrized tests of files, unless every one is wanted."""
    left_out = [
        item
        for item in items
        if item.path.name in files
        and hasattr(item, "callspec")
        and not (EVERY or is_one_in(share, item.name))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
