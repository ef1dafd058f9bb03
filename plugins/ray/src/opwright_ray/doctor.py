"""The section of ``opwright doctor`` about Ray."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from opwright.commands import Examination
from opwright.errors import MissingRequirementError
from opwright_dist import DistError, get_engine
from opwright_ray.requirement import INSTALL, find_release, load_ray
from opwright_ray.trainer import OpwrightTrainer

_ENGINE = "mpi"


def examine() -> Examination:
    """Check the Ray installation, and connect two workers of a cluster on this machine."""
    release = find_release()
    if release is None:
        return Examination({"library": f"Ray is not installed; to install it: {INSTALL}"})
    facts = {"library": f"Ray {release}"}
    try:
        ray = load_ray("doctor")
    except MissingRequirementError as error:
        return Examination(facts, str(error), INSTALL)
    try:
        get_engine(_ENGINE, "self-test")
    except DistError as error:
        return Examination({**facts, "self-test": f"not run: {error}"})
    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="ray-") as folder:
            result = _run_self_test(ray, folder)
    except (OSError, ray.exceptions.RayError, ray.train.TrainingFailedError) as error:
        return Examination(facts, f"its self-test failed: {error}", f"{INSTALL} --force-reinstall")
    facts["self-test"] = f"{result}, {time.perf_counter() - began:.1f} s"
    return Examination(facts)


def _run_self_test(ray: Any, folder: str) -> str:
    """Return the report of two workers in a temporary cluster."""
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="error")
    try:
        fitted = OpwrightTrainer(_meet, num_workers=2, engine=_ENGINE, storage_path=folder).fit()
    finally:
        ray.shutdown()
    return str(fitted.return_value)


def _meet() -> str:
    """Run the self-test on a worker; the result of rank 0 becomes the run's return value."""
    from opwright_dist.self_test import run_self_test

    return run_self_test()
