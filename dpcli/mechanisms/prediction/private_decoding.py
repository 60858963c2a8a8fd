"""Private text generation: a language model writes a text from private examples, with each token drawn from clipped, averaged logits.

A token is one choice by the exponential mechanism, whose scores are the logits. So it costs as much as a choice of bounded range
(`BoundedRange`, choice/exponential.py). A step is one token, or one token and the noisy comparisons before it, which have a pure epsilon
(`Pure`). `PrivateDecodingSpec` proves that they add up. All numbers are rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, Key
from dpcli.base.premise import DRAWN, SECRET, Premises, moves
from dpcli.base.values import dataclass
from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.pure_and_approx import Pure

LEAST_EPSILON = 1e-300  # soundness: least epsilon of a token; a smaller one might underflow to 0
# Soundness: the factors 1 + 1e-15 and 1 + 2e-15 below exceed the rounding of the few operations of each epsilon.


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDecodingSpec(Spec):
    """The next token of a text, drawn from softmax(logits / temperature) with logits from private and public contexts.

    The logits are those of a public context plus a mean of contributions. Each private context of a batch contributes the difference
    between its logits and the public ones, with each token's difference clipped to [-clip, clip]. The sum is divided by `references`, so an
    empty place of the batch contributes 0. references is public and fixed, and does not depend on how many records are in the batch.

    A step is one token. All records of a unit are in the same batch. The batch depends on that unit alone, by a hash, so that a change
    affects the texts of one batch only. The number of steps is the number of tokens of all texts of one batch. It is fixed before the data
    are read.

    With threshold and scale, a token for which private and public contexts nearly agree is drawn from the public context, and costs
    nothing. The distance of the contexts is f = |sum of the private contexts' distributions / references - the public distribution|_1 / 2.
    An empty place of the batch contributes 0. A step is then one private token, with all comparisons before it. A bar is drawn,
    threshold + Exp(scale), and each token is private with probability min(1, e^{-(bar - f) / scale}). After a private token, the next step
    draws a new bar. The number of steps is the largest number of private tokens of one batch, fixed before the data are read. The number of
    public tokens between them may depend on the data.

    Neighbours: under add-remove and zero-out, each record of the unit or group moves a logit by at most clip / references, and f by at most
    half of 1 / references, because a distribution adds up to 1. Under replace-one both moves are twice as large.

    Bounds: upper. One token is the exponential mechanism. Its loss lies in an interval of length 2 (move of a logit) / temperature (bounded
    range), hence rho <= (clip / (references temperature))^2 / 2 for one record. Finite at delta = 0.

    The comparisons of a step are (3 (move of f) / scale)-DP, whatever their number. Let f move by at most d, to f'. Compare each bar with
    bar + d, whose density is e^{d / scale} times smaller. A token that was public is still public with at least the same probability,
    because f' <= f + d. The token that was private is still private with at least e^{-2 d / scale} times the probability, because
    f' >= f - d. Exponential noise, which is never negative, suffices, because bars are only raised. The distribution of a public token
    depends on no record. Then the private token of the step is drawn. The bounds of the comparisons and of the token add up, and so do the
    bounds of the steps, whatever the earlier tokens were (adaptive composition).

    Source: Amin, Bie, Kong, Kurakin, Ponomareva, Syed, Terzis, Vassilvitskii 2024, arXiv:2407.12108 (clipped logits, tokens of the public
    model); Vinod, Pillutla, Thakurta 2025, arXiv:2507.02974 (what a private context adds to a public one); Dong, Durfee, Rogers 2020,
    arXiv:1909.13830 (bounded range); exponential noise for above threshold: Liu, Wang, Liu, Li, Chen 2024, arXiv:2407.20068.
    """

    example: ClassVar[Mapping[str, Any]] = {"clip": 1.0, "references": 100, "temperature": 1.0}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves(
            "The batch of a unit depends on that unit alone; references and the public contexts depend on no record.", "generate"
        ),
        DRAWN,  # a token is drawn at random, and nothing else reads the models
    )

    clip: Annotated[float, Key("largest change of a logit by one private context", POSITIVE)]
    # claim=True: dpcli does not enforce what the key states.
    references: Annotated[
        int,
        Key(
            "public number by which the sum over a batch's private contexts is divided, whatever their number is", COUNT, claim=True
        ),
    ]
    temperature: Annotated[float, Key("temperature of the softmax from which a token is drawn", POSITIVE)] = 1.0
    threshold: Annotated[
        float | None,
        Key(
            "distance, from 0 to 1, of the private and public predictions below which a token is drawn from the public ones, up to noise; "
            "without it, all tokens are private",
            NON_NEGATIVE,
        ),
    ] = None
    scale: Annotated[
        float | None, Key("mean of the exponential noise on the threshold and on each distance; needs threshold", POSITIVE)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.threshold is None) != (self.scale is None):
            missing_key = "scale" if self.scale is None else "threshold"
            yield missing_key, "threshold and scale together, because a distance is compared with noise", f"no {missing_key}"

    @property
    def sampling_refusal(self) -> str:
        return "whose batches are fixed by each unit alone"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        logit_move = neighbours.contribution_bounds * self.clip / self.references  # 1 bound per record, or 2 if it is replaced
        token = BoundedRange(max(2.0 * logit_move / self.temperature * (1.0 + 1e-15), LEAST_EPSILON))
        if self.scale is None:
            return token
        distance_move = 0.5 * neighbours.contribution_bounds / self.references
        comparisons = Pure(max(3.0 * distance_move / self.scale * (1.0 + 2e-15), LEAST_EPSILON))
        return Composed(((comparisons, 1), (token, 1)))
