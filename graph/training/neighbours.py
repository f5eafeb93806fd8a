"""Connections of a process to the one before it and the one after it, in a ring of all that train together.

They carry a few words about who is there, nothing of the training. A process that ends closes them, however it ends.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import field

from ...ops.records import define

Exchange = Callable[[str], tuple[str, str]]
"""Gives a text to the process before and the one after, and returns theirs; all call it together."""

CONNECT_SECONDS = 10.0
"""After which a neighbour that can't be reached is given up."""
STOPPED = "TtZXx"
"""States of a process, as /proc tells them, in which it does nothing any more."""
ANYWHERE = ("203.0.113.1", 9)
"""An address of nobody; which way would lead there tells the address by which this machine is known outside."""


@define
class Neighbour:
    """The next process on one side.

    Attributes:
        rank: its number.
        heard: when it last said something, in the time of who listens.
        left: whether it has said that it ends.
        gone: whether the connection is closed.
    """

    rank: int
    _socket: socket.socket
    _process: int | None = None
    heard: float = 0.0
    left: bool = False
    gone: bool = False
    _unread: bytes = field(default=b"", init=False)

    def fileno(self) -> int:
        """Of its socket, for selectors."""
        return self._socket.fileno()

    def say(self, word: object = None) -> None:
        """Sends a word, or a sign of life. What the other side does not take is dropped, for it will be found out."""
        line = b"\n" if word is None else json.dumps(word).encode() + b"\n"
        try:
            self._socket.sendall(line)
        except BlockingIOError:  # it has read nothing for long
            pass
        except OSError:
            self.gone = True

    def words(self) -> list[Any]:
        """What it has said since, None for a mere sign of life; sees whether it is gone."""
        while not self.gone:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.gone = not data
            self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) if line else None for line in lines]

    def runs(self) -> bool:
        """Whether the system says that its process runs, however silent it is; False where that can't be asked."""
        if self._process is None:
            return False
        try:
            told = Path(f"/proc/{self._process}/stat").read_text("utf-8")
        except OSError:
            return False
        return told.rpartition(")")[2].split()[0] not in STOPPED

    def close(self) -> None:
        """Closes the connection."""
        self.gone = True
        self._socket.close()


def here() -> list[str]:
    """What two processes have in common that reach each other by the loopback; the last, that do in /proc too."""
    found = [socket.gethostname()]
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip())
    for name in ("net", "pid"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/ns/{name}"))
    return found + [""] * (4 - len(found))


def connected(
    ranks: tuple[int, int], exchange: Exchange, seconds: float = CONNECT_SECONDS
) -> tuple[Neighbour, Neighbour]:
    """The process before this one and the one after it.

    Args:
        ranks: their numbers.
        exchange: called twice, whatever happens.
        seconds: after which it gives up.

    Raises:
        OSError: one can't be reached.
    """
    mine = here()
    before, after = (json.loads(text) for text in exchange(json.dumps(mine)))
    local = before[:3] == mine[:3]
    secret = secrets.token_hex(16)
    failed: OSError | None = None
    listener: socket.socket | None = None
    try:
        listener = socket.create_server(("127.0.0.1" if local else "", 0))
    except OSError as error:
        failed = error
    port = listener.getsockname()[1] if listener is not None else 0
    addresses = ["127.0.0.1"] if local else _addresses()
    said = exchange(json.dumps([addresses, port, secret, os.getpid()]))
    if listener is None:
        raise failed or OSError("no socket")
    with listener:
        *_, behind = json.loads(said[0])
        theirs, their_port, their_secret, ahead = json.loads(said[1])
        until = time.monotonic() + seconds
        outward = _reach(theirs, their_port, their_secret, until)
        try:
            inward = _accept(listener, secret, until)
        except OSError:
            outward.close()
            raise
    return (
        Neighbour(ranks[0], inward, behind if before == mine else None),
        Neighbour(ranks[1], outward, ahead if after == mine else None),
    )


def _addresses() -> list[str]:
    """By which others may reach this machine."""
    found = [socket.getfqdn(), socket.gethostname()]
    with suppress(OSError):
        found += [str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(ANYWHERE)  # of datagrams: nothing is sent
        found.append(probe.getsockname()[0])
    return [one for one in dict.fromkeys(found) if not one.startswith(("127.", "localhost"))]


def _reach(addresses: list[str], port: int, secret: str, until: float) -> socket.socket:
    failed = OSError("it listens nowhere")
    for address in addresses if port else []:
        try:
            one = socket.create_connection(
                (address, port), max(until - time.monotonic(), 0.1) / len(addresses)
            )
            one.sendall(secret.encode())
        except OSError as error:
            failed = error
        else:
            return _ready(one)
    raise failed


def _accept(listener: socket.socket, secret: str, until: float) -> socket.socket:
    """The connection of the one that knows the secret; whoever else calls is turned away."""
    while True:
        listener.settimeout(max(until - time.monotonic(), 0.1))
        one, _ = listener.accept()
        one.settimeout(1.0)
        said = b""
        with suppress(OSError):
            while len(said) < len(secret):
                more = one.recv(len(secret) - len(said))
                if not more:
                    break
                said += more
        if secrets.compare_digest(said, secret.encode()):
            return _ready(one)
        one.close()


def _ready(one: socket.socket) -> socket.socket:
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setblocking(False)
    return one
