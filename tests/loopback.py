"""Run a Python program that may connect to this machine only: python -m tests.loopback PROGRAM
[ARGUMENT ...]

With ONE_ROUND in the environment, a run or race on the page it serves is measured in one round.
Repeated rounds are tested without a browser in tests/visualize/watch/test_job.py and with one in
tests/journeys/test_first_runs.py.
"""

import ipaddress
import os
import runpy
import sys
from typing import Any

EVENTS = ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")


def is_local(host: Any) -> bool:
    """Whether a host name or address is this machine's own."""
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in ("localhost", "", "0.0.0.0"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: refuse every connection, datagram and name look-up that leaves this machine,
    whoever asks."""
    if event not in EVENTS:
        return
    where = arguments[-1] if event in ("socket.connect", "socket.sendto") else arguments[0]
    if isinstance(where, tuple):
        where = where[0]
    elif event in ("socket.connect", "socket.sendto"):
        return  # a socket of the file system
    if not is_local(where):
        print(f"refused: a connection to {where}", file=sys.stderr, flush=True)
        raise OSError(f"refused: a connection to {where}")


if __name__ == "__main__":
    sys.addaudithook(watch)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, ".")
    if os.environ.get("ONE_ROUND"):
        from visualize.run.live import TimedJob

        TimedJob.seconds = lambda *_: 0.0  # type: ignore[method-assign]
    runpy.run_path(sys.argv[0], run_name="__main__")
