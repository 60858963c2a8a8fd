"""The student: a public prompt, made of public texts with noisy labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from dpcli.predict.prompt.demonstrations import Demonstration, Shape, labels_in_turn
from dpcli.predict.prompt.labellers import Labeller


@dataclass(frozen=True, slots=True)
class Student:
    """The prompt of public texts with noisy labels that agrees best with the other noisy labels.

    It is post-processing of the released labels, and costs no privacy.

    Attributes:
        agreement: Share of the other noisy labels that the prompt reproduces; None if there are no others.
    """

    demonstrations: tuple[Demonstration, ...]
    agreement: float | None


def best_student(
    answered: Sequence[Demonstration], shape: Shape, labeller: Labeller, candidates: int, size: int, labels: int
) -> Student:
    """Return the best of up to `candidates` prompts with up to `size` demonstrations each.

    A prompt is left out if it is too long for the model together with one of the other texts. The empty prompt is returned if no prompt is
    left, or no query was answered.
    """
    best = Student((), None)
    for chosen in _candidates(answered, candidates, size, labels):
        others = [demonstration for demonstration in answered if demonstration not in chosen]
        prompts = [shape.prompt(chosen, other.text) for other in others]
        if not all(map(labeller.fits, prompts)):
            continue
        right = sum(labeller.label(prompt) == other.label for prompt, other in zip(prompts, others, strict=True))
        candidate = Student(chosen, right / len(others) if others else None)
        if best.agreement is None or (candidate.agreement or 0.0) > best.agreement:
            best = candidate
    return best


def _candidates(answered: Sequence[Demonstration], count: int, size: int, labels: int) -> list[tuple[Demonstration, ...]]:
    """Return up to `count` different choices of demonstrations.

    Each choice orders the answered texts by a hash. The choices need not be secret, so that no random stream is needed.
    """
    choices = []
    for number in range(4 * count):  # Several of the orders may begin with the same texts.
        ordered = sorted(answered, key=lambda demonstration: _rank(number, demonstration.text))
        choices.append(tuple(labels_in_turn(ordered, labels)[:size]))
    return list(dict.fromkeys(choice for choice in choices if choice))[:count]


def _rank(number: int, text: str) -> bytes:
    """Return the rank of a text in the order with this number."""
    return hashlib.sha256(f"{number} {text}".encode("utf-8", "surrogatepass")).digest()
