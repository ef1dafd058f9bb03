"""Training on a cluster of Ray: workers that an engine of opwright-dist connects.

::

    from opwright_ray import OpwrightTrainer

    result = OpwrightTrainer(train, num_workers=4, max_failures=2).fit()
"""

from __future__ import annotations

from opwright_ray._version import __version__
from opwright_ray.reporting import report, resume
from opwright_ray.trainer import OpwrightTrainer

__all__ = ["OpwrightTrainer", "__version__", "report", "resume"]


def __dir__() -> list[str]:
    return sorted(__all__)
