"""Writes bundles: lowers a network for a range of batch sizes, and joins equal plans."""

from __future__ import annotations

import copy
import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright.context.threads import count_for_plan
from opwright.describe.dtypes import Array, dtype_to_code, dtype_to_numpy
from opwright.disk import path_of, replace_file
from opwright.errors import AttributeTypeError, FeedError, ProgramError
from opwright.lowering import lower
from opwright.lowering.layout.recording import Recorder, Size
from opwright.messages.arguments import suggest_arguments
from opwright.messages.names import hint
from opwright.run.bundles.opening import MAGIC
from opwright.run.bundles.tokens import Affine, encode, join, matches

if TYPE_CHECKING:
    from opwright._runtime import CompiledNetwork, Scope
    from opwright.lowering import LoweredPlan, LowerRequest, Target
    from opwright.run.compiled import CompiledSource
    from opwright.run.feeds import FeedSpec

_VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQQ32s")
_ALIGNMENT: Final = 64
_MOST_THREADS: Final = 1024
_MOST_BATCH: Final = 1 << 40
_MOST_TOKENS: Final = 300_000
"""Maximum number of plans to lower for trying every batch size of a range."""

Shape = Sequence[int | None]


@suggest_arguments
def write_bundle(
    path: str | os.PathLike[str],
    compiled: CompiledNetwork,
    feeds: Mapping[str, Shape] | None = None,
    batch: tuple[int, int] | None = None,
) -> None:
    """Write the plans of a compiled network for a range of batch sizes, see `Network.bundle`.

    Parameters
    ----------
    path : str or PathLike
    compiled : CompiledNetwork
        On the CPU.
    feeds : mapping of str to sequence of int or None, optional
    batch : (int, int), optional
    """
    from pathlib import Path  # it takes 4 ms to import

    file = Path(path_of("bundle", path, "file"))
    given = {} if feeds is None else feeds
    if not isinstance(given, Mapping):
        raise AttributeTypeError(
            f"bundle: feeds must map names to shapes, got {given!r} ({type(given).__name__}); "
            "write feeds={'x': [None, 64]}, for example"
        )
    lowering = _Lowering(compiled.source, compiled.scope, given, batch)
    descriptor, arrays = lowering.describe()
    replace_file(file, list_chunks(descriptor, arrays))


def lower_described(
    source: CompiledSource, request: LowerRequest
) -> tuple[LoweredPlan, Callable[[], bytes] | None, list[str]]:
    """Return a plan, a function that describes the plan without weights, and its libraries.

    The function is None if the plan writes variables or cannot be bundled.
    """
    feeds = {name: meta.shape for name, meta in request.given.metas.items()}
    lowering, target = _Lowering(source, None, feeds, None), request.target
    lowered, tokens = lowering.record(request, copy.copy(target), 1)
    recorder = lowering.recorder
    if recorder.refusal or recorder.written:
        return lowered, None, []
    threads = (1, _MOST_THREADS) if target.deterministic else (target.n_threads,) * 2
    plans = [(1, 1, *threads, tokens)]
    return lowered, lambda: lowering.encode(plans)[0], list(recorder.libraries)


