"""Loads folders that `opwright.save` has written and in which one file has been changed."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from descriptions import change_bytes
from models import forward_programs
from mutations import DTYPES, FAR, SMALL, draw_array

import opwright as ow
from opwright.framework_pb2 import ProgramDesc
from opwright.program.files.manifest import PARAMS, PROGRAM


@cache
def _folder() -> Path:
    """Return the folder of this process; its parent chooses the path and removes the folder."""
    return Path(tempfile.mkdtemp(prefix="files-"))


@cache
def _saved() -> tuple[dict[str, bytes], ...]:
    """Return the files of saved programs, by name."""
    found = []
    for number, data in enumerate(forward_programs()):
        message = ProgramDesc.FromString(data)
        program = ow.Program.from_proto(message)
        scope = ow.Scope()
        for name, variable in program.global_block().vars.items():
            if variable.persistable and variable.shape is not None:
                array = draw_array(random.Random(1), variable.dtype, variable.shape)
                scope.var(name).set(array)
        path = _folder() / f"saved_{number}"
        ow.save(path, program, scope, fetch=list(message.fetches))
        found.append(_read(path))
    return tuple(found)


def _read(path: Path) -> dict[str, bytes]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def draw(rng: random.Random) -> dict[str, Any]:
    """Return the files of a folder, one of them changed."""
    files = dict(rng.choice(_saved()))
    if rng.random() < 0.7:  # without the manifest, which would detect the change
        files = {name: files[name] for name in (PROGRAM, PARAMS)}
    name = rng.choice(sorted(files))
    kind = rng.random()
    if name.endswith(".safetensors") and kind < 0.7:
        files[name] = _change_tensors(rng, files[name])
    elif kind < 0.8 and len(files[name]) > 40:
        files[name] = change_bytes(rng, files[name])
    elif kind < 0.9:
        files[name] = files[name][: rng.randrange(len(files[name]) + 1)]
    else:
        files[name] = dict(rng.choice(_saved())).get(name, b"")
    return {"files": files}


def _change_tensors(rng: random.Random, data: bytes) -> bytes:
    """Return a safetensors file with its header changed."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = [name for name in header if name != "__metadata__"]
    if not tensors or rng.random() < 0.2:
        wrong = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**32 + 1, 2**63, 2**64 - 1))
        return wrong.to_bytes(8, "little") + data[8:]
    entry = header[rng.choice(tensors)]
    kind = rng.randrange(6)
    if kind == 0:
        entry["dtype"] = rng.choice(("F32", "F64", "I8", "BOOL", "F8_E4M3", "", 3, None))
    elif kind == 1:
        entry["shape"] = [rng.choice((*SMALL, *FAR)) for _ in range(rng.choice((0, 1, 2, 3, 90)))]
    elif kind == 2:
        entry["data_offsets"] = [rng.choice((*SMALL, *FAR, len(data))) for _ in range(2)]
    elif kind == 3:
        header[rng.choice(("w", "", "\u202e", rng.choice(DTYPES)))] = dict(entry)
    elif kind == 4:
        header["__metadata__"] = rng.choice(({}, None, 3, {"a": "b"}, {"opwright.crc32": ""}))
    else:
        del header[rng.choice(tensors)]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def run(case: dict[str, Any]) -> None:
    """Write the folder and load it."""
    path = _folder() / "case"
    shutil.rmtree(path, ignore_errors=True)
    for name, data in case["files"].items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    ow.load(path)
