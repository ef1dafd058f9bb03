"""Runs single operators in opwright, PyTorch or NumPy for `operator_times.py`.

``operator_implementation.py NAME`` reads and prints one JSON object per line. ``{"case": 7,
"gradient":
true, "attrs": {}, "defaults": {}}`` prepares a case of `operator_cases` and replies with a number
on which all implementations must agree, or with the missing requirement. ``{"seconds": 0.05}``
times it and replies with the seconds of a call, for each repeat. ``{"version": "torch"}`` requests
a
version.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from operator_case import Case
from operator_cases import list_cases

PEERS = Path(__file__).resolve().parents[1] / "tests" / "peers" / "server"
REPEAT_S = 2e-4
"""Seconds below which several calls are timed together."""

SETTLE_S = 0.03
"""Seconds for which threads of the previous implementation can spin while waiting for work."""

Call = Callable[[], Any]
Filled = Mapping[str, Any]
"""The ``attrs`` of a case with all defaults, and only the ``defaults``."""


class LackingError(Exception):
    """Raised if an implementation lacks the operator or does not support this call."""


def listed(result: Any) -> list[Any]:
    """Return the outputs as a flat list without missing outputs."""
    if isinstance(result, (list, tuple)):
        return [one for part in result for one in listed(part)]
    return [] if result is None else [result]


def prepare_opwright(case: Case, gradient: bool, filled: Filled) -> Call:
    """Return the operator as a function of arrays, or compiled together with its gradient."""
    import opwright as ow
    from opwright.errors import OpwrightError

    inputs = case.make_inputs()
    try:
        if not gradient:
            function = getattr(ow.ops, case.op)
            return lambda: function(**inputs, **case.attrs)
        return _compile_gradient(case, inputs)
    except (OpwrightError, AttributeError) as error:
        raise LackingError(str(error).splitlines()[0]) from error


def _compile_gradient(case: Case, inputs: dict[str, Any]) -> Call:
    """Return a program of the operator and its gradient, with ones as the output gradient."""
    import opwright as ow

    block = ow.Program().global_block()
    feeds: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    wanted: list[str] = []
    for slot, given in inputs.items():
        arrays = {f"{slot}_{i}": array for i, array in enumerate(listed(given))}
        for name, array in arrays.items():
            is_graded = slot in case.graded
            block.create_var(name, array.shape, array.dtype, stop_gradient=not is_graded)
        feeds |= arrays
        variables[slot] = list(arrays)
        wanted += arrays if slot in case.graded else []
    op = block.append_op(case.op, variables, attrs=case.attrs)
    out = block.var(next(op.output_names()))
    pairs = ow.append_backward(out, parameters=wanted)
    fetch = [gradient.name for _, gradient in pairs]
    compiled = ow.Network(block).compile(feed=list(feeds), fetch=fetch, scope=ow.Scope())
    return lambda: compiled(**feeds)


def prepare_torch(case: Case, gradient: bool, filled: Filled) -> Call:
    """Return the eager PyTorch function, followed by a backward pass if gradients are requested."""
    import torch
    import torch_operators

    import torch_functions

    inputs = {
        slot: [torch.from_numpy(one) for one in given]
        if isinstance(given, list)
        else torch.from_numpy(given)
        for slot, given in case.make_inputs().items()
    }
    table = torch_operators.OPERATORS | torch_functions.OPERATORS
    bound = _bind(table, case, inputs, filled)

    def call() -> list[Any]:
        # Results are made contiguous, as in opwright, because the cost of a view arises only when
        # the view is read.
        return [tensor.contiguous() for tensor in listed(bound())]

    if not gradient:

        def compute() -> Any:
            with torch.no_grad():
                return call()

        return compute
    leaves = [leaf for slot in case.graded for leaf in listed(inputs[slot])]
    for leaf in leaves:
        leaf.requires_grad_()
    out_grad = torch.ones_like(call()[0])
    return lambda: [grad.contiguous() for grad in torch.autograd.grad(call()[0], leaves, out_grad)]


def prepare_numpy(case: Case, gradient: bool, filled: Filled) -> Call:
    """Return NumPy's function."""
    import numpy_operators

    if gradient:
        raise LackingError("NumPy has no gradients")
    return _bind(numpy_operators.OPERATORS, case, case.make_inputs(), filled)


def _bind(table: Mapping[str, Any], case: Case, inputs: dict[str, Any], filled: Filled) -> Call:
    from binding import bind
    from torch_operators import NotExpressibleError

    if case.op not in table:
        raise LackingError("not in the table")
    try:
        arguments = bind(table[case.op], inputs, filled["attrs"], filled["defaults"], 1)
        table[case.op](**arguments)
    except (NotExpressibleError, NotImplementedError, RuntimeError) as error:
        raise LackingError(str(error).splitlines()[0]) from error
    return lambda: table[case.op](**arguments)


def find_sum(result: Any) -> float:
    """Return the sum of the first output, which contains numbers or bools."""
    first = listed(result)[0]
    array = first.detach().numpy() if hasattr(first, "detach") else np.asarray(first)
    return float(np.sum(np.nan_to_num(array.astype(np.float64))))


def time_call(call: Call, seconds: float) -> list[float]:
    """Return the duration of a call in seconds, for each of several repeats.

    With one thread, the durations are processor times, which other processes on the machine do not
    increase.
    """
    is_alone = os.environ["OPWRIGHT_NUM_THREADS"] == "1"
    clock = time.process_time if is_alone else time.perf_counter
    gc.collect()
    if not is_alone:
        time.sleep(SETTLE_S)
    gc.disable()
    call()  # makes memory resident again that was unused during the rounds of other implementations
    number, times = 1, []
    end = clock() + seconds
    while not times or clock() < end:
        begin = clock()
        for _ in range(number):
            call()
        spent = clock() - begin
        if spent < REPEAT_S / 2:
            number *= 2
        else:
            times.append(spent / number)
    gc.enable()
    return times


def main() -> None:
    """Run the implementation named on the command line."""
    name = sys.argv[1]
    # Library output must not be mixed with the replies.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.append(str(PEERS))
    cases, call = list_cases(), None
    for line in sys.stdin:
        request = json.loads(line)
        if "seconds" in request:
            assert call is not None
            answer: dict[str, Any] = {"times": time_call(call, request["seconds"])}
        elif "version" in request:
            answer = {"version": importlib.metadata.version(request["version"])}
        else:
            call = None  # frees the memory of the last case
            try:
                call = PREPARE[name](cases[request["case"]], request["gradient"], request)
                answer = {"sum": find_sum(call())}
            except LackingError as error:
                answer = {"lacks": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


PREPARE: dict[str, Callable[[Case, bool, Filled], Call]] = {
    "opwright": prepare_opwright,
    "torch": prepare_torch,
    "numpy": prepare_numpy,
}


if __name__ == "__main__":
    main()
