"""What can be seen of a network: what runs where, what each step takes, and how it looks."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opwright.errors import ProgramError
from opwright.lowering import LoweredPlan, Placement
from opwright.registry import HOST_DEVICE

if TYPE_CHECKING:
    import os

    from opwright import _runtime
    from opwright.drawing import Drawn
    from opwright.profiling import Profile
    from opwright.program import Block, Operator


class Inspection:
    """The part of a `Network` that tells of its plans."""

    def __init__(self) -> None:
        self._last: LoweredPlan | None = None
        self._compiled: weakref.ref[_runtime.CompiledNetwork] | None = None

    @property
    def ops(self) -> Sequence[Operator]:
        """The operators, in order."""
        raise NotImplementedError

    @property
    def block(self) -> Block | None:
        """The block that the network follows, None for a network of loose operators."""
        raise NotImplementedError

    def placement(self) -> Placement:
        """Return what the plan that was lowered or run last runs where.

        Raises
        ------
        ProgramError
            If nothing was lowered yet.
        """
        if self._last is None:
            raise ProgramError(
                "Network.placement: a plan must have been lowered, got none; "
                "call run, or call what compile returned"
            )
        # The device may refuse later than the plan was made.
        return replace(self._last.placement, graph_refusal=self._last.plan.capture_refusal)

    def profile(
        self,
        feeds: Mapping[str, Any] | None = None,
        n: int | None = None,
        *,
        scope: _runtime.Scope | None = None,
    ) -> Profile:
        """Measure each step of what was compiled or run last; `print` shows a table.

        The plan runs `n` times as it always does, and `n` times step by step with a clock, which
        is read natively. A device with a queue is waited for around each step, and nothing is
        replayed as a graph meanwhile. The runs write into copies: the scope stays as it is.

        Parameters
        ----------
        feeds : mapping of str to array, optional
            As a call of the compiled network takes them; their shapes decide which plan it is.
        n : int, optional
            How many runs are measured, in [1, 10000]; default `opwright.profiling.DEFAULT_RUNS`.
        scope : Scope, optional
            Holds the persistable variables; default: that of the compiled network, and for `run`
            the default scope.

        Returns
        -------
        Profile
            ``rows`` in the order of execution, ``to_json()`` plain data.

        Raises
        ------
        ProgramError
            If nothing was compiled or run yet, what `compile` returned is gone, or `n` is outside
            its range.
        FeedError
            For a missing, unknown or misshapen feed.
        KernelError
            If a kernel fails.
        """
        from opwright.profiling import profile_network

        return profile_network(self, feeds, n, scope=scope)

    def graph_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "network",
        fetches: Iterable[str] = (),
        profile: Profile | None = None,
        device: str = HOST_DEVICE,
        force: bool = False,
    ) -> Drawn:
        """Write the network as an HTML page, whole in itself, to look at in a browser.

        Operators stand in layers, shapes and dtypes on the edges between them, the blocks of
        control flow below, to be opened and closed. A click shows attributes, documentation, and
        why which kernel serves on each device.

        Parameters
        ----------
        path : str or PathLike
            The file to write: whole, or not at all.
        title : str
            Stands at the top.
        fetches : iterable of str
            Variables that are drawn as results.
        profile : Profile, optional
            What `profile` returned of this network: operators show their time and its heat.
        device : str
            Whose kernels stand on the operators; with a profile, those that ran.
        force : bool
            Whether a file that exists is replaced.

        Returns
        -------
        Drawn
            The path, and how much there is to see.

        Raises
        ------
        FileTakenError
            If the file exists and `force` is not given.
        ProgramError
            If there is nothing to draw.
        DeviceNotFoundError
            If no plugin brings the device.
        OSError
            If the file cannot be written; an old one is as before.
        """
        from opwright.drawing import write_page

        return write_page(
            self,
            path,
            title=title,
            fetches=fetches,
            profile=profile,
            device=device,
            force=force,
        )

    @property
    def latest_plan(self) -> LoweredPlan | None:
        """The plan that was lowered or run last."""
        return self._last

    @property
    def latest_compiled(self) -> _runtime.CompiledNetwork | None:
        """What `compile` returned last; None where `run` came after it, or neither.

        Raises
        ------
        ProgramError
            If nobody holds it any more.
        """
        if self._compiled is None:
            return None
        compiled = self._compiled()
        if compiled is None:
            raise ProgramError(
                "Network.profile: what compile returned must still be held, got one that is gone; "
                "keep it in a variable"
            )
        return compiled

    def _remember_plan(self, plan: LoweredPlan) -> None:
        self._last = plan

    def _remember_run(self, plan: LoweredPlan) -> None:
        self._last, self._compiled = plan, None

    def _remember_compiled(self, compiled: _runtime.CompiledNetwork) -> _runtime.CompiledNetwork:
        self._compiled = weakref.ref(compiled)  # weak, for it holds this network
        return compiled
