"""The peer process. Without peers, as in `make test`, no test in this folder is collected."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from peer import Peer

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "std" / "operators")]

PYTHON = os.environ.get("OPWRIGHT_TEST_PEERS")
"""The interpreter with PyTorch and SciPy, which `make test-peers` sets."""

collect_ignore_glob = [] if PYTHON else ["test_*.py"]


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """Start the peers PyTorch and NumPy in a separate process."""
    from peer import Peer

    if PYTHON is None:
        pytest.skip("no peers: run make test-peers")
    process = Peer(PYTHON)
    yield process
    process.close()
