"""Which rules of the catalogue a waiver may be for: those that leave the number right."""

from __future__ import annotations

from dpcli.file.pipeline.gate_keys import WAIVABLE
from dpcli.file.toml.suggest import did_you_mean
from dpcli.lint.catalogue import RULES, rule


def problem_of(word: str) -> tuple[str, str] | None:
    """(expected, found) where nothing of this name can be waived; the reader has seen to the form of the word."""
    if word in WAIVABLE:
        return None
    if word not in RULES:
        hint = did_you_mean(word, RULES)
        return "the code of a rule", word + (f"; {hint}" if hint else "")
    if rule(word).waivable:
        return None
    return "a rule that can be waived", f"{word}, without which the number itself is wrong"
