"""Text that a language model writes from private examples, token by token: clipped, averaged logits, and the exponential mechanism."""

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
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import Pure

LEAST = 1e-300  # epsilon of a token: what is less may round to 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDecodingSpec(Spec):
    """The next token of a text, drawn from softmax(logits / temperature), the logits being those of a public context plus the mean over
    `references` of what each private context adds to them, clipped to [-clip, clip] token by token; an empty place of the batch adds 0.

    A step is one token. Which batch a unit's records are in depends on that unit alone (a hash), so that a change meets the texts of one
    batch: steps are the tokens of all texts of one batch, fixed before the data are seen. references is public and fixed, whatever number
    of records fell into the batch. All records of a unit are in the same batch.

    With threshold and scale, a token for which private and public contexts say nearly the same is drawn from the public ones, and costs
    nothing. Their distance is f = |sum of the private contexts' distributions / references - the public one|_1 / 2, an empty place of the
    batch adding 0. A step is then one private token, with all comparisons up to it: a bar is drawn, threshold + Exp(scale), and each
    token is private with probability min(1, e^{-(bar - f) / scale}); after a private one the next step draws a bar of its own. steps are
    the most private tokens of one batch, fixed before the data are seen; how many public ones lie between them may depend on the data.

    Neighbours: add-remove and zero-out move each logit by clip / references for each record of the unit or group, and f by half of 1 /
    references, as a distribution adds up to 1; replace-one twice as much, both.

    Bounds: upper. One token is the exponential mechanism: its loss lies in an interval of length 2 (move of a logit) / temperature
    (bounded range), hence rho <= (clip / (references temperature))^2 / 2 for one record. Finite at delta = 0.

    The comparisons of a step are (3 (move of f) / scale)-DP, however many: let f move by at most d, to f'. With bar + d in place of bar,
    whose density is e^{d / scale} times smaller there, each token that was public is so with at least the same probability, since f' <= f
    + d; and the one that was private, since f' >= f - d, with at least e^{-2 d / scale} times the probability. Exponential noise, which is
    never negative, will do, as bars need to be raised only. A public token's distribution depends on no record. Then the step's private
    token is drawn: the bounds of the two add up, and so do those of steps, whatever earlier ones said (adaptive composition).

    Source: Amin, Bie, Kong, Kurakin, Ponomareva, Syed, Terzis, Vassilvitskii 2024, arXiv:2407.12108 (clipped logits, tokens of the public
    model); Vinod, Pillutla, Thakurta 2025, arXiv:2507.02974 (what a private context adds to a public one); Dong, Durfee, Rogers 2020,
    arXiv:1909.13830 (bounded range); exponential noise for above threshold: Liu, Wang, Liu, Li, Chen 2024, arXiv:2407.20068.
    """

    example: ClassVar[Mapping[str, Any]] = {"clip": 1.0, "references": 100, "temperature": 1.0}
    evidence: ClassVar[int] = 2
    premises: ClassVar[Premises] = (
        SECRET,
        moves(
            "The batch of a unit depends on that unit alone; references and the public contexts depend on no record.", "generate"
        ),
        DRAWN,
    )

    clip: Annotated[float, Key("most that one private context adds to or takes from a logit", POSITIVE)]
    references: Annotated[
        int,
        Key(
            "private contexts of a batch, whose mean is taken: a public number, whether or not there are as many", COUNT, claim=True
        ),
    ]
    temperature: Annotated[float, Key("of the softmax that a token is drawn from", POSITIVE)] = 1.0
    threshold: Annotated[
        float | None,
        Key(
            "distance of what private and public contexts say, from 0 to 1, below which a token is drawn from the public ones, as far as "
            "noise allows; all tokens are private where absent",
            NON_NEGATIVE,
        ),
    ] = None
    scale: Annotated[
        float | None, Key("mean of the exponential noise on the threshold, and on each distance; with threshold", POSITIVE)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.threshold is None) != (self.scale is None):
            missing_key = "scale" if self.scale is None else "threshold"
            yield missing_key, "threshold and scale together: a distance is compared with noise", f"no {missing_key}"

    @property
    def unsampled(self) -> str:
        return "whose batches are fixed by each unit alone"

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        moved = neighbours.records * (2.0 if neighbours.replaces else 1.0) * self.clip / self.references
        token = BoundedRange(max(2.0 * moved / self.temperature * (1.0 + 1e-15), LEAST))
        if self.scale is None:
            return token
        further = 0.5 * neighbours.records * (2.0 if neighbours.replaces else 1.0) / self.references
        return Composed(((Pure(max(3.0 * further / self.scale * (1.0 + 2e-15), LEAST)), 1), (token, 1)))
