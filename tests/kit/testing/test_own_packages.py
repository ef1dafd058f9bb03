"""The kit finds no faults in a sample of our own packages; `make check` runs all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from every_case import EVERY
from opwright_kit.testing import IsolatedCheck, check_package, load_rules

IMPORT_COST = "import-cost"
RULES = [rule.name for rule in load_rules() if rule.name != IMPORT_COST]

# The rules that need the fewest runs, since an emulated kernel takes milliseconds per run.
CUDA_RULES = ["reference", "inputs-unchanged", "writes-every-element", "guard-bytes", "refusals"]


def messages(distribution: str, operator: str | None, rules: list[str]) -> list[str]:
    """Return the findings for one operator and its kernels; at least one check must have run."""
    card = check_package(distribution, rules=rules, subject=operator)
    assert card.counts()["passed"] > 0
    return [f"{finding.rule}: {finding.message}" for finding in card.findings]


@pytest.mark.grid(4)
@pytest.mark.parametrize("operator", ["add", "softmax", "gather", "sgd", "adam"])
def test_reference_kernels_have_no_findings(operator: str) -> None:
    assert messages("opwright-std", operator, RULES) == []


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        ("lrn", "shape-rule"),
        ("lrn", "gradient-extremes"),
        ("tan_grad[cpu, numpy]", "gradient-extremes"),
        ("celu_grad[cpu, numpy]", "gradient-extremes"),
        ("nan_to_num[cpu, numpy]", "idle-attributes"),
        ("avg_pool3d[cpu, numpy]", "idle-attributes"),
        ("nll_grad[cpu, numpy]", "inconsistent-inputs"),
        ("nms[cpu, numpy]", "reference"),
    ],
)
def test_rules_pass_for_composites_long_periods_thresholds_and_padding(
    subject: str, rule: str
) -> None:
    card = check_package("opwright-std", rules=[rule], subject=subject)
    assert [(result.state, result.findings) for result in card.results] == [("passed", ())]


@pytest.mark.parametrize(
    ("package", "subject", "rule"),
    [
        ("opwright-std", "cached_attention", "error-texts"),
        ("opwright-std", "pass fuse_batch_norm", "pass-results"),
        ("opwright-cpu", "avg_pool2d[cpu, onednn]", "idle-attributes"),
    ],
)
def test_kernels_have_no_findings_for_another_seed(package: str, subject: str, rule: str) -> None:
    card = check_package(package, rules=[rule], subject=subject, seed=1)
    assert [(result.state, result.findings) for result in card.results] == [("passed", ())]


@pytest.mark.grid(4)
@pytest.mark.parametrize("package", ["opwright-cpu", "opwright-std", "opwright-dist"])
def test_passes_change_programs_but_not_their_results(package: str) -> None:
    assert messages(package, None, ["pass-results"]) == []


@pytest.mark.grid(4)
@pytest.mark.parametrize("operator", ["softmax", "sum", "matmul", "sgd", "cpu.fc_sgd"])
def test_cpu_kernels_have_no_findings(operator: str) -> None:
    assert messages("opwright-cpu", operator, RULES) == []


@pytest.mark.long("it runs every kernel of the CPU on every sample, in each of its dtypes")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("package", ["opwright-std", "opwright-cpu"])
def test_kernels_do_not_access_memory_outside_their_arrays(package: str) -> None:
    assert messages(package, None, ["guard-pages"]) == []


def test_the_rule_out_of_range_does_not_report_kernels_that_this_machine_cannot_run() -> None:
    assert messages("opwright-dist", "dist.exchange_rows", ["out-of-range"]) == []


def test_cpu_gradient_kernels_refuse_inconsistent_inputs() -> None:
    """Runs in a separate process, since a faulty kernel accesses memory outside its arrays."""
    rules = ["inconsistent-inputs", "out-of-range"]
    with IsolatedCheck("opwright-cpu", rules=rules) as check:
        planned = [each for each in check.planned if "_grad[" in each[0]]
        assert len(planned) >= 39
        results = [check.apply(*each) for each in planned[:: 1 if EVERY else 23]]
    assert [finding.message for result in results for finding in result.findings] == []
    skipped = {result.reason for result in results if result.state != "passed"}
    assert skipped <= {"no sample holds a position"}


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("operator", ["softmax", "relu"])
def test_cuda_kernels_have_no_findings(operator: str) -> None:
    assert messages("opwright-cuda", operator, CUDA_RULES) == []


@pytest.mark.parametrize(
    ("package", "engine", "least"),
    [
        ("opwright-dist", "single", 130),
        pytest.param(
            *("opwright-mpi", "single", 25),
            marks=pytest.mark.long("the two others run its kernels, and an engine of one process"),
        ),
        ("opwright-mpi", "mpi", 80),
    ],
)
def test_collectives_of_one_process_have_no_findings(package: str, engine: str, least: int) -> None:
    """Runs in a separate process, so that its connections are closed when it exits."""
    pytest.importorskip(package.replace("-", "_"))
    quick = [name for name in RULES if name != "guard-pages"]  # kernels use NumPy and MPI
    rules = [word for name in quick for word in ("--rule", name)]
    dtype = [] if EVERY else ["--dtype", "float32"]
    command = [sys.executable, "-m", "opwright", "check", package, "--json", *rules, *dtype]
    environment = os.environ | {"OPWRIGHT_DIST_ENGINE": engine}
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.stdout, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [found["message"] for result in results for found in result["findings"]] == []
    assert sum(result["state"] == "passed" for result in results) >= least
    assert done.returncode == 0


IMPORTED = """
import sys, opwright.discovery, opwright.plugin
before = set(sys.modules)
__import__(sys.argv[1])
print(*(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    "package", ["opwright_std", "opwright_cpu", "opwright_cuda", "opwright_dist"]
)
def test_hook_modules_import_only_tables(package: str) -> None:
    """Hook modules that import only tables pass the rule import-cost, which measures time."""
    command = [sys.executable, "-c", IMPORTED, f"{package}.plugin"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    modules = set(done.stdout.split())
    assert modules >= {package, f"{package}.plugin"}
    tables = {"_version", "plugin", "_registrations", "rows", "foreign_names", "errors", "names"}
    assert modules <= {package, *(f"{package}.{name}" for name in tables)}
