"""`Module`, a Program as a PyTorch module that shares the memory of a scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

import opwright as ow
from opwright import vocabulary
from opwright.errors import FeedError, ProgramError
from opwright.op import is_float
from opwright.plugin import hint, suggest_arguments
from opwright_torch import ops  # noqa: F401  # defines opwright::_program
from opwright_torch.dtypes import torch_dtype
from opwright_torch.module.forms import Form, make_form, make_plan
from opwright_torch.ops.functions import is_traced
from opwright_torch.ops.whole import run_program
from opwright_torch.plans.forward import Forward
from opwright_torch.plans.kept import Kept

Place = tuple[nn.Module, str, str]
"""A module, the name of its dict of parameters or buffers, and the key in this dict."""


class Module(nn.Module):
    """A Program as a PyTorch module whose parameters share the memory of a scope.

    Parameters are not copied, so steps of a PyTorch optimizer affect the program, and vice versa.
    After ``train()``, results are computed as in the program: dropout is active, and batch
    normalization uses batch statistics and updates running statistics. After ``eval()``, results
    are computed as in ``Program.clone(for_inference=True)``. Both modes omit the gradients and
    updates of the program itself. Parameters of the program become parameters of the module, and
    other persistable variables that the results depend on become buffers. A dot in a name separates
    modules.

    A call accepts tensors by position, by name, or in one dict, in the order of `feed_names`, and
    returns a tensor, or a tuple if there are several results. One plan computes a scalar result and
    its gradients; otherwise, two plans compute the results and the gradients. Random operators draw
    from ``torch.manual_seed``.

    Parameters
    ----------
    program : Program or LoadedProgram
        A LoadedProgram brings its scope, results, feeds, lock and options. Later changes to the
        program are ignored.
    scope : Scope, optional
        Holds the parameters in host memory; by default the default scope.
    fetches : Variable, str or sequence of these
        The results.
    feeds : sequence of Variable or str, optional
        The order of positional arguments; by default the order of declaration.

    Raises
    ------
    ProgramError
        If `program` is not a program or there are no results, or if a parameter is missing from the
        scope, is on another device, or has the name of a `torch.nn.Module` attribute.
    VariableNotFoundError
        If a feed or result is not a variable of the program.
    FeedError
        Raised by calls with a missing or unknown feed, a feed that is not a tensor, or a feed with
        a wrong shape or dtype.

    Attributes
    ----------
    scope : Scope
    feed_names, fetch_names : tuple of str
    """

    @suggest_arguments
    def __init__(
        self,
        program: ow.Program | ow.LoadedProgram,
        scope: ow.Scope | None = None,
        fetches: ow.Variable | str | Sequence[ow.Variable | str] | None = None,
        feeds: Sequence[ow.Variable | str] | None = None,
    ) -> None:
        super().__init__()
        loaded = _load(program, scope, fetches, feeds)
        self._choices = dict(loaded.choices)
        self.fetch_names = tuple(spec.name for spec in loaded.fetches)
        parts = [_without_updates(loaded, is_training) for is_training in (True, False)]
        blocks = [part.global_block() for part in parts]
        read = {name for block in blocks for name in ow.names_read_first(block.ops)}
        read.discard(vocabulary.STEP)
        variables = loaded.program.global_block().vars
        kept = [name for name, v in variables.items() if name in read and v.persistable]
        self.feed_names = tuple(name for name in loaded.program_feeds if name in read)
        self._forms = [
            make_form(part, self.feed_names, kept, self.fetch_names) for part in reversed(parts)
        ]
        self._dtypes = [torch_dtype(variables[name].dtype) for name in self.feed_names]
        self._variables = tuple(kept)
        self._places = [
            self._register(name, variables[name], _read_tensor(loaded.scope, name)) for name in kept
        ]
        self._share(loaded.scope)

    def _register(self, name: str, variable: ow.Variable, tensor: Tensor) -> Place:
        """Register a parameter or buffer and return its position."""
        *path, leaf = name.split(".")
        owner: nn.Module = self
        try:
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            if isinstance(variable, ow.Parameter) and is_float(variable.dtype):
                parameter = nn.Parameter(tensor, requires_grad=variable.trainable)
                owner.register_parameter(leaf, parameter)
                return owner, "_parameters", leaf
            owner.register_buffer(leaf, tensor)
            return owner, "_buffers", leaf
        except (KeyError, AttributeError) as error:
            raise ProgramError(
                f"Module: a parameter must have a name that torch.nn.Module accepts, got {name!r}: "
                f"{error.args[0]}; rename the variable"
            ) from None

    def _share(self, scope: ow.Scope) -> None:
        """Bind plans to the tensors in the scope."""
        self.scope = scope
        self._plans: dict[Any, Forward] = {}
        self._tensors = [getattr(owner, leaf) for owner, _, leaf in self._places]
        n = len(self.feed_names)
        self._kept = [
            Kept(
                [form.names[i] for i in form.kept],
                [self._tensors[i - n] for i in form.kept],
                [form.kept.index(i) for i in form.written],
                self._plans.clear,
                scope,
            )
            for form in self._forms
        ]
        self._structure = scope.structure_version

    @property
    def plans(self) -> list[Forward]:
        """The plans of the forms that have run, by mode and requested gradients."""
        return list(self._plans.values())

    def forward(self, *args: Any, **feeds: Any) -> Tensor | tuple[Tensor, ...]:
        """Return the results for tensors given by position, by name, or in one dict."""
        values = self._bind(args, feeds)
        if torch.is_autocast_enabled("cpu"):
            values = self._cast(values)
        every = [*values, *self._find_tensors()]
        if is_traced(every) or not self._has_own(every):
            results = self._run_traced(self._forms[self.training], every)
        else:
            results = self._run(tuple(every))
        return results[0] if len(self.fetch_names) == 1 else tuple(results)

    def _find_tensors(self) -> list[Tensor]:
        """Return the current parameters and buffers."""
        if not torch.compiler.is_compiling():
            with suppress(KeyError):  # a parametrization replaces the parameter
                return [owner.__dict__[table][leaf] for owner, table, leaf in self._places]
        return [getattr(owner, leaf) for owner, _, leaf in self._places]

    def _has_own(self, every: Sequence[Tensor]) -> bool:
        """Return False if a parameter was replaced, for example by `torch.func.functional_call`."""
        return all(a is b for a, b in zip(every[len(self.feed_names) :], self._tensors))

    def _bind(self, args: tuple[Any, ...], feeds: Mapping[str, Any]) -> list[Any]:
        """Return the feeds in order."""
        names = self.feed_names
        if len(args) == 1 and isinstance(args[0], dict):
            feeds = {**args[0], **feeds}
            args = ()
        if feeds or len(args) != len(names):
            given = {**dict(zip(names, args)), **feeds}
            if len(args) + len(feeds) != len(names) or given.keys() != set(names):
                raise FeedError(_describe_names(names, args, feeds))
            args = tuple([given[name] for name in names])
        for name, value in zip(names, args):
            if not isinstance(value, Tensor):
                raise FeedError(
                    f"Module: feed {name!r} must be a torch.Tensor, got {type(value).__name__}; "
                    "write torch.as_tensor(value)"
                )
        return list(args)

    def _cast(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Cast floats to the dtypes of the program, since autocast may have changed them."""
        return [
            value.to(dtype) if value.is_floating_point() and dtype.is_floating_point else value
            for value, dtype in zip(values, self._dtypes)
        ]

    def _run(self, every: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Run the plan for this mode and the requested gradients; it reads the scope."""
        key: Any = self.training, None
        if torch.is_grad_enabled():
            mask = tuple([tensor.requires_grad for tensor in every])
            key = self.training, mask if any(mask) else None
        plan = self._plans.get(key)
        if plan is None:
            form = self._forms[self.training]
            trained = [i for i in (*form.fed, *form.kept) if key[1] and key[1][i]]
            plan = make_plan(form, self._kept[self.training], trained, self._choices)
            self._plans[key] = plan
        if self._structure != self.scope.structure_version:
            self._check_shared()
        if not plan.fits(every):
            plan.adopt(every)
        return plan(every)

    def _run_traced(self, form: Form, every: Sequence[Tensor]) -> Sequence[Tensor]:
        """Run the program as a functional PyTorch operator."""
        given = [
            every[i].clone() if i in form.written else every[i] for i in (*form.fed, *form.kept)
        ]
        if form.is_random:
            given.append(torch.randint(2**31, (1,)))
        results = run_program(given, form.text)
        n = len(self.fetch_names)
        for i, value in zip(form.written, results[n:]):
            every[i].copy_(value.detach())
        return results[:n]

    def _check_shared(self) -> None:
        """Raise ProgramError if the scope and the module no longer share a parameter's memory."""
        for name, tensor in zip(self._variables, self._tensors):
            variable = self.scope.find_var(name)
            lies = None if variable is None or not variable.is_set else variable.tensor().data_ptr
            if lies != tensor.data_ptr():
                raise ProgramError(
                    f"Module: {name!r} must share its memory between the scope and the "
                    "module, got a variable that was set to a different shape or dtype, "
                    "borrows different memory, or was erased; create a new Module"
                )
        self._structure = self.scope.structure_version

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Refuse conversions that move parameters; `fn` is tried on empty tensors."""
        for name, tensor in zip(self._variables, self._tensors):
            probe = torch.empty_like(tensor, requires_grad=False)
            before = probe.data_ptr()
            result = fn(probe)
            if result.data_ptr() != before or result.dtype != tensor.dtype:
                raise ProgramError(
                    f"Module: {name!r} must stay in the memory of its scope, got a conversion from "
                    f"{_describe(tensor)} to {_describe(result)}; convert the program instead, or "
                    "share the memory of a scope that was filled with converted arrays"
                )
        return self

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        if local_metadata.get("assign_to_params_buffers"):
            raise ProgramError(
                "Module: load_state_dict must copy into the memory of the scope, got "
                "assign=True; omit it"
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copying and pickling: the parameters, without the scope."""
        left_out = ("scope", "_plans", "_tensors", "_kept", "_structure")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore parameters; a new scope borrows their memory."""
        super().__setstate__(state)
        self._share(ow.Scope())


def _load(program: object, scope: ow.Scope | None, fetches: Any, feeds: Any) -> ow.LoadedProgram:
    if isinstance(program, ow.LoadedProgram):
        if not (scope is fetches is feeds is None):
            raise ProgramError(
                "Module: a LoadedProgram must be the only argument, got a scope, results "
                "or feeds too; pass these with loaded.program"
            )
        loaded = program
    elif isinstance(program, ow.Program):
        scope = ow.default_scope() if scope is None else scope
        named = None if feeds is None else _list_names(feeds)
        loaded = ow.LoadedProgram(program, scope, _list_names(fetches), named)
    else:
        raise ProgramError(
            f"Module: program must be a Program or a LoadedProgram, got {type(program).__name__}"
        )
    if not loaded.fetches:
        raise ProgramError(
            "Module: fetches must name at least one result, got none; pass fetches=[scores]"
        )
    if loaded.device != "cpu":
        raise ProgramError(
            f"Module: the program must run on the host, got one on {loaded.device}; load it without"
            " device="
        )
    return loaded


def _list_names(items: Any) -> list[str]:
    listed = [items] if isinstance(items, (str, ow.Variable)) else items
    named = () if listed is None else listed
    return [item if isinstance(item, str) else item.name for item in named]


def _without_updates(loaded: ow.LoadedProgram, is_training: bool) -> ow.Program:
    """Return the program that computes the results for training or inference, without updates."""
    program: ow.Program = loaded.program.clone(for_inference=not is_training)
    return program.prune([spec.name for spec in loaded.fetches])


def _read_tensor(scope: ow.Scope, name: str) -> Tensor:
    """Return a variable as a tensor that shares its memory."""
    variable = scope.find_var(name)
    if variable is None or not variable.is_set:
        raise ProgramError(
            f"Module: the scope must have a value for {name!r}, got none; run the startup "
            "program in the scope first"
        )
    if variable.device != "cpu":
        raise ProgramError(
            f"Module: {name!r} must be on the host, got {variable.device}; set it from an array"
        )
    try:
        memory = variable.tensor().__dlpack__()  # DLPack has no flag for read-only memory
    except BufferError:
        raise ProgramError(
            f"Module: {name!r} must be in writable memory, got read-only memory; set it from a copy"
        ) from None
    with torch.inference_mode(False):
        tensor: Tensor = torch.from_dlpack(memory)
    return tensor


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} on {tensor.device}"


def _describe_names(names: Sequence[str], args: Sequence[Any], feeds: Mapping[str, Any]) -> str:
    """Return the message for an error in the feeds of a call."""
    rule = f"Module: a call must have the feeds {', '.join(map(repr, names)) or 'none'}"
    unknown = [name for name in feeds if name not in names]
    if unknown:
        return f"{rule}, got {unknown[0]!r}{hint(unknown[0], names)}"
    if len(args) > len(names):
        return f"{rule}, got {len(args)} by position"
    twice = [name for name in names[: len(args)] if name in feeds]
    if twice:
        return f"{rule}, got {twice[0]!r} by position and by name"
    missing = [name for name in names[len(args) :] if name not in feeds]
    return f"{rule}, got none for {', '.join(map(repr, missing))}"
