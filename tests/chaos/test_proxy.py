"""Who is frozen is who sent the command."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing

from tests.chaos.proxy import process_behind

CONNECT = """
import socket, sys
ours = socket.socket()
ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
ours.bind(("127.0.0.1", int(sys.argv[1])))
ours.connect(("127.0.0.1", int(sys.argv[2])))
sys.stdin.read()
"""


def test_another_process_with_the_same_port_is_not_taken_for_the_sender() -> None:
    anywhere = ("127.0.0.1", 0)
    with (
        closing(socket.create_server(anywhere)) as server,
        closing(socket.create_server(anywhere)) as other,
        closing(socket.socket()) as ours,
    ):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(anywhere)
        ours.connect(other.getsockname())
        ports = [str(end[1]) for end in (ours.getsockname(), server.getsockname())]
        command = [sys.executable, "-c", CONNECT, *ports]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as sender:
            accepted, peer = server.accept()
            with closing(accepted):
                assert peer == ours.getsockname()
                assert process_behind(peer, server.getsockname()) == sender.pid
