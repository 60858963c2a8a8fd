"""A client of a forge's HTTP API. A *forge* is a server for pull requests, such as GitHub or GitLab.

forge.py makes an `ApiClient` for one forge, and gets JSON or an InputError for each call. The token is sent to one address only, redirects
are refused, and no message shows the token, even if the server repeats it. If a server asks for a wait, the request is repeated after it
(Retry-After: RFC 9110, section 10.2.3; RFC 6585, section 4).
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import field
from time import sleep
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from dpcli import __version__
from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.document.document import visible

# Limits on what a message repeats of a server's text; chosen by hand, so that a message stays readable.
LONGEST_MESSAGE = 200  # characters of a server's message
LONGEST_EXCERPT = 40  # characters of an answer that is not JSON
LONGEST_WAITS = 120.0  # longest total wait for one request, in seconds; a CI job costs money while it waits
SHORTEST_WAIT = 1.0  # shortest wait, in seconds, for servers that ask for 0
RATE_LIMITED = (403, 429)  # status codes that, with Retry-After, mean that the request was not performed; 403 is GitHub's
LOOPBACK = ("localhost", "127.0.0.1", "::1")
T = TypeVar("T")
OnWait = Callable[[str], None]


class AskedToWait(InputError):
    """A refusal with a request to wait this number of seconds before the next attempt."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


def ignore_wait(_: str) -> None:
    """Do nothing with the message about a wait."""


def seconds_asked(code: int, retry_after: str | None) -> float | None:
    """Return the seconds of the header Retry-After in a rate-limited answer, such as (429, "30") -> 30.0.

    The result is None for another status code, or if there is no header or it has a date: such an answer is a refusal.
    """
    text = retry_after or ""
    # A text of ten digits or more is not read, because its wait is too long anyway.
    if code not in RATE_LIMITED or not (text.isascii() and text.isdecimal() and len(text) < 10):
        return None
    return float(text)


def with_retries(ask: Callable[[], T], on_wait: OnWait) -> T:
    """Return the result of `ask`, which is called again after each wait that the server asks for.

    Each wait is announced by `on_wait`. Raises InputError if the waits together are longer than LONGEST_WAITS.
    """
    left = LONGEST_WAITS
    while True:
        try:
            return ask()
        except AskedToWait as later:
            seconds = max(later.seconds, SHORTEST_WAIT)
            if seconds > left:
                raise InputError(f"{later}; it asks to wait {later.seconds:,.0f} s, and {left:,.0f} s are left to wait") from None
            on_wait(f"{later}; retrying in {seconds:,.0f} s")
            sleep(seconds)
            left -= seconds


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, because they would send the token to another address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SecretToken:
    """A token in a header.

    variable: environment variable of the token, for messages.
    prefix: text before the token in the header, such as "Bearer ".
    """

    variable: str
    header: str
    value: str
    prefix: str = ""

    def __repr__(self) -> str:
        return f"SecretToken({self.variable})"

    def hide_in(self, text: str) -> str:
        """Return the text without the token, in each form in which JSON, Python or a URL would write it."""
        forms = (self.value, json.dumps(self.value)[1:-1], repr(self.value)[1:-1], quote(self.value, safe=""), quote(self.value))
        for form in sorted(forms, key=len, reverse=True):  # the longest first, because a shorter one may be a part of it
            text = text.replace(form, "***")
        return text


@dataclass(frozen=True, slots=True)
class ApiClient:
    """A client of the API at one address.

    root: address of the API, without a slash at its end.
    patience: longest time, in seconds, for which the server may be silent.
    hint: advice for the case that the server refuses the token.
    on_wait: function that is called with a message before each wait.
    """

    root: str
    token: SecretToken = field(repr=False)
    patience: float
    hint: str
    on_wait: OnWait = field(default=ignore_wait, repr=False)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str | int] | None = None
    ) -> Any:
        """Return the server's answer; None if the answer is empty.

        path: path below the root, or a full address on the same server.

        Raises InputError if there is no answer, the answer is an error or not JSON, or the server asks to wait too long.
        """
        address = path if "://" in path else self.root + path
        where = f"{method} {address}"
        request = urllib.request.Request(
            f"{address}?{urlencode(query)}" if query else address,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": f"dpcli/{__version__}",
                self.token.header: self.token.prefix + self.token.value,
            },
            method=method,
        )
        try:
            text = with_retries(lambda: self._answer(where, request), self.on_wait)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise InputError(f"{where}: no answer within {self.patience:g} s") from None
            raise InputError(f"{where}: no answer: {self._line(str(reason))}") from None
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            excerpt = self.token.hide_in(text.decode("utf-8", "replace").replace("\0", ""))[:LONGEST_EXCERPT]
            raise InputError(f"{where}: expected JSON, found {self._line(repr(excerpt))}") from None

    def _answer(self, where: str, request: urllib.request.Request) -> bytes:
        """Return the body of an answer. Raises InputError if it is a refusal, and AskedToWait if the server asks for a later attempt."""
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=self.patience) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            refusal = self._refusal(where, error)
            seconds = seconds_asked(error.code, error.headers.get("Retry-After"))
            raise (InputError(refusal) if seconds is None else AskedToWait(refusal, seconds)) from None

    def _refusal(self, where: str, error: urllib.error.HTTPError) -> str:
        """Return the message about a refusal: its status code, the server's message if there is one, and advice about the token."""
        if 300 <= error.code < 400:
            error.close()
            return f"{where}: a redirect ({error.code}) is not followed, as it would send the token to another address"
        with error:
            try:
                body = json.loads(error.read())
            except (OSError, http.client.HTTPException, ValueError, RecursionError):
                body = None
        refusal = f"{where}: {error.code}"
        message = (body.get("message") or body.get("error")) if isinstance(body, dict) else None
        if message:
            refusal += f": {self._line(message if isinstance(message, str) else json.dumps(message))}"
        # A server answers 404, too, about what the token may not see.
        return f"{refusal}; {self.hint}" if error.code in (401, 403, 404) else refusal

    def _line(self, text: str) -> str:
        """Return a server's message on one line, without the token, which is removed before the text is cut."""
        return visible(self.token.hide_in(text))[:LONGEST_MESSAGE]


def checked_api(text: str, what: str) -> str:
    """Return the address of an API without a slash at its end.

    Raises InputError if the text is not an address, or would send the token unencrypted to another machine. The message repeats nothing
    that may contain a secret.
    """
    expected = f"{what}: expected an address such as https://HOST/PATH"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # the port is read since an invalid one raises ValueError
    except ValueError:
        raise InputError(expected) from None
    if not host or parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(f"{expected}, without a user name, a password or a query")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise InputError(f"{expected}, found {parts.scheme}, which would send the token unencrypted")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise InputError(f"{expected}, in visible ASCII characters")
    return text.rstrip("/")
