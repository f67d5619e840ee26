"""Messages to systemd, if it started the server: ready, stopping, and watchdog messages while it is healthy."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class Supervisor:
    """Client of sd_notify(3).

    Attributes:
        listens: whether there is a supervisor.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.listens = bool(address) and hasattr(socket, "AF_UNIX")

    def tell(self, state: str) -> None:
        """Send READY=1, WATCHDOG=1 and the like; errors are ignored."""
        if self.listens:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
                end.setblocking(False)
                end.sendto(state.encode(), self._address)
