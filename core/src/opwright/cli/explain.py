"""``opwright explain`` shows which kernel computes an operator, and why other kernels do not."""

from __future__ import annotations

import argparse

from opwright.cli.command import print_report, resolving
from opwright.kernel import explain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator, the device and the dtype."""
    parser.add_argument("type", help="operator type")
    parser.add_argument("--device", default="cpu", help="device type (default: cpu)")
    parser.add_argument("--dtype", help="dtype that selects the kernel (default: any)")


def run(args: argparse.Namespace) -> int:
    """Print the table; return 1 if no kernel fits."""
    with resolving():
        explanation = explain(args.type, args.device, args.dtype)
    print_report(args, explanation.to_json(), [str(explanation)])
    return 0 if explanation.chosen is not None else 1