def list_chunks(descriptor: bytes, arrays: Sequence[Array]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a bundle."""
    begin = _round_up(_HEADER.size + len(descriptor))
    size = begin + sum(_round_up(array.nbytes) for array in arrays)
    digest = hashlib.sha256(descriptor).digest()
    yield _HEADER.pack(MAGIC, _VERSION, _HEADER.size, len(descriptor), size, digest)
    yield descriptor
    yield bytes(begin - _HEADER.size - len(descriptor))
    for array in arrays:
        yield _bytes_of(array)
        yield bytes(_round_up(array.nbytes) - array.nbytes)


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _round_up(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


class _Lowering:
    """Lowers one compiled network for batches and thread counts.

    Attributes
    ----------
    least, most : int
        The range of batches.
    recorder : Recorder

    If `scope` is None, weights are omitted.
    """

    def __init__(
        self,
        source: Any,
        scope: Scope | None,
        feeds: Mapping[str, Shape],
        batch: tuple[int, int] | None,
    ) -> None:
        template = source.template
        if template.given.written or template.given.shape_only:
            raise ProgramError("bundle: must be compiled without writes and shape_only, got one")
        if not template.target.device.is_host:
            raise ProgramError(
                f"bundle: must be compiled for the CPU, got {template.target.device}; compile it "
                "without device"
            )
        known = [spec.name for spec in source.feeds]
        for name in feeds:
            if name not in known:
                raise FeedError(
                    f"bundle: each name in feeds must be a feed, got {name!r}{hint(name, known)}"
                )
        self._source: CompiledSource = source
        self._scope = scope
        self._shapes = [_shape_of(spec, feeds.get(spec.name)) for spec in source.feeds]
        is_open = any(None in shape for shape in self._shapes)
        self.least, self.most = _check_batch(batch, is_open)
        self.recorder = Recorder(template.target)
        self._outputs: dict[int, list[Any]] = {}  # by batch

    def describe(self) -> tuple[bytes, list[Array]]:
        """Return the descriptor, and the weights in the order of the descriptor."""
        target = self._source.template.target
        count = count_for_plan(target.deterministic)
        ranges = [(1, 1, 1), (2, _MOST_THREADS, max(count, 2))]
        if target.deterministic:
            ranges = [(1, _MOST_THREADS, count)]
        return self.encode(
            (begin, end, least, most, tokens)
            for least, most, n_threads in ranges
            for begin, end, tokens in self._divide(n_threads)
        )

    def encode(
        self, plans: Iterable[tuple[int, int, int, int, list[Any]]]
    ) -> tuple[bytes, list[Array]]:
        """Return the result of `describe` for plans of given ranges of batches and threads."""
        variants: list[bytes] = []
        for *bounds, tokens in plans:
            section = encode(tokens)
            variants += (encode((*bounds, len(section))), section)
        tensors, arrays = self._list_tensors()
        written = self.recorder.written
        head = [self.least, self.most, *self._list_kernels()[0], *self._list_ports()]
        head += (len(written), *written, *tensors, *self._list_kernels()[1], len(variants) // 2)
        return b"".join((encode(head), *variants)), arrays

    def _divide(self, n_threads: int) -> Iterator[tuple[int, int, list[Any]]]:
        """Yield ranges that cover all batches, each with the tokens of its plan."""
        begin = end = self.least
        streams = {begin: self._lower(begin, n_threads)}
        joined: list[Any] = streams[begin]
        waiting = _list_tried(self.least, self.most, len(joined))[1:]
        while waiting:
            n = waiting[0]
            if n not in streams:
                streams[n] = self._lower(n, n_threads)
            if begin == end:
                longer = join(streams[begin], begin, streams[n], n)
            else:
                longer = joined if matches(joined, n, streams[n]) else None
            if longer is not None:
                joined, end = longer, waiting.pop(0)
            elif n - end > 1:
                waiting.insert(0, (n + end) // 2)
            else:
                yield begin, end, _join_ends(streams, begin, end)
                begin = end = waiting.pop(0)
        yield begin, end, _join_ends(streams, begin, end)

    def _lower(self, n: int, n_threads: int) -> list[Any]:
        """Return the tokens of the plans for a batch."""
        arrays = []
        for spec, shape in zip(self._source.feeds, self._shapes, strict=True):
            dims = tuple(n if dim is None else dim for dim in shape)
            arrays.append(np.broadcast_to(np.zeros((), dtype_to_numpy(spec.dtype or "")), dims))
        request = self._source.request(tuple(arrays))
        target = copy.copy(request.target)
        target.n_threads = n_threads
        target.last_short, target.chosen_kernels, target.chosen_passes = [], {}, {}
        tokens = self.record(request, target, n)[1]
        if self.recorder.refusal:
            raise ProgramError(self.recorder.refusal)
        return tokens

    def record(
        self, request: LowerRequest, target: Target, n: int
    ) -> tuple[LoweredPlan, list[Any]]:
        """Lower a plan for a batch; return it and its tokens, empty if it cannot be bundled."""
        recorder = self.recorder
        recorder.target, recorder.plans, recorder.is_done = target, [], False
        target.recorder = recorder
        lowered = lower(request._replace(target=target))
        recorder.is_done = True
        if recorder.refusal:
            return lowered, []
        self._outputs[n] = []
        for name, meta in zip(request.fetches.names, lowered.fetch_metas, strict=True):
            code = dtype_to_code(meta.dtype)
            self._outputs[n] += (name, code, len(meta.shape), *map(Size, meta.shape))
        plans = recorder.plans
        return lowered, [len(plans), *(token for plan in plans for token in plan)]

    def _list_ports(self) -> list[Any]:
        """Return the tokens of inputs and outputs."""
        tokens: list[Any] = [len(self._shapes)]
        for spec, shape in zip(self._source.feeds, self._shapes, strict=True):
            dims = [Affine(1, 0) if dim is None else dim for dim in shape]
            tokens += (spec.name, dtype_to_code(spec.dtype or ""), len(dims), *dims)
        outputs = _join_ends(self._outputs, self.least, self.most)
        for n, found in self._outputs.items():
            if not matches(outputs, n, found):
                raise ProgramError(
                    "bundle: dims of results must be a * n + b for a batch of n, got "
                    f"different dims for n={n}; write a bundle for a smaller range of batches"
                )
        return [*tokens, len(self._source.template.fetches.names), *outputs]

    def _list_tensors(self) -> tuple[list[Any], list[Array]]:
        """Return the tokens that describe the weights, and the weights themselves."""
        tokens: list[Any] = [0]
        arrays: list[Array] = []
        offset = 0
        for name in self.recorder.persistables:
            variable = self._scope.find_var(name) if self._scope else None
            if variable is None or not variable.is_set:
                continue  # the plan computes it
            array = variable.numpy()
            code = dtype_to_code(variable.dtype or "")
            digest = hashlib.sha256(_bytes_of(array)).digest()
            tokens += (name, code, array.ndim, *array.shape, offset, digest)
            arrays.append(array)
            offset += _round_up(array.nbytes)
        return [len(arrays), *tokens[1:]], arrays

    def _list_kernels(self) -> tuple[list[Any], list[Any]]:
        """Return the tokens of libraries, by file name, and of their kernels."""
        recorder = self.recorder
        paths = list(recorder.libraries)
        needed = {path for (path, *_), i in recorder.kernels.items() if i in recorder.needed}
        libraries: list[Any] = [len(paths)]
        for path in paths:
            folder, file = os.path.split(path)
            library = recorder.libraries[path]
            libraries += (file, folder.rpartition("/")[2], library.name, library.version)
            libraries.append(int(path not in needed))
        kernels: list[Any] = [len(recorder.kernels)]
        for path, *key in recorder.kernels:
            kernels += (paths.index(path), *key)
        return libraries, kernels


def _join_ends(streams: Mapping[int, list[Any]], begin: int, end: int) -> list[Any]:
    joined = join(streams[begin], begin, streams[end], max(end, begin + 1))
    return streams[begin] if joined is None else joined


def _list_tried(least: int, most: int, n_tokens: int) -> list[int]:
    """Return the batches to lower for: all batches if that is fast."""
    if (most - least) * n_tokens <= _MOST_TOKENS:
        return list(range(least, most + 1))
    near = {least + i for i in range(4)} | {most}
    for power in range(most.bit_length()):
        near |= {(1 << power) - 1, 1 << power, (1 << power) + 1}
    return sorted(n for n in near if least <= n <= most)


def _shape_of(spec: FeedSpec, given: Any) -> tuple[int | None, ...]:
    """Return the shape of a feed, with None for the batch, by default the first unknown dim."""
    known = spec.shape
    if spec.dtype is None:
        raise FeedError(f"bundle: {spec.name!r} must be a variable with a dtype, got none")
    shape: Any = given
    if shape is None and known is not None:
        shape = [None if i == 0 and dim < 0 else dim for i, dim in enumerate(known)]
    is_shape = isinstance(shape, (list, tuple)) and all(
        dim is None or (isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0)
        for dim in shape
    )
    if not is_shape:
        raise FeedError(
            f"bundle: feeds must give the shape of {spec.name!r}, with None for the batch, got "
            f"{shape if given is None else given!r} for {spec.name} "
            f"{list(known) if known is not None else '[...]'}; "
            f"write feeds={{{spec.name!r}: [None, 784]}}"
        )
    return tuple(shape)


def _check_batch(batch: Any, is_open: bool) -> tuple[int, int]:
    if batch is None and not is_open:
        return 1, 1
    fits = (
        is_open
        and isinstance(batch, (tuple, list))
        and len(batch) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) for n in batch)
        and 1 <= batch[0] <= batch[1] <= _MOST_BATCH
    )
    if not fits:
        raise FeedError(
            "bundle: batch must be the least and largest value of dims that are None in feeds, "
            f"at least 1, got {batch!r}{'' if is_open else ' for none'}; write batch=(1, 64)"
        )
    return batch[0], batch[1]
