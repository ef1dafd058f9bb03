"""The conformance kit: checks operators and kernels of an installed package by rules.

``opwright check PACKAGE`` on the command line; `check_package` here; ``pytest
--opwright-check=PACKAGE`` in a package's own tests. See docs/check_a_plugin.md.
"""

from opwright.testing.check import Check, PackageCheck, check_package, run_check
from opwright.testing.context import CheckContext
from opwright.testing.drawing import Draw, draw_samples
from opwright.testing.isolated import TIME_LIMIT_S, IsolatedCheck
from opwright.testing.kernel_run import KernelRun
from opwright.testing.launching import Launch, run_kernel
from opwright.testing.rules import Rule, load_rules
from opwright.testing.sample import Sample
from opwright.testing.scorecard import Finding, Result, Scorecard, Skipped

__all__ = [
    "check_package",
    "Check",
    "PackageCheck",
    "IsolatedCheck",
    "TIME_LIMIT_S",
    "run_check",
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
