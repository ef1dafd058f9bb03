"""Makes pip in tests install the same releases as in the test environment.

They are pinned. Otherwise, a test could fail because another project published a new release.
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
    # The second is for pip's build environments; older releases also read the first there.
    return {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}
