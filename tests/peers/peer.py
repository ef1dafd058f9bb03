"""The client of the peer process, and the programs sent to it."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Array, Case
from one_operator import OneOperator

import opwright as ow

PEERS = ("torch", "numpy")
SERVER = Path(__file__).parent / "server" / "server.py"


class LackingError(Exception):
    """Raised if a peer does not support an operator, a dtype or a call."""


@dataclass
class Request:
    """A program for a peer; see `server.py`.

    Attributes
    ----------
    operators : list of dict
        ``type``, ``inputs``, ``outputs``, ``attrs``, ``defaults``.
    feed : dict
        Array by name.
    fetch : list of str
    weights : dict
        Weights of the differentiated loss, by output name.
    wanted : list of str
        Inputs with respect to which the loss is differentiated.
    again : dict
        Weights of the sum of gradients for the second differentiation, by input name.
    """

    operators: list[dict[str, Any]] = field(default_factory=list)
    feed: dict[str, Array] = field(default_factory=dict)
    fetch: list[str] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    wanted: list[str] = field(default_factory=list)
    again: dict[str, Array] = field(default_factory=dict)

    def append(self, op: Any) -> None:
        """Append an operator of a block to the program."""
        proto = ow.current_context().ops.get(op.type).proto
        given = {slot.name: list(op.input(slot.name)) for slot in proto.inputs}
        duplicable = {slot.name for slot in proto.inputs if slot.duplicable}
        self.operators.append(
            {
                "type": op.type,
                "inputs": {
                    slot: names if slot in duplicable else names[0]
                    for slot, names in given.items()
                    if names
                },
                "outputs": [list(op.output(slot.name)) for slot in proto.outputs],
                "attrs": proto.fill_attrs(dict(op.attrs)),
                "defaults": {a.name: a.default for a in proto.attrs if a.has_default},
            }
        )


class Peer:
    """A process that computes in PyTorch and NumPy."""

    def __init__(self, python: str) -> None:
        command = [python, str(SERVER)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, peer: str, request: Request) -> tuple[dict[str, Array], dict[str, Array]]:
        """Run a program on a peer; return its outputs and gradients by name.

        Raises
        ------
        LackingError
            If the peer lacks an operator, a dtype or a call.
        """
        answer = self._send({"peer": peer, **vars(request)})
        if "lacks" in answer:
            raise LackingError(answer["lacks"])
        assert "failed" not in answer, answer["failed"]
        return answer["outputs"], answer["gradients"]

    def list_types(self) -> set[str]:
        """Return the operators that at least one peer supports."""
        return {op_type for peer in PEERS for op_type in self._send({"types": peer})["types"]}

    def _send(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = pickle.dumps(request)
        self._process.stdin.write(len(data).to_bytes(8, "little") + data)
        self._process.stdin.flush()
        header = self._process.stdout.read(8)
        assert len(header) == 8, f"{SERVER.name} ended with {self._process.wait()}"
        answer: dict[str, Any] = pickle.loads(
            self._process.stdout.read(int.from_bytes(header, "little"))
        )
        return answer

    def ask_any(self, request: Request) -> tuple[dict[str, Array], dict[str, Array]]:
        """Run a request in PyTorch, or in NumPy if PyTorch cannot; skip the test if neither can."""
        try:
            return self.ask("torch", request)
        except LackingError as error:
            reason = str(error)
        try:
            return self.ask("numpy", Request(**{**vars(request), "weights": {}, "wanted": []}))
        except LackingError as error:
            pytest.skip(f"{reason}; {error}")

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(timeout=600)


def widen(array: Array) -> Array:
    """Convert floats to float64 and 4-bit integers to int64; both conversions are exact."""
    name = array.dtype.name
    if "float" in name:
        return array.astype(np.float64)
    return array.astype(np.int64) if name in ("int4", "uint4") else array


def request_of(one: OneOperator) -> Request:
    """Return the program of one operator, without a loss."""
    request = Request(feed={name: widen(array) for name, array in one.feeds.items()})
    request.append(one.block.ops[0])
    request.fetch = [name for slot in request.operators[0]["outputs"] for name in slot]
    return request


def as_case(op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], **more: Any) -> Case:
    """Return a case that uses the given arrays as inputs."""
    ops = ow.current_context().ops
    duplicable = {slot.name for slot in ops.get(op_type).proto.inputs if slot.duplicable}

    def sources(slot: str, arrays: Sequence[Array]) -> Any:
        given = [Given(array) for array in arrays]
        return given if slot in duplicable else given[0]

    return Case(
        op_type,
        {slot: sources(slot, arrays) for slot, arrays in inputs.items() if arrays},
        None,
        attrs=dict(attrs),
        **more,
    )


@dataclass(frozen=True)
class Given:
    """An array that is the input of a case."""

    array: Array

    def make(self, dtype: str, seed: int) -> Array:
        """Return the array in any dtype."""
        return self.array
