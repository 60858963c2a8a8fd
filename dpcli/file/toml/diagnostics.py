"""One finding about a file, with the place it was found at, and the error that carries all of them."""

from __future__ import annotations

from typing import Literal

from dpcli.base.values import dataclass

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What a rule says about one key of one file.

    rule: its code in the failure catalogue (DP001...).
    key: dotted path of the key, e.g. "mechanism[2].sampling.rate".
    line, column: 1-based; 0 where the finding has no place.
    source: the source line, as it stands, or "".
    """

    rule: str
    severity: Severity
    message: str
    path: str = "<file>"
    key: str = ""
    line: int = 0
    column: int = 0
    source: str = ""
