"""``opwright onnx``: reports the requirements of a model, and converts models and saved
programs.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import opwright as ow
import opwright_onnx
from opwright.commands import print_json, read_feed
from opwright.errors import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the action, the model, and the options of each action."""
    parser.epilog = (
        "report MODEL prints the operators, the package that translates each of them, and the "
        "kernels, floating-point operations and memory of a run with the given feed shapes; an "
        "open size is 1 without --feed. "
        "convert MODEL FOLDER writes a saved program, convert FOLDER MODEL an ONNX model."
    )
    parser.add_argument("action", choices=["report", "convert"], help="what to do")
    parser.add_argument("model", help="ONNX model; for convert also the folder of a saved program")
    parser.add_argument("target", nargs="?", help="for convert: what to write")
    parser.add_argument(
        "--feed",
        metavar="NAME=SHAPE",
        action="append",
        default=[],
        help="for report: the shape of a feed, as in x=32x784",
    )
    parser.add_argument("--opset", type=int, help="for convert: opset of the written model")
    parser.add_argument(
        "--only-onnx", action="store_true", help="for convert: refuse opwright's own operators"
    )
    parser.add_argument("--force", action="store_true", help="for convert: replace existing output")


def run(args: argparse.Namespace) -> int:
    """Report on a model or convert it; return 1 if an operator is missing."""
    if importlib.util.find_spec("onnx") is None:  # help is shown without it
        raise CommandError("onnx: the package onnx must be installed, got none; pip install onnx")
    if args.action == "report":
        return _report(args)
    if args.target is None:
        raise CommandError("onnx: convert needs an output path, got none; add a folder or model")
    if args.feed:
        raise CommandError(f"onnx: --feed applies only to report, got {args.feed[0]!r}")
    return _convert(args, Path(args.model), Path(args.target))


def _report(args: argparse.Namespace) -> int:
    from opwright_onnx.commands.report import format_report, make_report

    for option, value in (("a second path", args.target), ("--opset", args.opset)):
        if value is not None:
            raise CommandError(f"onnx: report does not take {option}, got {value!r}")
    if not Path(args.model).is_file():
        raise CommandError(f"onnx: report needs a model file, got {args.model!r}")
    shapes = {name or "": shape for name, shape, _ in (read_feed("onnx", x) for x in args.feed)}
    report = make_report(Path(args.model), shapes)
    if args.json:
        print_json(report)
    else:
        print(*format_report(report), sep="\n")
    return 1 if report["error"] or any(row["missing"] for row in report["operators"]) else 0


def _convert(args: argparse.Namespace, source: Path, target: Path) -> int:
    if target.exists() and not args.force:
        raise CommandError(
            f"onnx: the output must not exist, got {str(target)!r}; add --force to overwrite it"
        )
    try:
        done = _write_model(args, source, target) if source.is_dir() else _write_program(args)
    except OSError as error:
        text = str(error) if error.errno is None else f"{error.strerror}: {error.filename}"
        raise CommandError(f"onnx: {text}") from error
    if args.json:
        print_json(done)
        return 0
    print(f"wrote {target}: {done['operators']} operators, {done['parameters']} parameters")
    for op_type, reason in done["own_nodes"].items():
        print(f"  only opwright runs {op_type}: {reason}")
    return 0


def _write_model(args: argparse.Namespace, source: Path, target: Path) -> dict[str, Any]:
    loaded = ow.load(source)
    chosen = {} if args.opset is None else {"opset": args.opset}
    report = opwright_onnx.save(target, loaded, only_onnx=args.only_onnx, **chosen)
    return _describe(loaded, [str(path) for path in report.files], dict(report.own_nodes))


def _write_program(args: argparse.Namespace) -> dict[str, Any]:
    for option, value in (("--opset", args.opset), ("--only-onnx", args.only_onnx or None)):
        if value is not None:
            raise CommandError(f"onnx: {option} applies only to written models, got {value}")
    loaded = opwright_onnx.load(args.model)
    loaded.save(args.target)
    return _describe(loaded, [args.target], {})


def _describe(loaded: ow.LoadedProgram, files: list[str], own: dict[str, str]) -> dict[str, Any]:
    report = loaded.report()
    return {
        "files": files,
        "operators": sum(report.operators.values()),
        "parameters": len(report.parameters),
        "own_nodes": own,
    }
