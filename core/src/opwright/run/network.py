"""`Network`, a sequence of operators that is run on a scope or compiled into a callable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opwright import _runtime
from opwright.context.context import current_context
from opwright.context.threads import count_for_plan
from opwright.device.opening import open_device
from opwright.errors import FeedError, ProgramError
from opwright.lowering import (
    Given,
    LoweredPlan,
    LowerRequest,
    Persistables,
    Placement,
    Target,
    lower,
)
from opwright.messages.arguments import suggest_arguments
from opwright.program import Block, Operator, Variable
from opwright.program.operator import names_read_first
from opwright.registry import HOST_DEVICE, DeviceName
from opwright.run.arguments import (
    check_delivery,
    check_fallback,
    check_fed,
    check_range,
    check_writes,
    choose_deterministic,
    choose_scope,
    choose_target,
    feed_spec,
    list_items,
    make_template,
    scope_metas,
)
from opwright.run.compiled import CompiledSource, PreparedRun

if TYPE_CHECKING:
    import os

    from opwright.lowering.lock import Lock


class Network:
    """A sequence of operators over the variables of a scope.

    Parameters
    ----------
    block_or_operators : Block or iterable of Operator, optional
        Operators added to the block later are run, too; operators of an iterable are copied.

    Raises
    ------
    ProgramError
        For anything else.
    """

    @suggest_arguments
    def __init__(self, block_or_operators: Block | Iterable[Operator] | None = None) -> None:
        self._block = block_or_operators if isinstance(block_or_operators, Block) else None
        self._ops: list[Operator] = []
        self._changes = 0
        self._runs = _runtime.Plans("Network.run")
        self._recent: _runtime.Plans | None = None  # of the last compile or run
        self._compiled: weakref.ref[_runtime.CompiledNetwork] | None = None
        operators: Any = () if self._block is block_or_operators else block_or_operators
        if not isinstance(operators, Iterable):
            raise ProgramError(
                f"Network: must be given a Block or Operators, got {type(operators).__name__}; "
                "pass program.global_block()"
            )
        for op in operators:
            self.add_op(op)

    def __repr__(self) -> str:
        source = "separate operators" if self._block is None else f"block {self._block.idx}"
        return f"Network({len(self.ops)} operators, {source})"

    @property
    def ops(self) -> Sequence[Operator]:
        """The operators, in order."""
        return self._ops if self._block is None else self._block.ops

    @property
    def block(self) -> Block | None:
        """The block of the network, or None if its operators do not have a block."""
        return self._block

    @property
    def generation(self) -> int:
        """A counter that is incremented by every change of the operators."""
        return self._changes if self._block is None else self._block.program.generation

    def add_op(self, op: Operator) -> int:
        """Append an operator; return its index, for the arguments `first` and `last` of `run`."""
        if not isinstance(op, Operator):
            raise ProgramError(
                f"Network.add_op: must be given an Operator, got {type(op).__name__}; "
                "make one with opwright.Operator(type, **slots_and_attributes)"
            )
        if self._block is not None:
            self._block.append_op(op.type, dict(op.inputs), dict(op.outputs), dict(op.attrs))
        else:
            self._ops.append(op)
            self._changes += 1
        return len(self.ops) - 1

    @suggest_arguments
    def run(
        self,
        scope: _runtime.Scope | None = None,
        first: int | None = None,
        last: int | None = None,
        *,
        device: str = HOST_DEVICE,
        fallback: str | None = None,
        deterministic: bool | None = None,
    ) -> None:
        """Run the operators from `first` to `last`, both included; by default all.

        All variables that they write are in the scope afterwards. Passes do not remove or fuse
        operators, and memory is not shared.

        Parameters
        ----------
        scope : Scope, optional
            Contains the variables; by default the default scope.
        first, last : int, optional
            Indices that `add_op` returned.
        device : str
            Device type, followed by a colon and the number if that is not 0, as in ``"cuda:1"``.
            Variables that are read are moved there.
        fallback : str, optional
            ``"cpu"`` runs operators without a kernel for the device on the host.
        deterministic : bool, optional
            As for `compile`.

        Raises
        ------
        ProgramError
            If a variable is read that no operator has written and the scope lacks, or `fallback` is
            invalid.
        KernelNotFoundError, KernelError
            If a kernel is missing, or fails.
        """
        scope = choose_scope("Network.run", scope)
        check_fallback("Network.run", fallback)
        fixed = choose_deterministic("Network.run", deterministic)
        begin, end = check_range(first, last, len(self.ops))
        ops = tuple(self.ops[begin:end])
        name, context = DeviceName.parse(device, "Network.run"), current_context()
        metas = scope_metas(scope, names_read_first(ops), open_device(name, context))
        key = (self.generation, begin, end, name, fallback, fixed, context, tuple(metas.items()))
        n_threads, made_at = count_for_plan(fixed), context.epoch.now
        plan: LoweredPlan | None = self._runs.find(key)
        if plan is None:
            request = LowerRequest(
                ops,
                Target(context, name, fallback, deterministic=fixed, n_threads=n_threads),
                persistables=Persistables(metas, keep_all=True),
                program=None if self._block is None else self._block.program,
                first_index=begin,
            )
            plan = self._runs.add(key, context.epoch, made_at, lower(request))
        self._recent, self._compiled = self._runs, None
        plan.plan.run(scope)

    @suggest_arguments
    def compile(
        self,
        feed: Sequence[Variable | str] = (),
        fetch: Sequence[Variable | str] = (),
        device: str = HOST_DEVICE,
        scope: _runtime.Scope | None = None,
        passes: Sequence[str] | None = None,
        fallback: str | None = None,
        fetch_device: bool = False,
        options: Mapping[str, Any] | None = None,
        deterministic: bool | None = None,
        lock: Lock | str | os.PathLike[str] | None = None,
        *,
        writes: Sequence[Variable | str] = (),
        shape_only: Sequence[Variable | str] = (),
        varying: Sequence[Variable | str] = (),
        fetch_as: Callable[[Any], Any] | None = None,
        detach: bool = False,
    ) -> _runtime.CompiledNetwork:
        """Return a callable ``f(*feeds, **feeds) -> list`` that runs the current operators.

        ``f`` also takes all feeds in one dict, and `out` and `fetch_as`; see `CompiledNetwork`.

        Parameters
        ----------
        feed : sequence of Variable or str
            Names of the keyword arguments. An array is borrowed, read-only, for the call. An array
            on `device`, of any library with ``__dlpack__``, is read without a copy to the host.
        fetch : sequence of Variable or str
            The results, in order: new NumPy arrays that belong to the caller.
        device : str
            Device type, followed by a colon and the number if that is not 0, as in ``"cuda:1"``.
        scope : Scope, optional
            Contains the persistable variables; by default the default scope.
        passes : sequence of str, optional
            Names of the only passes to run, ``[]`` for none, or names of passes to exclude, each
            prefixed by ``-``. By default all passes run.
        fallback : str, optional
            ``"cpu"`` runs operators without a kernel for the device on the host.
        fetch_device : bool
            Leave fetches on the device and return `Tensor` objects.
        options : mapping of str to value, optional
            Options of plugins by name, such as ``{"cuda.allow_tf32": True}``. Other options are
            taken from the current Context, see `Context.with_options`.
        deterministic : bool, optional
            Whether results must be bitwise identical in every run, with any number of threads. By
            default the environment variable OPWRIGHT_DETERMINISTIC, otherwise False.
        lock : Lock, str or PathLike, optional
            The result of `lock`, or its file, with the only kernels, passes and versions to use.
        writes : sequence of Variable or str
            Feeds that are written like persistable variables, into the caller's array, which must
            be contiguous, writable and disjoint from other feeds.
        shape_only : sequence of Variable or str
            Feeds whose elements are never read, such as values that a gradient uses only for their
            shape. They may be given as an `opwright.op.Meta`; strided NumPy arrays are not copied.
        varying : sequence of Variable or str
            Variables of the scope that change from run to run, such as parameters trained by other
            code. Values that depend only on these are not cached between runs.
        fetch_as : callable, optional
            Converts results with ``__dlpack__``, such as ``torch.from_dlpack``, or a type with the
            DLPack exchange API, such as ``torch.Tensor``, which is faster. By default NumPy arrays.
        detach : bool
            Read arrays that require a gradient as their ``detach()``, see `detach_guard`.

        Raises
        ------
        SettingError
            For an unknown option, and for a value of the wrong type.
        LockError
            If installed packages differ from the lock; raised by the call if an operator lacks a
            locked kernel.
        FileMissingError, FormatError
            If the lock file is missing or damaged.
        FeedError
            If a feed or fetch is not a variable, or `writes` names a variable that is not fed or
            not written. The call checks shapes, and whether an element of `shape_only` is read.
        ProgramError
            If `fallback` is invalid, or both `passes` and `lock` are given.
        DeviceNotFoundError, KernelError
            If no plugin provides the device, or no device has this number.
        """
        scope = choose_scope("Network.compile", scope)
        target = choose_target(device, fallback, passes, options, deterministic, lock)
        fetches = list_items(fetch, "fetch")
        feeds = [feed_spec(self._block, self.ops, item) for item in list_items(feed, "feed")]
        template = make_template(
            self._block, self.ops, feeds, fetches, target, fetch_device, varying
        )
        check_delivery(fetch_as, detach, fetch_device)
        written = check_writes(list_items(writes, "writes"), feeds, self.ops)
        shapes = check_fed(list_items(shape_only, "shape_only"), "shape_only", feeds)
        template = template._replace(given=Given(written=written, shape_only=shapes))
        compiled = CompiledSource(template, feeds, scope).callable(
            f"network of {len(self.ops)} operators", detach, fetch_as
        )
        self._recent = compiled.plans
        self._compiled = weakref.ref(compiled)  # weak, so a deleted network cannot be profiled
        return compiled

    @suggest_arguments
    def bundle(
        self,
        path: str | os.PathLike[str],
        feeds: Mapping[str, Sequence[int | None]] | None = None,
        batch: tuple[int, int] | None = None,
    ) -> None:
        """Write the last compiled network to a file that runs without Python.

        Parameters
        ----------
        path, feeds, batch
            As for `LoadedProgram.bundle`; the result of ``compile`` must still exist.
        """
        from opwright.run.bundles.writing import write_bundle

        compiled = self._compiled() if self._compiled else None
        if compiled is None:
            raise ProgramError(
                "Network.bundle: the result of compile must still exist, got none; keep it"
            )
        write_bundle(path, compiled, feeds, batch)

    def placement(self) -> Placement:
        """Return the placement of the last plan that was lowered or run.

        Raises
        ------
        ProgramError
            If nothing has been lowered yet.
        """
        return self._need_last("placement").placement

    def lock(self) -> Lock:
        """Return the kernels and passes of the last compile or run.

        The lock covers all feeds with which the network was called, so first call it with feeds of
        each kind.

        Raises
        ------
        ProgramError
            If nothing has been lowered yet.
        """
        from opwright.lowering.lock import Lock

        return Lock.of(self._need_last("lock").target)

    def plan_for(
        self, feeds: Mapping[str, Any] | None = None, scope: _runtime.Scope | None = None
    ) -> PreparedRun:
        """Return the plan of the last compile or run for these feeds, with its arguments.

        Parameters
        ----------
        feeds : mapping of str to array, optional
            As for a call of the compiled network.
        scope : Scope, optional
            Contains the persistable variables; by default the scope of the compiled network, and
            for `run` the default scope.

        Raises
        ------
        ProgramError
            If nothing has been compiled or run yet, or the result of `compile` no longer exists.
        FeedError
            For a missing or unknown feed, or a feed with a wrong shape.
        """
        if self._compiled is not None:
            compiled = self._compiled()
            if compiled is None:
                raise ProgramError(
                    "Network.profile: the result of compile must still exist, got none; keep it "
                    "in a variable"
                )
            return compiled.plan_for(feeds, scope)
        last = None if self._recent is None else self._recent.last
        if last is None:
            raise ProgramError(
                "Network.profile: a plan must exist, got none; call compile or run first"
            )
        if feeds:
            raise FeedError(
                f"Network.profile: a plan of run takes no feeds, got {sorted(feeds)}; set "
                "the variables in the scope, or call compile first"
            )
        written = frozenset(name for op in self.ops for name in op.output_names())
        return PreparedRun(last, (), choose_scope("Network.profile", scope), written)

    @suggest_arguments
    def profile(
        self,
        feeds: Mapping[str, Any] | None = None,
        n: int | None = None,
        *,
        scope: _runtime.Scope | None = None,
    ) -> Any:
        """Measure each step of the last compile or run, with the annex ``kit[profile]``.

        Raises
        ------
        MissingRequirementError
            If no plugin provides it, as opwright-kit does.
        """
        profile = current_context().annexes.get("kit", "profile").load()
        return profile(self, feeds, n, scope=scope)

    def graph_html(self, path: str | os.PathLike[str], **options: Any) -> Any:
        """Write the network as an HTML page for a browser, with the annex ``kit[draw]``.

        Raises
        ------
        MissingRequirementError
            If no plugin provides it, as opwright-kit does.
        """
        return current_context().annexes.get("kit", "draw").load()(self, path, **options)

    def _need_last(self, who: str) -> LoweredPlan:
        last: LoweredPlan | None = None if self._recent is None else self._recent.last
        if last is None:
            raise ProgramError(
                f"Network.{who}: a plan must have been lowered, got none; "
                "call run, or the result of compile"
            )
        return last
