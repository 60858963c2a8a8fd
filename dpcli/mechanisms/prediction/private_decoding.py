"""Text that a language model writes from private examples, token by token: clipped, averaged logits, and the exponential mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.fields import COUNT, POSITIVE, Key
from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import Spec

LEAST = 1e-300  # epsilon of a token: what is less may round to 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDecodingSpec(Spec):
    """The next token of a text, drawn from softmax(logits / temperature), the logits being those of a public context plus the mean over
    `references` of what each private context adds to them, clipped to [-clip, clip] token by token; an empty place of the batch adds 0.

    A step is one token. Which batch a unit's records are in depends on that unit alone (a hash), so that a change meets the texts of one
    batch: steps are the tokens of all texts of one batch, fixed before the data are seen. references is public and fixed, whatever number
    of records fell into the batch. All records of a unit are in the same batch.

    Neighbours: add-remove and zero-out move each logit by clip / references for each record of the unit or group, replace-one by twice as
    much.

    Bounds: upper. One token is the exponential mechanism: its loss lies in an interval of length 2 (move of a logit) / temperature
    (bounded range), hence rho <= (clip / (references temperature))^2 / 2 for one record. Finite at delta = 0.

    Source: Amin, Bie, Kong, Kurakin, Ponomareva, Syed, Terzis, Vassilvitskii 2024, arXiv:2407.12108 (clipped logits); Vinod, Pillutla,
    Thakurta 2025, arXiv:2507.02974 (what a private context adds to a public one); Dong, Durfee, Rogers 2020, arXiv:1909.13830 (bounded
    range).
    """

    example: ClassVar[Mapping[str, Any]] = {"clip": 1.0, "references": 100, "temperature": 1.0}
    evidence: ClassVar[int] = 2

    clip: Annotated[float, Key("most that one private context adds to or takes from a logit", POSITIVE)]
    references: Annotated[
        int,
        Key(
            "private contexts of a batch, whose mean is taken: a public number, whether or not there are as many", COUNT, claim=True
        ),
    ]
    temperature: Annotated[float, Key("of the softmax that a token is drawn from", POSITIVE)] = 1.0

    @property
    def unsampled(self) -> str:
        return "whose batches are fixed by each unit alone"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        moved = neighbours.records * (2.0 if neighbours.replaces else 1.0) * self.clip / self.references
        return BoundedRange(max(2.0 * moved / self.temperature * (1.0 + 1e-15), LEAST))
