"""DataParallel: how a program trains in several processes, connected by another package.

That package, such as ``opwright_dist``, has an entry point in the group
``opwright_nn.processes``. The package is imported only when data-parallel training is requested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

import opwright as ow
from opwright.errors import MissingRequirementError, ProgramError
from opwright.plugin import import_object, scan
from opwright_nn import arguments, checks

PROVIDERS: Final = "opwright_nn.processes"
"""The entry-point group; entries have any name and refer to a `Processes`, module or object."""

WORLD: Final = "world"
"""The group of all processes."""

UNEQUAL_ROWS: Final = ("refuse", "weight")

_SHARD: Final = "dist.shard"
_DIVIDED: Final = "dist.divided"
_AVERAGE: Final = "dist.all_reduce"

Pair = tuple[ow.Variable, ow.Variable]


class Processes(Protocol):
    """The interface of a package that connects processes; group "world" contains all of them."""

    def rank(self, group: str) -> int:
        """Return the rank of this process in a group, or -1 if it is not a member."""

    def size(self, group: str) -> int:
        """Return the number of processes of a group."""

    def gather(self, data: bytes, group: str) -> list[bytes]:
        """Return the values of all processes of a group, in the order of ranks."""

    def run_on_root(self, function: Callable[[], object], group: str | Sequence[str]) -> None:
        """Call a function in the first process of groups; all others wait, or raise its error."""

    def data_parallel(
        self,
        pairs: Sequence[Pair],
        group: str,
        *,
        unequal_rows: str,
        shard_optimizer: bool,
    ) -> list[Pair]:
        """Append the mean of gradients over a group's processes, or each process's shard of it."""

    def share_startup(
        self, startup: ow.Program, group: str, *, program: ow.Program | None = None
    ) -> None:
        """Append to a startup program the broadcast of the first process's initial values."""

    def broadcast_state(
        self, program: ow.Program, scope: ow.Scope | None, group: str, *, device: str = "cpu"
    ) -> None:
        """Broadcast the persistable variables of the first process to all processes."""

    def whole_program(self, program: ow.Program) -> ow.Program:
        """Return a program with the variables of a single process."""

    def gather_state(self, program: ow.Program, scope: ow.Scope | None) -> ow.Scope:
        """Return a scope with unsharded variables, in the first process; all processes call it."""

    def shard_values(self, program: ow.Program, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return unsharded variables in the form that this process stores."""


@arguments.suggest
class DataParallel(NamedTuple):
    """How several processes train together; ``data_parallel=True`` means the defaults.

    Attributes
    ----------
    group : str
        The processes: all of them, or a group that `opwright_dist.new_group` made.
    unequal_rows : str
        If processes have unequal numbers of examples in a step, ``"weight"`` weights each by its
        number, as if one process had the complete batch; ``"refuse"`` ends the run with an error,
        and saves a small message in each step.
    shard_optimizer : bool
        True shards optimizer states and updates: each process holds one shard, updates this shard
        of the parameters, and gathers the rest (ZeRO-1). The numbers are the same as with
        False.
    """

    group: str = WORLD
    unequal_rows: str = "weight"
    shard_optimizer: bool = False


class Team(NamedTuple):
    """The processes of a group, and their connection.

    Attributes
    ----------
    processes : Processes
    group : str
    """

    processes: Processes
    group: str

    @property
    def rank(self) -> int:
        """The rank of this process in the group."""
        return self.processes.rank(self.group)

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.processes.size(self.group)

    def gather(self, value: object) -> list[Any]:
        """Gather a JSON value from each process; all processes call it."""
        data = json.dumps(value).encode()
        return [json.loads(each) for each in self.processes.gather(data, self.group)]


def check_data_parallel(who: str, value: object) -> DataParallel | None:
    """Return how a program trains in several processes, or None for None and False.

    A package that connects the processes must be installed, and the group must exist.

    Parameters
    ----------
    who : str
        The caller, for messages.
    value : bool, str, DataParallel or None
        True means all processes, a str the processes of that group.
    """
    if value is None or value is False:
        return None
    if not isinstance(value, DataParallel):
        value = DataParallel(check_group(who, "data_parallel", value))
    checks.check_str(who, "group", value.group)
    checks.check_choice(who, "unequal_rows", value.unequal_rows, UNEQUAL_ROWS)
    checks.check_bool(who, "shard_optimizer", value.shard_optimizer)
    find_team(who, value.group)
    return value


def check_group(who: str, name: str, value: object) -> str:
    """Return the name of a group; True means all processes."""
    return WORLD if value is True else checks.check_str(who, name, value)


def find_team(who: str, group: str) -> Team:
    """Return the processes of a group.

    Raises
    ------
    MissingRequirementError
        No installed package connects processes.
    """
    found = sorted(scan(group=PROVIDERS), key=lambda point: point.name)
    if not found:
        raise MissingRequirementError(
            f"{who}: a package that connects processes must be installed, got none; run: "
            "pip install opwright-dist opwright-mpi"
        )
    team = Team(cast(Processes, import_object(found[0].target)), group)
    if team.rank < 0:
        raise ProgramError(
            f"{who}: this process must belong to the group, got {group!r}, of which it is not a "
            "member; run another program in this process, or choose another group"
        )
    return team


def find_program_team(who: str, program: ow.Program | None) -> Team | None:
    """Return the processes over which a program averages its gradients, or None."""
    for op in () if program is None else program.global_block().ops:
        if op.type == _SHARD or (op.type == _AVERAGE and op.input("rows")):
            return find_team(who, cast(str, op.attrs["group"]))
    return None


def average(who: str, parallel: DataParallel | None, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Append the mean of gradients over the processes; return the pairs unchanged for None."""
    if parallel is None:
        return pairs
    team, choices = find_team(who, parallel.group), parallel._asdict()
    return team.processes.data_parallel(pairs, **choices)


def find_divided(program: ow.Program) -> dict[str, str]:
    """Return the parameters that processes divide, each with its group."""
    return {
        name: cast(str, op.attrs["group"])
        for op in program.global_block().ops
        if op.type == _DIVIDED
        for name in op.input("parts")
    }


def _find_teams(who: str, program: ow.Program | None) -> list[Team]:
    """Return all teams that average gradients or divide layers of a program."""
    averaging = find_program_team(who, program)
    groups = [] if averaging is None else [averaging.group]
    groups += [] if program is None else find_divided(program).values()
    return [find_team(who, group) for group in dict.fromkeys(groups)]


def save_once(
    who: str,
    program: ow.Program,
    scope: ow.Scope | None,
    save: Callable[[ow.Program, ow.Scope | None], object],
) -> None:
    """Save in one of the processes that train a program together; the other processes wait.

    `save` gets the program and the scope of an equivalent single process.
    """
    teams = _find_teams(who, program)
    if not teams:
        save(program, scope)
        return
    processes, whole, state = teams[0].processes, program, scope
    if has_parts(program):
        whole, state = processes.whole_program(program), processes.gather_state(program, scope)
    groups = [team.group for team in teams]
    processes.run_on_root(lambda: save(whole, state), groups if len(groups) > 1 else groups[0])


def has_parts(program: ow.Program) -> bool:
    """Return whether each process has only a shard of some variables of a program."""
    return any(op.type in {_SHARD, _DIVIDED} for op in program.global_block().ops)


def whole_program(who: str, program: ow.Program) -> ow.Program:
    """Return a program with the variables of a single process, as stored in files."""
    team = _find_dividing_team(who, program)
    return program if team is None else team.processes.whole_program(program)


def _find_dividing_team(who: str, program: ow.Program) -> Team | None:
    return _find_teams(who, program)[0] if has_parts(program) else None


def own_values(who: str, program: ow.Program, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert named unsharded arrays to the form of a program's variables, which may be shards."""
    team = _find_dividing_team(who, program)
    return dict(values) if team is None else team.processes.shard_values(program, values)


def check_alike(
    who: str, program: ow.Program | None, what: str, describe: Callable[[], object]
) -> None:
    """Raise ProgramError unless all processes that train together return the same `describe()`.

    Parameters
    ----------
    who, what : str
        The caller, and the name of the comparison, for messages.
    program : Program, optional
        Determines the processes.
    describe : callable
        Returns a value of JSON types.
    """
    teams = [team for team in _find_teams(who, program) if team.size > 1]
    own = describe() if teams else None
    for team in teams:
        values = team.gather(own)
        for rank, other in enumerate(values):
            if other != values[0]:
                raise ProgramError(
                    f"{who}: all processes must read the same {what}, got {values[0]} on rank 0 "
                    f"and {other} on rank {rank}; give a folder that all of them share"
                )
