"""``opwright graph``: draws a saved program as an HTML page, optionally with measured times."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opwright import (
    LoadedProgram,
    Network,
    load_program,
)
from opwright.commands import add_feed_argument, make_feeds, print_json, results_of
from opwright.device import HOST_DEVICE
from opwright.errors import CommandError, FileTakenError
from opwright_kit.commands.models import check_device, is_foreign, open_model
from opwright_kit.drawing import check_target
from opwright_kit.profiling import MAX_RUNS, profile

if TYPE_CHECKING:
    from opwright_kit.profiling import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the model, the page, and the options of a profile."""
    parser.add_argument("model", help="folder of a saved program, its program.pb, or model.onnx")
    parser.add_argument("--output", metavar="FILE", help="page to write (default: MODEL.html)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--device", default="cpu", help="device to show and run (default: cpu)")
    parser.add_argument("--profile", action="store_true", help="run it, and show what steps take")
    add_feed_argument(parser, "; for --profile")
    parser.add_argument("--runs", type=int, default=30, help="runs to measure (default: 30)")
    parser.add_argument(
        "--fallback", choices=[HOST_DEVICE], help="let operators without a kernel run there"
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and print its size."""
    model = Path(args.model)
    if args.feed and not args.profile:
        raise CommandError(f"graph: --feed needs --profile, got {args.feed[0]!r}; add --profile")
    if not 1 <= args.runs <= MAX_RUNS:
        raise CommandError(f"graph: --runs must be an int in [1, {MAX_RUNS}], got {args.runs}")
    check_device(args.device)
    try:
        page, profile = _draw(args, model)
    except FileTakenError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(_explain(error)) from error
    if args.json:
        plain = {**page._asdict(), "path": str(page.path)}
        print_json({**plain, "profile": profile and profile.to_json()})
        return 0
    if profile is not None:
        print(profile)
    size = f"{_count(page.operators, 'operator')} in {_count(page.blocks, 'block')}"
    print(f"wrote {page.path}: {size}; open it in a browser")
    return 0


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _draw(args: argparse.Namespace, model: Path) -> tuple[Any, Profile | None]:
    if args.profile and not model.is_dir() and not is_foreign(model):
        load_program(model)
        raise CommandError(
            f"graph: --profile needs the folder with the parameters, got the file {model}; "
            f"pass {model.parent}"
        )
    target = Path(args.output) if args.output else Path(f"{model.resolve().name}.html")
    check_target(target, force=args.force)  # before the profile, which takes time
    loaded = open_model("graph", model, is_run=args.profile)
    network = Network(loaded.program.global_block())
    profile = _profile(network, loaded, args) if args.profile else None
    page = network.graph_html(
        target,
        title=model.resolve().name,
        fetches=[fetch.name for fetch in loaded.fetches],
        profile=profile,
        device=args.device,
        force=args.force,
    )
    return page, profile


def _profile(network: Network, loaded: LoadedProgram, args: argparse.Namespace) -> Profile:
    feeds = make_feeds("graph", loaded, args.feed)
    compiled = network.compile(
        feed=loaded.program_feeds,
        fetch=results_of(loaded),
        device=args.device,
        scope=loaded.scope,
        fallback=args.fallback,
    )
    return profile(compiled, feeds, args.runs)


def _explain(error: OSError) -> str:
    return str(error) if error.errno is None else f"graph: {error.strerror}: {error.filename}"
