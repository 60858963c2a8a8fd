"""Questions to the HTTP API of a forge: JSON both ways, with a token that goes to one address and is never shown."""

from __future__ import annotations

import http.client
import json
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from dpcli import __version__
from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.comments.waiting import AskedToWait, Told, patiently, seconds_asked, silent
from dpcli.document.document import visible

LONGEST = 1 << 26  # bytes of an answer: a page of comments of a million characters each, many of them escaped
MOST = 100_000  # values of an answer: a page of comments has a thousandth of them for each comment
SAID = 200  # characters of what a server says is wrong
SHOWN = 40  # characters of what is no JSON
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
T = TypeVar("T")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the token would go with it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SecretToken:
    """A token as a header. variable: where it comes from, which is all that a message says of it."""

    variable: str
    header: str
    value: str
    prefix: str = ""

    def __repr__(self) -> str:
        return f"SecretToken({self.variable})"

    def hidden(self, text: str) -> str:
        """Text without the token, nor as JSON, Python or an address would write it."""
        escaped = (self.value, json.dumps(self.value)[1:-1], repr(self.value)[1:-1], quote(self.value, safe=""), quote(self.value))
        for one in sorted(escaped, key=len, reverse=True):
            text = text.replace(one, "***")
        return text


@dataclass(frozen=True, slots=True)
class ApiClient:
    """An API at an address. patience: seconds that an answer may take, from the question to its last byte.

    hint: what to do where the server refuses the token. told: is told of each wait that the server asks for.
    """

    root: str
    token: SecretToken = field(repr=False)
    patience: float
    hint: str
    told: Told = field(default=silent, repr=False)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str | int] | None = None
    ) -> Any:
        """What the server answers, None where that is nothing.

        path: below the root, or a whole address of the same server. Raises InputError: no answer, an error, no JSON.
        """
        address = (path if "://" in path else self.root + path) + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(
            address,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": f"dpcli/{__version__}",
                self.token.header: self.token.prefix + self.token.value,
            },
            method=method,
        )
        where = f"{method} {address.partition('?')[0]}"
        try:
            text = patiently(lambda: _within(self.patience, lambda: self._answer(where, request)), self.told)
        except TimeoutError:
            raise InputError(f"{where}: no answer within {self.patience:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            late = isinstance(reason, TimeoutError)
            why = f"no answer within {self.patience:g} s" if late else f"no answer: {self._said(str(reason))}"
            raise InputError(f"{where}: {why}") from None
        try:
            return _parsed(text) if text.strip() else None
        except (ValueError, RecursionError):
            found = self.token.hidden(text.decode("utf-8", "replace").replace("\0", ""))
            raise InputError(f"{where}: expected JSON, found {self._said(repr(found[:SHOWN]))}") from None
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def _answer(self, where: str, request: urllib.request.Request) -> bytes:
        """The body of an answer. Raises InputError where it is a refusal or too long."""
        until = time.monotonic() + self.patience
        try:
            with urllib.request.build_opener(_Stay).open(request, timeout=self.patience) as answer:
                return _whole(answer, until)
        except urllib.error.HTTPError as error:
            refusal, seconds = self._refusal(where, error, until), seconds_asked(error.code, error.headers.get("Retry-After"))
            raise (InputError(refusal) if seconds is None else AskedToWait(refusal, seconds)) from None
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def _refusal(self, where: str, error: urllib.error.HTTPError, until: float) -> str:
        with error:
            try:
                found = _parsed(_whole(error, until))
            except (OSError, http.client.HTTPException, InputError, ValueError, RecursionError):
                found = None
        message = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
        said = f": {self._said(message if isinstance(message, str) else json.dumps(message))}" if message else ""
        if 300 <= error.code < 400:
            return f"{where}: expected an answer, found a redirect ({error.code}), which is not followed: it would take the token along"
        hint = f"; {self.hint}" if error.code in (401, 403, 404) else ""
        return f"{where}: {error.code}{said}{hint}"

    def _said(self, text: str) -> str:
        """What somebody else says, in one line, without the token, which is taken out before anything is cut."""
        return visible(self.token.hidden(text))[:SAID]


def _within(patience: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises. Raises TimeoutError where that takes longer.

    In a thread that nobody waits for: of a name that is looked up, and of headers that drip in, a socket's timeout knows nothing.
    """
    found: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def run() -> None:
        try:
            value = ask()
        except Exception as error:
            failed = error

            def fail() -> T:
                raise failed

            found.put(fail)
        else:
            found.put(lambda: value)

    threading.Thread(target=run, daemon=True).start()
    try:
        answered = found.get(timeout=patience)
    except queue.Empty:
        raise TimeoutError from None
    return answered()


def _parsed(text: bytes) -> Any:
    """JSON. Raises InputError where it has more values than an answer may, ValueError and RecursionError where it is none."""
    bare = TEXT.sub(b"", text)
    if sum(map(bare.count, (b"[", b"{", b","))) > MOST:
        raise InputError(f"expected an answer of at most {MOST:,} values, found more")
    return json.loads(text)


def _whole(answer: Any, until: float) -> bytes:
    """The body, read in pieces. Raises InputError where it is too long, TimeoutError where it takes too long."""
    found = bytearray()
    while piece := answer.read1(1 << 16):
        found += piece
        if len(found) > LONGEST:
            raise InputError(f"expected an answer of at most {LONGEST:,} bytes, found more")
        if time.monotonic() > until:
            raise TimeoutError
    if answer.length:  # what was announced and did not come, which pieces do not tell
        raise http.client.IncompleteRead(bytes(found), answer.length)
    return bytes(found)


def checked_api(text: str, what: str) -> str:
    """The address of an API without a slash at its end.

    Raises InputError for what is no address, or would send the token in the clear to another machine; what may hold a secret is not
    repeated.
    """
    expected = f"{what}: expected an address such as https://HOST/PATH"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InputError(f"{expected}, found none") from None
    if not host or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(f"{expected}, without a name, a password or a query")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise InputError(f"{expected}, found {parts.scheme}, by which the token would be sent in the clear")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise InputError(f"{expected}, in visible ASCII characters")
    return text.rstrip("/")
