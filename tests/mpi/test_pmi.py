"""The PMI server replies correctly and is robust against unauthorized connections."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

import opwright_dist as dist
from opwright_dist.rendezvous import join as connect
from opwright_mpi.pmi import PmiServer, map_nodes, prepare_connection


class Client:
    """A client that exchanges PMI lines with the server."""

    def __init__(self, server: PmiServer, rank: int) -> None:
        variables = server.environment(rank)
        address, token = variables["PMI_PORT"], variables["OPWRIGHT_MPI_TOKEN"]
        self.socket = connect("opwright-mpi", address, token, rank)
        self.socket.settimeout(60)
        self.file = self.socket.makefile("r")
        server.clients.append(self)

    def ask(self, text: str, n_lines: int = 1) -> list[str]:
        self.socket.sendall(text.encode() + b"\n")
        return [self.file.readline().rstrip("\n") for _ in range(n_lines)]


@pytest.fixture
def server() -> Iterator[PmiServer]:
    server = PmiServer([0, 0])
    server.clients = []
    yield server
    server.close()
    for client in server.clients:
        client.file.close()
        client.socket.close()


def join(server: PmiServer, rank: int) -> Client:
    client = Client(server, rank)
    answer = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    assert client.ask("cmd=init pmi_version=1 pmi_subversion=1") == [answer]
    return client


def test_a_value_is_visible_to_other_processes_after_the_barrier(server: PmiServer) -> None:
    first, second = join(server, 0), join(server, 1)
    assert first.ask("cmd=put kvsname=opwright key=a value=(1,2)=3") == [
        "cmd=put_result rc=0 msg=success"
    ]
    first.socket.sendall(b"cmd=barrier_in\n")
    assert second.ask("cmd=barrier_in") == ["cmd=barrier_out rc=0"]
    assert first.file.readline() == "cmd=barrier_out rc=0\n"
    assert second.ask("cmd=get kvsname=opwright key=a")[0].endswith(" value=(1,2)=3")
    assert second.ask("cmd=get kvsname=opwright key=b")[0].startswith("cmd=get_result rc=-1")
    second.ask("cmd=finalize")
    assert (server.joined, server.finalized) == ({0, 1}, {1})


@pytest.mark.parametrize(
    "words",
    [
        b"cmd=get key=PMI_process_mapping\n",
        b"cmd=initack pmiid=1\n",
        b"cmd=init\ncmd=init\n",
        b"cmd=init\ncmd=spawn\n",
        b"cmd=init\ncmd=put key=" + b"x" * 65 + b" value=1\n",
        b"cmd=init\ncmd=put key=a value=" + b"x" * 1025 + b"\n",
        b"cmd=init\n" + b"x" * 100_000,
        b"cmd=init pmi_version=" + b"9" * 5000 + b"\ncmd=" + b"9" * 5000 + b"\n",
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_an_invalid_pmi_message_closes_only_its_own_connection(
    server: PmiServer, words: bytes
) -> None:
    other = join(server, 0)
    client = Client(server, 1)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        client.socket.sendall(words)
        answers = client.file.read().splitlines()
        assert [line for line in answers if not line.startswith("cmd=response_to_init")] == []
    assert other.ask("cmd=get_appnum") == ["cmd=appnum appnum=0 rc=0"]


def test_the_number_of_stored_values_is_limited(server: PmiServer) -> None:
    client = join(server, 0)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for i in range(4000):
            if client.ask(f"cmd=put key={i} value=1") == [""]:
                break
    assert len(server._table) == 3 * 1024
    assert join(server, 1).ask("cmd=get_appnum") == ["cmd=appnum appnum=0 rc=0"]


def test_a_connection_without_the_token_is_refused(server: PmiServer) -> None:
    host, _, port = server.environment(0)["PMI_PORT"].rpartition(":")
    for words in (b"cmd=initack pmiid=1\n", b"cmd=init\n", b"opwright 00 1\n"):
        with socket.create_connection((host, int(port)), timeout=60) as stranger:
            stranger.sendall(words)
            assert stranger.recv(100) in (b"", b"refused\n")
    assert server.joined == set()
    join(server, 1)


def test_a_rank_is_assigned_only_once(server: PmiServer) -> None:
    join(server, 0)
    with pytest.raises(dist.DistError, match="a process of this rank has already joined"):
        Client(server, 0)


def test_processes_on_this_machine_inherit_their_connections() -> None:
    server = PmiServer([0, 0], None)
    variables, connection = server.admit(1)
    with connection, connection.makefile("rw") as file:
        assert variables["PMI_FD"] == str(connection.fileno())
        assert (variables["PMI_RANK"], variables["PMI_SIZE"]) == ("1", "2")
        assert not any("TOKEN" in name for name in variables)
        file.write("cmd=init pmi_version=1 pmi_subversion=1\n")
        file.flush()
        assert file.readline().startswith("cmd=response_to_init")
        server.close()


def test_a_process_without_an_inherited_connection_is_refused() -> None:
    variables = {"OPWRIGHT_MPI_RANK": "0", "OPWRIGHT_MPI_RANKS": "2"}
    with pytest.raises(dist.DistError, match="rank 0 must inherit the connection that its launche"):
        prepare_connection(dict(variables))
    with open(os.devnull) as file:
        named = {**variables, "PMI_FD": str(file.fileno())}
        with pytest.raises(dist.DistError, match=r"got PMI_FD=\d+, which is not a connection; run"):
            prepare_connection(named)


def test_the_server_continues_after_processes_disconnect(server: PmiServer) -> None:
    first = join(server, 0)
    first.socket.sendall(b"cmd=barrier_in\n")
    first.file.close()
    first.socket.close()
    second = join(server, 1)
    second.socket.sendall(b"cmd=barrier_in\n")
    assert second.ask("cmd=get_appnum", 2)[-1] == "cmd=appnum appnum=0 rc=0"


def test_closing_the_server_closes_its_connections(server: PmiServer) -> None:
    client = join(server, 0)
    server.close()
    assert client.file.read() == ""
    server.close()


def test_the_node_map_lists_machines_as_blocks_of_processes() -> None:
    assert map_nodes([0, 0, 1]) == "(vector,(0,1,2),(1,1,1))"
    assert map_nodes([0, 1, 0]) == "(vector,(0,1,1),(1,1,1),(0,1,1))"


def test_an_address_on_another_machine_is_refused() -> None:
    with pytest.raises(dist.DistError, match=r"address must belong to this machine, got '192.0.2"):
        PmiServer([0], "192.0.2.1")


def test_an_abort_is_recorded(server: PmiServer) -> None:
    client = join(server, 1)
    client.socket.sendall(b"cmd=abort exitcode=1\n")
    client.ask("cmd=get_appnum")
    assert server.aborted == {1}
