"""The callables for users: compiled networks and operator functions. Part of `_runtime`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, final

from opwright._runtime import Device, Scope
from opwright._runtime_plans import Epoch, Plan, Plans
from opwright.run.compiled import PreparedRun

@final
class CompiledNetwork:
    """``f(*feeds, **feeds) -> list`` of new arrays, or of Tensors with `fetch_device`.

    Each feed is read once: directly if it is a NumPy array, an array that its library exports
    without ``__dlpack__``, or an array on `device`; otherwise by ``source.read_feed(i, value)``,
    which returns a ready array, an exact ndarray that is C-contiguous, aligned and of native byte
    order, or a Tensor on `device`. If no plan is cached for such feeds, or the plan does not fit
    the scope, ``source(feeds)`` gets all of them in the order of `feed_names` and returns a `Plan`,
    or an object that has one as ``plan``. If the names are invalid,
    ``source.refuse_names(n_positional, names)`` raises an error. The call returns after the memory
    of other libraries has been read.

    All feeds may be given in one dict. Two keywords are not feeds unless a feed has that name, and
    never if feeds are given in a dict:

    - ``out=[array, None]``: for each fetch, an array to write it into, which is returned, or None.
      Each can be a NumPy array, an array with ``__dlpack__`` on the host or, with `fetch_device`,
      an array on the device. Dtype and shape must match the fetch. A contiguous array is written by
      the kernel itself; results are copied into other arrays at the end. FeedError is raised before
      the first step for an array that is read-only or overlaps a feed, a variable or another array;
      after an operator whose output shape depends on values, shapes are checked once they are
      known.
    - ``fetch_as=importer``: converts each result that is not in `out`. A type with the DLPack
      exchange API, such as ``torch.Tensor``, can be an importer. This argument overrides the
      attribute `fetch_as`.

    Results are in new memory that belongs to the caller, except for results in `out`.

    `writes` are the names of feeds that plans write in place, `detach` is the argument of
    ``Network.compile``.
    """

    fetch_device: bool
    detach: bool
    fetch_as: Callable[[Any], Any] | None
    writes: tuple[str, ...] | None

    def __init__(
        self,
        scope: Scope,
        feed_names: Sequence[str],
        source: Callable[[tuple[Any, ...]], Any],
        device: Device | None = None,
        epoch: Epoch | None = None,
        label: str = "network",
    ) -> None: ...
    def __call__(self, *values: Any, **feeds: Any) -> list[Any]:
        """Return the fetches, in order."""
    def find_plan(self, feeds: dict[str, Any], /) -> tuple[Any, tuple[Any, ...]]:
        """Return the result of `source` for such feeds, and the feeds in the plan's order."""
    def profile(
        self,
        feeds: Mapping[str, Any] | None = None,
        n: int | None = None,
        *,
        scope: Scope | None = None,
    ) -> Any:
        """Measure each step of the plan for these feeds; see `Network.profile`."""
    def plan_for(
        self, feeds: Mapping[str, Any] | None = None, scope: Scope | None = None
    ) -> PreparedRun:
        """Return the plan for these feeds, and the arguments to run it with."""
    @property
    def plans(self) -> Plans: ...
    @property
    def source(self) -> Any: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def feed_names(self) -> tuple[str, ...]: ...

@final
class Watch:
    """Checks whether the arguments of a call are the unchanged objects of an earlier call.

    Parameters
    ----------
    arguments : tuple
        The arguments of that call. The watch does not own them; drop it when the first is freed.
    positions : sequence of int
        The arguments that are watched.
    attribute : str
        An int that increases with every change of an object, like ``_version`` of PyTorch tensors.
    """

    def __init__(
        self, arguments: tuple[Any, ...], positions: Sequence[int], attribute: str
    ) -> None: ...
    def is_same(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether each watched argument is the same object with an unchanged attribute."""

@final
class Namespace(ModuleType):
    """A module that first looks up names in its ``__table__``: (variable, key, dict).

    The entries of the dict are used while the ContextVar contains the object `key` itself; other
    names are looked up as in any module.
    """

@final
class EagerFunction:
    """The callable for users: ``f(*inputs, **inputs_and_attributes)``.

    Purely positional calls are completed from `defaults` and passed to `call`, with every parameter
    by position; all others are passed to `bind` unchanged.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        bind: Callable[..., Any],
        defaults: tuple[Any, ...],
        n_positional: int,
    ) -> None:
        """`defaults` has all parameters; the first `n_positional` may be given by position."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class EagerOperator:
    """One operator on arrays: ``f(*inputs, *attributes)``, with all arguments by position.

    Each input is read once: NumPy arrays, and arrays that other libraries export without
    ``__dlpack__``, through the DLPack C exchange API or the buffer protocol (lists or tuples of
    these where `duplicable` has the bit of the input, None for an absent input). For all other
    inputs, ``slow(*args)`` is called, which makes them ready and continues with `call_ready`.

    If no plan is cached for dtypes, shapes and attributes, ``lower(arrays, counts, attributes)``
    gets the arrays of all inputs and the number of arrays of each input, and returns a plan.
    Attributes match by identity, or by equality of their values and nested types; floats match
    bitwise. A call with attributes other than None, bool, int, float, str and tuples or lists of
    these is lowered each time.
    """

    def __init__(
        self,
        n_inputs: int,
        duplicable: int,
        slow: Callable[..., Any],
        lower: Callable[[tuple[Any, ...], list[int], tuple[Any, ...]], Plan],
        n_outputs: int = 1,
        as_given: Callable[[Any, Any], Any] = ...,
        epoch: Epoch | None = None,
        label: str = "operator",
        detach: bool = False,
    ) -> None:
        """If `n_outputs` is 1, the first fetch is returned, otherwise a tuple of all fetches.

        With `detach`, arrays that require a gradient are read as their ``detach()``.

        ``as_given(result, array)`` converts a result to an array of the first argument's library,
        if that library has no exchange API; without `as_given`, `slow` handles such arrays.
        """
    def __call__(self, *args: Any) -> Any: ...
    def call_ready(self, *args: Any) -> Any:
        """Run the operator on inputs that are ready: ndarrays, or Tensors on one device, for which
        Tensors are returned.
        """
    @property
    def plans(self) -> Plans: ...
