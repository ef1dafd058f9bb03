"""Runs a kernel on prepared memory, with guard bytes around every array and poisoned outputs.

A one-step plan is built manually. The plan takes an image of the whole memory, with inputs and
poison at their positions, runs the kernel on it and returns the image. The plan therefore works the
same for Python kernels, compiled kernels and any device, and everything that a kernel did is
visible in the bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from opwright import Context, current_context, runtime
from opwright.device import HOST_DEVICE, get_device
from opwright.kernel import ANY, KernelEntry, PreparedKernel, Refuse, prepare_one
from opwright_kit.testing.launch.kernel_run import POISON, KernelRun
from opwright_kit.testing.launch.layout import Arrays, Layout
from opwright_kit.testing.launch.memory import Memory, Side
from opwright_kit.testing.launch.one_step_plan import OneStepPlan
from opwright_kit.testing.launch.parameters import Parameters, find_packable
from opwright_kit.testing.samples.sample import Array, Sample


class RunInput(NamedTuple):
    """The input of one run: images of the memory, and the function that runs the plan on them.

    Attributes
    ----------
    images : list of ndarray
        The memory before the run.
    call : CompiledNetwork
        Runs the plan on images, with the parameters that it reads from its scope.
    """

    images: list[Array]
    call: runtime.CompiledNetwork


def run_kernel(
    entry: KernelEntry,
    sample: Sample,
    *,
    context: Context | None = None,
    device: str | None = None,
    poison: int = POISON,
    n_threads: int = 1,
    reuse: Sequence[tuple[str, str]] = (),
    strided: bool = False,
    packed: bool = False,
) -> KernelRun:
    """Run one kernel once; see `Launch` for parameters and errors."""
    launch = Launch(
        entry,
        sample,
        context=context,
        device=device,
        n_threads=n_threads,
        reuse=reuse,
        strided=strided,
        packed=packed,
    )
    return launch.run(poison)


class Launch:
    """A kernel prepared for a sample, in its own plan, ready to run repeatedly.

    Parameters
    ----------
    entry : KernelEntry
        The kernel.
    sample : Sample
        Its inputs and attributes.
    context : Context, optional
        Where the operator and the device are registered; default: the current one.
    device : str, optional
        Device type to run on; by default the kernel's, or the host for a kernel of any device.
    n_threads : int
        Number of threads that the kernel may use.
    reuse : sequence of (str, str)
        Output slots that share the memory of an input, of one variable each, besides declared
        aliases.
    strided : bool
        Whether inputs have gaps between the elements of the last axis; only for kernels that
        declare ``strided``.
    packed : bool
        Whether the kernel may pack its inputs: packed inputs are parameters in a scope; the first
        run packs them, and a run with other inputs repacks.
    repeat : int
        How often the kernel runs in each run of the plan. The difference between the times of two
        such plans is the kernel's own, without the copies to the device and back.
    pages : {"begin", "end"}, optional
        Where each array touches a page that cannot be accessed while the kernel runs, so an
        access beyond it ends the process; only on the host, and on Linux.
    apart : bool
        Whether each of these runs writes its own outputs; `run` returns the last; not for outputs
        that the kernel resizes.
    before_run : callable, optional
        Called before the kernel is prepared, and before each run.

    Attributes
    ----------
    packed : tuple of str
        The inputs that the kernel packs.

    Raises
    ------
    Refuse
        If the kernel's ``prepare`` refuses, or packs nothing although `packed` is set.
    OpwrightError
        If the operator does not accept the sample, or ``prepare`` fails.
    """

    def __init__(
        self,
        entry: KernelEntry,
        sample: Sample,
        *,
        context: Context | None = None,
        device: str | None = None,
        n_threads: int = 1,
        reuse: Sequence[tuple[str, str]] = (),
        strided: bool = False,
        packed: bool = False,
        repeat: int = 1,
        apart: bool = False,
        pages: Side | None = None,
        before_run: Callable[[], None] | None = None,
    ) -> None:
        self._before_run = before_run or (lambda: None)
        self._before_run()
        self.entry = entry
        self.sample = sample
        self.context = current_context() if context is None else context
        self._kind = device or (HOST_DEVICE if entry.device == ANY else entry.device)
        self._device = get_device(self._kind, self.context)
        self._definition = self.context.ops.get(sample.op_type)
        self._metas = (sample.input_metas(self._definition), sample.infer(self._definition))
        proto, inputs = self._definition.proto, self._metas[0]
        kernel = self._prepare(n_threads, dict(reuse), packed)
        prepared = kernel.prepared
        self._parameters = Parameters(proto, inputs, prepared.packs, self._device)
        self.packed = tuple(self._parameters.names.values())
        self._layout = Layout(
            proto,
            self._metas,
            Memory(self._device.has_arena, self._device.alignment, pages),
            workspace_bytes=prepared.workspace_bytes,
            reuse=dict(reuse),
            strided=strided,
            n_outputs=repeat if apart else 1,
            apart=prepared.packs,
        )
        self._plan = OneStepPlan(
            self._device,
            self._kind,
            self._metas,
            kernel,
            self._layout,
            self._parameters.names,
            repeat,
        )
        self._kept = threading.local()

    def _prepare(self, n_threads: int, reuse: dict[str, str], packed: bool) -> PreparedKernel:
        """Return the prepared kernel; raise Refuse if it should pack inputs but packs none."""
        proto, inputs = self._definition.proto, self._metas[0]
        kernel = prepare_one(
            self.entry,
            self._metas,
            self.sample.attrs,
            context=self.context,
            device=self._kind,
            n_threads=n_threads,
            packable=find_packable(proto, inputs, reuse) if packed else (),
        )
        if packed and not kernel.prepared.packs:
            raise Refuse("it packs none of these inputs")
        return kernel

    def run(
        self, poison: int = POISON, *, beside: int | None = None, inputs: Arrays | None = None
    ) -> KernelRun:
        """Run the kernel and return the outcome; several threads may do so concurrently.

        Parameters
        ----------
        poison : int
            The byte that outputs, workspace and guards are filled with.
        beside : int, optional
            The byte for workspace and guards, if it differs.
        inputs : mapping of str to sequence of ndarray, optional
            Inputs that replace the sample's, with the same shapes and dtypes. Parameters that
            differ overwrite the parameters of this thread's last run.

        Raises
        ------
        KernelError
            If the kernel fails.
        """
        arrays = self.sample.inputs if inputs is None else inputs
        call = self._keep_call(arrays)
        images = self._layout.fill(arrays, poison, poison if beside is None else beside)
        fetched = self.run_filled(RunInput(images, call))
        n = len(images)
        run = self._layout.read(images, fetched[:n], fetched[n:], arrays, poison)
        return self._parameters.read(call.scope, arrays, run)

    def _keep_call(self, arrays: Arrays) -> runtime.CompiledNetwork:
        """Return a function that runs the plan in this thread, with the parameters of a run."""
        call: runtime.CompiledNetwork | None = getattr(self._kept, "call", None)
        if call is None:
            call = self._kept.call = self._new_call(arrays)
        elif self._kept.given is not arrays:
            self._parameters.write(call.scope, arrays)
        self._kept.given = arrays
        return call

    def _new_call(self, arrays: Arrays) -> runtime.CompiledNetwork:
        scope = runtime.Scope()
        self._parameters.write(scope, arrays)
        plan = self._plan.plan
        return runtime.CompiledNetwork(scope, self._plan.feeds, lambda arrays: plan, self._device)

    def fill(self, poison: int = POISON, *, inputs: Arrays | None = None) -> RunInput:
        """Return the arguments of a run in separate memory and a new scope; see `run`."""
        arrays = self.sample.inputs if inputs is None else inputs
        return RunInput(self._layout.fill(arrays, poison, poison), self._new_call(arrays))

    def run_filled(self, run_input: RunInput) -> list[Array]:
        """Return the memory after a run, followed by every resized output.

        The workspace is zeroed in the result, since its final contents do not matter; for example,
        oneDNN leaves addresses there that differ from thread to thread.
        """
        named_images = dict(zip(self._plan.feeds, run_input.images, strict=True))
        self._before_run()
        try:
            with np.errstate(all="ignore"):  # samples are at the limits of computable sizes
                fetched = run_input.call(**named_images)
        finally:
            self._plan.open_pages()
        if self._layout.workspace is not None:
            self._layout.workspace.fill(fetched, 0)
        return fetched
