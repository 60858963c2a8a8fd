"""type = "discrete-gaussian": the keys, and what one integer or a vector of integers is priced as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, POSITIVE, Key
from dpcli.base.premise import OWN_NOISE, SECRET, Premises, moves
from dpcli.base.stated import multiple, quotient, squared
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_gaussian_vector import LARGEST, NEAR, Norms, vector_of
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.renyi import Zcdp


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianSpec(Spec):
    """Whole numbers plus discrete Gaussian noise: one integer (sensitivity), or every entry of a vector of integers (l2_sensitivity).

    The noise has probability proportional to e^{-x^2 / (2 sigma^2)} on the integers; sigma is in units of the query and is not quite its
    standard deviation. Sensitivities are taken as stated, under the file's adjacency and unit; only a group multiplies them.

    A vector is not priced as one integer: where a shift of norm 2 is (1, 1, 1, 1), delta can be several times that of 2. It is priced by
    the whole numbers that its norms allow: (1, 1) where l2_sensitivity is 1.41422; (3, 1), (2, 2, 1, 1) and others where it is 3.16228, of
    which linf_sensitivity = 1 leaves ten times 1. A squared norm at most 0.05 below a whole number counts as that number. A sensitivity
    above 1 that dimension does not say to be that of one integer is a vector's, too.

    Neighbours: all three adjacencies; no Poisson sampling under replace-one or zero-out, for want of a bound on one contribution.

    Bounds: exact for one integer (upper above sigma = 2000), and for vectors that one shift stands for; the largest of the pairs of several
    shifts; the Renyi curve D_a <= a l2_sensitivity^2 / (2 sigma^2) where they are too many. No finite epsilon at delta = 0.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorems 4 and 14.
    """

    example: ClassVar[Mapping[str, Any]] = {"sigma": 40.0, "sensitivity": 1}
    evidence: ClassVar[int] = 2
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No change moves the whole numbers by more than is stated, in any of the norms.", "release"),
        OWN_NOISE,
    )

    sigma: Annotated[float, Key("sigma of the noise e^{-x^2/(2 sigma^2)}", POSITIVE)]
    sensitivity: Annotated[
        int | None,
        Key(
            "sensitivity of one integer under the file's adjacency, taken as stated; a vector states l2_sensitivity",
            COUNT,
            claim=True,
        ),
    ] = None
    l2_sensitivity: Annotated[
        float | None,
        Key("L2 sensitivity of a vector of integers under the file's adjacency, instead of sensitivity", POSITIVE, claim=True),
    ] = None
    linf_sensitivity: Annotated[
        int | None,
        Key(
            "the most that one integer of the vector moves, beside l2_sensitivity; as far as that allows where absent",
            COUNT,
            claim=True,
        ),
    ] = None
    l1_sensitivity: Annotated[
        int | None,
        Key("the most that the integers move in all, beside l2_sensitivity; as far as that allows where absent", COUNT, claim=True),
    ] = None
    dimension: Annotated[
        int | None, Key("how many integers are released; 1 says that sensitivity is that of one integer", COUNT, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.sensitivity is None) == (self.l2_sensitivity is None):
            found = "neither" if self.sensitivity is None else "both"
            yield "sensitivity", "either sensitivity (one integer) or l2_sensitivity (a vector of integers)", found
            return
        if self.sensitivity is not None and (self.dimension or 1) > 1:
            yield "dimension", "1 with sensitivity, or l2_sensitivity for a vector", str(self.dimension)
        for key, stated in (("linf_sensitivity", self.linf_sensitivity), ("l1_sensitivity", self.l1_sensitivity)):
            if stated is not None and self.l2_sensitivity is None:
                yield key, "l2_sensitivity beside it, since sensitivity is that of one integer", "sensitivity"
        if self.sigma < 0.05 * self.moved:
            yield "sigma", f"at least sensitivity / 20 = {self.moved / 20.0:g} (less is no privacy)", repr(self.sigma)

    @property
    def moved(self) -> float:
        """The stated sensitivity, of either kind."""
        stated = self.l2_sensitivity if self.sensitivity is None else self.sensitivity
        assert stated is not None
        return stated

    def priced_as_vector(self, group: int) -> bool:
        """Whether the shift may have several coordinates; an integer vector of norm 1 has one."""
        return self.l2_sensitivity is not None or (self.dimension != 1 and group * self.moved > 1.0)

    @property
    def taken_for_vector(self) -> int | None:
        return self.sensitivity if self.priced_as_vector(1) else None

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        group = neighbours.group
        if self.sensitivity is not None and not self.priced_as_vector(group):
            return DiscreteGaussian(self.sigma, self.sensitivity * group)
        if self.moved * group > LARGEST or self.moved**2 + NEAR < 1.0:
            return Zcdp(squared(quotient(multiple(group, self.moved), self.sigma), 2))
        norms = Norms.stated(self.moved, self.linf_sensitivity, self.l1_sensitivity, self.dimension, group)
        found = vector_of(self.sigma, norms)
        return found if group == 1 and norms.squared <= self.moved**2 * (1.0 + 1e-12) else found.unclaimed()
