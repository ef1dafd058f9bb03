"""``opwright lock``: writes which kernel of which package computes each operator of a program."""

from __future__ import annotations

import argparse
from pathlib import Path

from opwright import (
    LoadedProgram,
    Lock,
    Network,
    load_program,
)
from opwright.commands import add_feed_argument, make_feeds, print_json, results_of
from opwright.device import HOST_DEVICE
from opwright.errors import CommandError, FileTakenError
from opwright_kit.commands.models import check_device, is_foreign, open_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: program and lock file, and the device and feeds that select kernels."""
    parser.epilog = (
        "Kernels are chosen for the shapes of the feeds. A program whose shapes depend on values "
        "is run once."
    )
    parser.add_argument("model", help="folder of a saved program or model, or model.onnx")
    parser.add_argument("-o", "--output", metavar="FILE", help="lock (default: MODEL.lock)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the lock differs"
    )
    parser.add_argument("--device", default=HOST_DEVICE, help="device to run on (default: cpu)")
    parser.add_argument(
        "--fallback", choices=[HOST_DEVICE], help="let operators without a kernel run there"
    )
    add_feed_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Write the lock, or check it; a difference raises an error."""
    model = Path(args.model)
    path = Path(args.output) if args.output else Path(f"{model.resolve().name}.lock")
    check_device(args.device)
    if model.exists() and not model.is_dir() and not is_foreign(model):
        load_program(model)
        raise CommandError(
            f"lock: the program must be a folder with parameters, got the file {model}; pass "
            f"{model.parent}"
        )
    try:
        locked = Lock.load(path) if args.check else None
        lock = _choose(open_model("lock", model), args, locked)
        if locked is None:
            lock.save(path)
    except FileTakenError as error:
        raise CommandError(f"lock: {error}") from error
    except OSError as error:
        text = str(error) if error.errno is None else f"{error.strerror}: {error.filename}"
        raise CommandError(f"lock: {text}") from error
    if args.json:
        print_json({"path": str(path), **_to_json(lock)})
        return 0
    size = f"{len(lock.kernels)} kernels and {len(lock.passes)} passes for {lock.device}"
    print(f"{path}: {size}, as locked" if args.check else f"wrote {path}: {size}")
    return 0


def _choose(loaded: LoadedProgram, args: argparse.Namespace, locked: Lock | None) -> Lock:
    """Choose the kernels; LockError if they differ from a lock."""
    feeds = make_feeds("lock", loaded, args.feed)
    network = Network(loaded.program.global_block())
    compiled = network.compile(
        loaded.program_feeds,
        results_of(loaded),
        device=args.device,
        scope=loaded.scope,
        fallback=args.fallback,
        lock=locked,
    )
    compiled.plan_for(feeds)
    ops = (op for block in loaded.program.blocks for op in block.ops)
    if any(op.definition.proto.dynamic_output for op in ops):
        compiled(**feeds)  # operators after such an operator are lowered when its shapes are known
    return network.lock()


def _to_json(lock: Lock) -> dict[str, object]:
    return {
        "device": lock.device,
        "kernels": [row._asdict() for row in lock.kernels],
        "passes": [row._asdict() for row in lock.passes],
    }
