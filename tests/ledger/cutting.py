"""Stands between a client and a server of PostgreSQL, and cuts the connection after a number of messages.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html: a type of one byte, a length of four that counts itself; the
first message of a client has no type.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

UP, DOWN = "to the server", "to the client"
SECOND = 0.03  # for the server to finish what it was asked, where its answer is what is cut


class Cuts(threading.Thread):
    """On a socket in `folder`, to the server whose socket is in `real`. messages: how many passed in each direction since `arm`."""

    def __init__(self, folder: Path, real: str) -> None:
        super().__init__(daemon=True)
        self.real, self.listener, self.lock = real, socket.socket(socket.AF_UNIX), threading.Lock()
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen(64)
        self.arm(UP, None)

    def arm(self, way: str, most: int | None, half: bool = False) -> None:
        """Cut, once, in place of the message after so many in one direction; after half of it, where that is asked."""
        with self.lock:
            self.way, self.most, self.half, self.cut = way, most, half, False
            self.messages = {UP: 0, DOWN: 0}

    def run(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{self.real}/.s.PGSQL.5432")
            back = threading.Thread(target=self.pass_on, args=(DOWN, server, client), daemon=True)
            back.start()
            self.pass_on(UP, client, server)
            back.join()

    def pass_on(self, way: str, one: socket.socket, other: socket.socket) -> None:
        kept, typed = b"", 0 if way == UP else 1
        with suppress(OSError):
            while data := one.recv(65536):
                kept += data
                while len(kept) >= typed + 4 and len(kept) >= (end := typed + int.from_bytes(kept[typed : typed + 4], "big")):
                    message, kept, typed = kept[:end], kept[end:], 1
                    if self.is_cut(way):
                        time.sleep(SECOND if way == DOWN else 0.0)
                        other.sendall(message[: len(message) // 2] if self.half else b"")
                        raise OSError
                    other.sendall(message)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def is_cut(self, way: str) -> bool:
        with self.lock:
            now = not self.cut and way == self.way and self.messages[way] == self.most
            self.cut |= now
            self.messages[way] += 1
            return now
