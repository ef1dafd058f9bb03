"""The conformance kit: checks operators and kernels of an installed package by rules.

``opwright check PACKAGE`` on the command line; `check_package` here; ``pytest
--opwright-check=PACKAGE`` in a package's own tests. See docs/check_a_plugin.md.
"""

from opwright.testing.check import PackageCheck, check_package
from opwright.testing.context import CheckContext
from opwright.testing.drawing import Draw, draw_samples
from opwright.testing.kernel_run import KernelRun
from opwright.testing.launching import Launch, run_kernel
from opwright.testing.rules import Rule, load_rules
from opwright.testing.sample import Sample
from opwright.testing.scorecard import Finding, Result, Scorecard, Skipped

__all__ = [
    "check_package",
    "PackageCheck",
    "CheckContext",
    "Scorecard",
    "Result",
    "Finding",
    "Skipped",
    "Rule",
    "load_rules",
    "Sample",
    "Draw",
    "draw_samples",
    "run_kernel",
    "Launch",
    "KernelRun",
]
