"""Questions to the HTTP API of a forge: JSON both ways, with a token that goes to one address and is never shown."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urlencode, urlsplit

from dpcli import __version__
from dpcli.document.document import visible
from dpcli.errors import InputError
from dpcli.values import dataclass

LONGEST = 1 << 27  # bytes of an answer: a page of comments of a million characters each, all of them escaped
SAID = 200  # characters of what a server says is wrong
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


@dataclass(frozen=True, slots=True)
class ApiClient:
    """An API at an address. patience: seconds that the server may be silent, and that an answer may take to arrive.

    hint: what to do where the server refuses the token.
    """

    root: str
    token: SecretToken = field(repr=False)
    patience: float
    hint: str

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
            with urllib.request.build_opener(_Stay).open(request, timeout=self.patience) as answer:
                text = _whole(answer, time.monotonic() + self.patience)
        except urllib.error.HTTPError as error:
            raise InputError(self._refusal(where, error)) from None
        except TimeoutError:
            raise InputError(f"{where}: no answer within {self.patience:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            late = isinstance(reason, TimeoutError)
            why = f"no answer within {self.patience:g} s" if late else f"no answer: {self._said(str(reason))}"
            raise InputError(f"{where}: {why}") from None
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise InputError(f"{where}: expected JSON, found {self._said(repr(text[:40]))}") from None

    def _refusal(self, where: str, error: urllib.error.HTTPError) -> str:
        with error:
            try:
                found = json.loads(_whole(error, time.monotonic() + self.patience))
            except (OSError, http.client.HTTPException, InputError, ValueError, RecursionError):
                found = None
        message = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
        said = f": {self._said(message if isinstance(message, str) else json.dumps(message))}" if message else ""
        if 300 <= error.code < 400:
            return f"{where}: expected an answer, found a redirect ({error.code}), which is not followed: it would take the token along"
        hint = f"; {self.hint}" if error.code in (401, 403, 404) else ""
        return f"{where}: {error.code}{said}{hint}"

    def _said(self, text: str) -> str:
        """What somebody else says, in one line, without the token."""
        return visible(text.replace(self.token.value, "***"))[:SAID]


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
