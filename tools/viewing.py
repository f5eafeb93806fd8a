"""Opens a graph in Netron."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable

from ..graph.runtime.libraries import library
from ..ops.errors import ArgumentError
from .graph_files import GraphFile, with_shapes

HOST = "localhost"
LARGEST_PORT = 2**16 - 1
RECOGNISED = (".onnx", ".json")
"""Netron takes a file for ONNX by its ending, and for a oneDNN graph by that and by the keys `version` and `graph`."""


def view(file: GraphFile, port: int, *, browse: bool, say: Callable[[str], None]) -> None:
    """Serves a graph's page on this machine until it is interrupted.

    Args:
        file: whatever its name ends in. JSON has to be a graph; of ONNX models, those that can't be imported are shown
            too.
        port: 0 for any that is free.
        browse: whether to open the page in a browser.
        say: told where the page is.

    Raises:
        UnsupportedError: Netron is not installed.
        ArgumentError: the port can't be used.
        OneDNNGraphError: the file can't be read, or is no graph.
        KeyboardInterrupt: it is interrupted.
    """
    netron = library("netron", "view", "view")
    content = bytearray(file.whole())
    if not file.is_onnx:
        with_shapes(file.graph(), {}, file.name)
    ending = RECOGNISED[not file.is_onnx]
    name = file.name if file.name.lower().endswith(ending) else f"{file.name}{ending}"
    _check_port(port)
    logging.getLogger("netron").setLevel(logging.WARNING)  # what it would say is said here
    try:
        host, chosen = netron.serve(name, content, address=(HOST, port or None), browse=browse)
    except OSError as error:
        raise _unusable(port, error) from error
    say(f"Ctrl-C ends. {file.name} is shown at http://{host}:{chosen}")
    try:
        threading.Event().wait()
    finally:
        netron.stop((host, chosen))


def _check_port(port: int) -> None:
    """Some versions of Python let two servers share a port, and it would be chance whose page is shown."""
    if not 0 <= port <= LARGEST_PORT:
        raise ArgumentError(f"--port must be between 0 and {LARGEST_PORT}, got {port}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise _unusable(port, error) from error


def _unusable(port: int, error: OSError) -> ArgumentError:
    what = f"port {port} can't be used" if port else "no port can be used"
    return ArgumentError(f"{what}: {error.strerror or error}; choose another with --port")
