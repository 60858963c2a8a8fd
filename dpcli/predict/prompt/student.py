"""The student: the prompt of publicly known texts with noisy labels that agrees best with the other noisy labels.

It reads nothing but what was released, so that it costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.predict.prompt.labeller import Labeller
from dpcli.predict.prompt.prompts import Demonstration, Shape, in_turn


@dataclass(frozen=True, slots=True)
class Student:
    """agreement: share of the other noisy labels that the prompt gives; None where there are no others."""

    demonstrations: tuple[Demonstration, ...]
    agreement: float | None


def student(
    answered: Sequence[Demonstration], shape: Shape, labeller: Labeller, candidates: int, size: int, labels: int
) -> Student:
    """The best of so many candidates with `size` demonstrations each; the empty prompt where nothing was answered."""
    best = Student((), None)
    for chosen in _candidates(answered, candidates, size, labels):
        others = [one for one in answered if one not in chosen]
        texts = [(shape.prompt(chosen, text), label) for text, label in others]
        if not all(labeller.fits(text) for text, _ in texts):
            continue
        right = sum(labeller.label(text) == label for text, label in texts)
        found = Student(chosen, right / len(others) if others else None)
        if best.agreement is None or (found.agreement or 0.0) > best.agreement:
            best = found
    return best


def _candidates(answered: Sequence[Demonstration], count: int, size: int, labels: int) -> list[tuple[Demonstration, ...]]:
    """Different choices, each by the answered texts in an order of its own: a hash of them, as nothing here needs to be secret."""
    found = []
    for number in range(4 * count):
        ordered = sorted(answered, key=lambda one: hashlib.sha256(f"{number} {one[0]}".encode("utf-8", "surrogatepass")).digest())
        found.append(tuple(in_turn(ordered, labels)[:size]))
    return list(dict.fromkeys(choice for choice in found if choice))[:count]
