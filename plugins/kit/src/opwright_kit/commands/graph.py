"""``opwright graph``: draws a saved program as an HTML page, optionally with measured times."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright import (
    Block,
    LoadedProgram,
    Network,
    Scope,
    Variable,
    current_context,
    load,
    load_program,
)
from opwright.commands import resolving
from opwright.device import HOST_DEVICE, DeviceName
from opwright.errors import CommandError, FileTakenError
from opwright.op import Shape, dtype_to_numpy, shapes_match
from opwright.plugin import hint
from opwright_kit.drawing import check_target
from opwright_kit.profiling import MAX_RUNS, profile

if TYPE_CHECKING:
    from opwright_kit.profiling import Profile

Arrays = dict[str, "np.ndarray[Any, Any]"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the page, and what a profile needs."""
    parser.add_argument("model", help="folder of a saved program, or its program.pb")
    parser.add_argument("--output", metavar="FILE", help="page to write (default: MODEL.html)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--device", default="cpu", help="device to show and run (default: cpu)")
    parser.add_argument("--profile", action="store_true", help="run it, and show what steps take")
    parser.add_argument(
        "--feed",
        metavar="NAME=SHAPE",
        action="append",
        default=[],
        help="feed random numbers of this shape, as in x=32x784; for --profile",
    )
    parser.add_argument("--runs", type=int, default=30, help="runs to measure (default: 30)")
    parser.add_argument(
        "--fallback", choices=[HOST_DEVICE], help="let operators without a kernel run there"
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and print its size."""
    model = Path(args.model)
    if args.feed and not args.profile:
        raise CommandError(
            f"graph: --feed serves --profile alone, got {args.feed[0]!r}; add --profile"
        )
    if not 1 <= args.runs <= MAX_RUNS:
        raise CommandError(f"graph: --runs must be an int in [1, {MAX_RUNS}], got {args.runs}")
    with resolving():
        name = DeviceName.parse(args.device)
        if not name.is_host:
            current_context().devices.get(name.kind)
    try:
        page, profile = _draw(args, model)
    except FileTakenError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(_explain(error)) from error
    if args.json:
        plain = {**page._asdict(), "path": str(page.path)}
        print(json.dumps({**plain, "profile": profile and profile.to_json()}, indent=2))
        return 0
    if profile is not None:
        print(profile)
    size = f"{_count(page.operators, 'operator')} in {_count(page.blocks, 'block')}"
    print(f"wrote {page.path}: {size}; open it in a browser")
    return 0


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _draw(args: argparse.Namespace, model: Path) -> tuple[Any, Profile | None]:
    scope = Scope()
    if args.profile and not model.is_dir():
        load_program(model)
        raise CommandError(
            f"graph: --profile needs the folder with the parameters, got the file {model}; "
            f"pass {model.parent}"
        )
    target = Path(args.output) if args.output else Path(f"{model.resolve().name}.html")
    check_target(target, force=args.force)  # before the work of a profile
    loaded = load(model, scope) if args.profile else load_program(model)
    network = Network(loaded.program.global_block())
    profile = _profile(network, loaded, scope, args) if args.profile else None
    page = network.graph_html(
        target,
        title=model.resolve().name,
        fetches=loaded.fetches,
        profile=profile,
        device=args.device,
        force=args.force,
    )
    return page, profile


def _profile(
    network: Network, loaded: LoadedProgram, scope: Scope, args: argparse.Namespace
) -> Profile:
    block = loaded.program.global_block()
    feeds = make_feeds([block.vars[name] for name in loaded.feeds], args.feed)
    compiled = network.compile(
        feed=loaded.feeds,
        fetch=loaded.fetches or _unread(block),
        device=args.device,
        scope=scope,
        fallback=args.fallback,
    )
    return profile(compiled, feeds, args.runs)


def make_feeds(variables: Sequence[Variable], feed_texts: Sequence[str]) -> Arrays:
    """Return random feeds, the same in each call.

    Floating-point numbers are normal; integers are 0 or 1, which most indices allow.

    Parameters
    ----------
    variables : sequence of Variable
        What must be fed.
    feed_texts : sequence of str
        Shapes as ``NAME=SHAPE``; those of variables without unknown dimensions may be left out.

    Raises
    ------
    CommandError
        For a shape that is missing, of no variable, malformed or unfit.
    """
    shapes = dict(_parse_feed(text) for text in feed_texts)
    names = [variable.name for variable in variables]
    for name in shapes:
        if name not in names:
            raise CommandError(f"graph: --feed names no feed, got {name!r}{hint(name, names)}")
    random = np.random.default_rng(0)
    return {v.name: _draw_numbers(v, _shape_of(v, shapes), random) for v in variables}


def _parse_feed(text: str) -> tuple[str, Shape]:
    name, equals, dims = text.rpartition("=")
    if not equals or not name or not re.fullmatch(r"(\d+([x,]\d+)*)?", dims):
        raise CommandError(f"graph: --feed must be NAME=SHAPE, got {text!r}; write x=32x784")
    return name, tuple(int(dim) for dim in re.findall(r"\d+", dims))


def _shape_of(variable: Variable, shapes: dict[str, Shape]) -> Shape:
    known = variable.shape
    shape = shapes.get(variable.name, known)
    if shape is None or -1 in shape:
        example = "x".join("1" if dim < 0 else str(dim) for dim in shape or (1,))
        raise CommandError(
            f"graph: the feed {variable.name!r} must have a shape, got {variable.type_text}; "
            f"add --feed {variable.name}={example}"
        )
    if known is not None and not shapes_match(shape, known):
        raise CommandError(
            f"graph: the feed {variable.name!r} is {variable.type_text}, got {list(shape)}"
        )
    return shape


def _draw_numbers(variable: Variable, shape: Shape, random: np.random.Generator) -> Any:
    dtype = dtype_to_numpy(variable.dtype)
    if variable.dtype.startswith(("int", "uint", "bool")):
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _unread(block: Block) -> list[str]:
    """Return what no operator reads: the results of a program that was saved without any."""
    read = {name for op in block.ops for name in op.input_names()}
    written = dict.fromkeys(name for op in block.ops for name in op.output_names())
    return [name for name in written if name not in read]


def _explain(error: OSError) -> str:
    return str(error) if error.errno is None else f"graph: {error.strerror}: {error.filename}"
