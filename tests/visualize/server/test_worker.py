"""A worker process of a GPU that is lent, and the connections of the process that it comes from."""

import os
import signal
import socket
import sys

import pytest

from visualize.server import zero_gpu


@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are lent on Linux")
def test_a_connection_that_the_server_closes_is_closed_although_a_worker_lives() -> None:
    """Oracle: the browser's end, which reads the end of the stream. The worker's own pipe stays."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        browser = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
    here, there = socket.socketpair()
    worker = os.fork()
    if not worker:
        zero_gpu.leave_connections()
        there.sendall(b"left")
        signal.pause()
    try:
        there.close()
        assert here.recv(4) == b"left"
        served.close()
        browser.settimeout(10)
        assert browser.recv(1) == b""
    finally:
        here.close()
        browser.close()
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
