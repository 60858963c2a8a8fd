"""What a model is asked, and what it says. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.base.errors import InputError

Answer = str | float | int


@dataclass(frozen=True, slots=True)
class ModelInput:
    """source: digits, a file or module:function; None where there are prompts alone. tokens, temperature, seed: of text that is written."""

    source: str | None
    prompts: tuple[str, ...] = ()
    tokens: int = 64
    temperature: float = 1.0
    seed: int | None = None

    def one_source(self) -> str:
        """Records, for a model that reads no text."""
        if self.source is None or self.prompts:
            raise InputError("--prompt: expected DATA, as the model reads numbers and no text, found a prompt")
        return self.source


@dataclass(frozen=True, slots=True)
class Predictions:
    """A row for each record or prompt, in their order. brief: of so many columns a table is made; csv and json have all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Answer, ...], ...]
    brief: int


def classified(probabilities: list[list[float]], labels: list[str] | None) -> Predictions:
    """The likeliest label of each record, and every label's probability. labels: their names; None where they are numbers."""
    width = len(probabilities[0]) if probabilities else 0
    columns = ("row", "label", "probability", *(f"p_{number}" for number in range(width)))
    rows = []
    for place, row in enumerate(probabilities, 1):
        best = max(range(width), key=row.__getitem__)
        rows.append((place, best if labels is None else labels[best], row[best], *row))
    return Predictions(columns, tuple(rows), 3)
