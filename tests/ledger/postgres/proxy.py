"""A proxy between a client and a server of PostgreSQL, which cuts the connection after a number of messages, or stops passing them on.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html: a type of one byte, a length of four that counts itself; the
first message of a client has no type.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.ledger.conftest import OWNER, Database

UP, DOWN = "to the server", "to the client"
SECOND = 0.03  # for the server to finish what it was asked, where its answer is what is cut
READY = b"Z\0\0\0\5I"  # ReadyForQuery, outside of a transaction: the connection stands


class Proxy(threading.Thread):
    """A proxy on a socket in `folder`, to the server of a database.

    Attributes:
        url: The database, through the proxy.
        frozen: Nothing is passed on while it is set.
        messages: Number of messages that passed in each direction since `arm`.
    """

    def __init__(self, folder: Path, database: Database, frozen: bool = False, freeze_when_ready: bool = False) -> None:
        super().__init__(daemon=True)
        self.real, self.freeze_when_ready = database.cluster.folder, freeze_when_ready
        self.url = replace(database.cluster, folder=str(folder)).url(database.name, OWNER)
        self.listener, self.lock, self.frozen = socket.socket(socket.AF_UNIX), threading.Lock(), threading.Event()
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen(64)
        if frozen:
            self.frozen.set()
        self.arm(UP, None)
        self.start()

    def arm(self, way: str, most: int | None, half: bool = False) -> None:
        """Cut the connection once, instead of passing on the message after `most` messages in one direction, or after half of it."""
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
                    while self.frozen.is_set():
                        time.sleep(0.02)
                    if self.is_cut(way):
                        time.sleep(SECOND if way == DOWN else 0.0)
                        other.sendall(message[: len(message) // 2] if self.half else b"")
                        raise OSError
                    other.sendall(message)
                    if self.freeze_when_ready and message == READY:
                        self.frozen.set()
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def is_cut(self, way: str) -> bool:
        with self.lock:
            now = not self.cut and way == self.way and self.messages[way] == self.most
            self.cut |= now
            self.messages[way] += 1
            return now
