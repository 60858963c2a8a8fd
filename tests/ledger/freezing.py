"""Stands between a client and a server of PostgreSQL, and passes nothing on any more once it is frozen."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path


class Freezes(threading.Thread):
    """On a socket in `folder`, to the server whose socket is in `real`."""

    def __init__(self, folder: Path, real: str, frozen: bool = False) -> None:
        super().__init__(daemon=True)
        self.real, self.listener, self.frozen = real, socket.socket(socket.AF_UNIX), threading.Event()
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen()
        if frozen:
            self.frozen.set()

    def run(self) -> None:
        while True:
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{self.real}/.s.PGSQL.5432")
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                while self.frozen.is_set():
                    time.sleep(0.05)
                other.sendall(data)
