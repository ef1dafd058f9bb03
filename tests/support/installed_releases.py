"""Makes pip in tests install the same releases as in the test environment.

These releases are pinned. Otherwise, a test could fail because another project published a new
release.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def pinned(folder: Path) -> dict[str, str]:
    """Write a constraints file into a folder; return the variables that pass it to pip."""
    constraints = folder / "constraints.txt"
    releases = {each.name: each.version for each in importlib.metadata.distributions()}
    lines = [f"{name}=={release}\n" for name, release in releases.items() if "opwright" not in name]
    constraints.write_text("".join(lines), encoding="utf-8")
    # In build environments, pip reads PIP_BUILD_CONSTRAINT; older pip releases also read
    # PIP_CONSTRAINT there.
    return {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}
