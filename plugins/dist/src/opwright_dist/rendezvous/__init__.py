"""The rendezvous of the processes of one run: a server in the launcher, and its clients."""

from __future__ import annotations

from opwright_dist.rendezvous.joining import join, unreachable
from opwright_dist.rendezvous.peer import MalformedError, Peer
from opwright_dist.rendezvous.server import Meeting, Server

__all__ = ["MalformedError", "Meeting", "Peer", "Server", "join", "unreachable"]
