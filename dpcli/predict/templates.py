"""How a context shows a text: with {text} in it once, on as many lines as it likes."""

from __future__ import annotations

from dpcli.base.fields import Constraint, Note

ALONE = Note("{text}")
SHOWING = Constraint(
    "text with {text} in it once",
    lambda x: x.count("{text}") == 1,
    (("pattern", r"^(?![\s\S]*\{text\}[\s\S]*\{text\})[\s\S]*\{text\}"),),
)
