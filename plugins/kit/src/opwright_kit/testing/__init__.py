"""The conformance kit: checks operators and kernels of an installed package by rules.

The kit runs as ``opwright check PACKAGE`` on the command line, as `check_package` in Python, and as
``pytest -p opwright_kit.pytest_plugin --opwright-check=PACKAGE`` in a package's own tests. See
docs/check_a_plugin.md.
"""

from opwright_kit.testing.check.isolated import TIME_LIMIT_S, IsolatedCheck
from opwright_kit.testing.check.package import Check, PackageCheck, check_package, run_check
from opwright_kit.testing.launch.kernel_run import KernelRun
from opwright_kit.testing.launch.launching import Launch, run_kernel
from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding, Result, Scorecard, Skipped
from opwright_kit.testing.rules import Rule, load_rules
from opwright_kit.testing.samples.draw import Draw, draw_samples
from opwright_kit.testing.samples.sample import Sample

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
