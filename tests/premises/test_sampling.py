"""Premises of sampling schemes: each is broken by enumeration, and the delta that is claimed is then exceeded."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dpcli.base.registry import SAMPLING
from dpcli.exam.enumeration import additive_noise as noise
from dpcli.exam.enumeration.drawing_records import (
    SCHEMES,
    Array,
    Drawn,
    Records,
    Release,
    Situation,
    WayOfSampling,
    fixed,
    in_order,
    shuffled,
)
from dpcli.exam.enumeration.reference_releases import contribution
from dpcli.exam.enumeration.references import Reference
from tests.premises.broken import exceeds, laws, prices

LITTLE = 0.4  # noise over one contribution, so little that what is known of the sample matters


def gaussian(level: float) -> Reference:
    """Noise of so much of C on a sum of contributions up to C = 1."""
    return Reference("gaussian", {"noise_multiplier": level}, contribution(noise.normal, level))


def exceeded(scheme: str, draws: WayOfSampling, drawn: Drawn, level: float = LITTLE) -> list[bool]:
    """For each adjacency and release: whether another way of drawing loses more than is claimed of `draws`, which loses no more."""
    reference, found = gaussian(level), list[bool]()
    for situation, claims in prices(reference, scheme, draws):
        for release in reference.releases(situation):
            assert not exceeds(*laws(release, situation), claims, draws.passes), situation
            other = Situation(situation.adjacency, replace(draws, drawn=drawn))
            found.append(exceeds(*laws(release, other), claims, draws.passes))
    return found


def of(scheme: str) -> WayOfSampling:
    return SCHEMES[scheme][0]


def published(rate: float) -> Drawn:
    """A Poisson sample whose members but the changing record are known, and so is whether that was drawn where it is there."""

    def drawn(release: Release, records: Records) -> Array:
        rest = tuple(record for record in records if record != "")
        return np.concatenate(((1.0 - rate) * release(()), rate * release(rest)))

    return drawn


def test_a_published_poisson_sample_is_no_sample() -> None:
    assert any(exceeded("poisson", replace(of("poisson"), passes=1), published(0.3), 0.8))


def test_a_published_sample_of_fixed_size_is_no_sample() -> None:
    def drawn(release: Release, records: Records) -> Array:
        return np.concatenate([release((record,)) / len(records) for record in records])

    assert any(exceeded("fixed-size", replace(of("fixed-size"), passes=1), drawn, 0.8))


def test_published_bins_are_no_bins() -> None:
    def drawn(release: Release, records: Records) -> Array:
        places = itertools.product((0, 1), repeat=len(records))
        steps = [
            [tuple(r for r, place in zip(records, chosen, strict=True) if place == step) for step in (0, 1)] for chosen in places
        ]
        both = [np.multiply.outer(release(one), release(two)).ravel() / len(steps) for one, two in steps]
        return np.concatenate([*both, *([np.zeros_like(both[0])] * (2 - len(both)))])

    assert any(exceeded("balls-in-bins", replace(of("balls-in-bins"), passes=1), drawn, 0.8))


def test_bins_of_one_size_are_no_bins() -> None:
    """All records in one step, which is drawn once for all: the steps of two records depend on each other."""

    def drawn(release: Release, records: Records) -> Array:
        nobody = release(())
        return np.asarray(0.5 * (np.multiply.outer(release(records), nobody) + np.multiply.outer(nobody, release(records))).ravel())

    draws = replace(of("balls-in-bins"), passes=1)
    reference, found = gaussian(LITTLE), list[bool]()
    for situation, claims in prices(reference, "balls-in-bins", draws):
        if situation.adjacency == "add-remove":
            for release in reference.releases(situation):
                p, q = (drawn(release, records) for records in (("x", "o", "o"), ("o", "o")))
                found.append(exceeds(p, q, claims))
    assert any(found)


def test_a_shuffled_batch_is_no_poisson_sample() -> None:
    """Each record in one of two batches, in every pass; priced as two Poisson samples of the same rate."""
    reference = gaussian(LITTLE)
    poisson = WayOfSampling("rate .5", {"rate": 0.5}, of("poisson").drawn, steps=2, passes=1)
    found = []
    for situation, claims in prices(reference, "poisson", poisson):
        for release in reference.releases(situation):
            other = Situation(situation.adjacency, replace(of("shuffle"), passes=1))
            found.append(exceeds(*laws(release, other), claims))
    assert any(found)


def test_a_record_that_is_always_drawn_is_not_sampled() -> None:
    def drawn(release: Release, records: Records) -> Array:
        return release(records[:1])

    assert any(exceeded("fixed-size", replace(of("fixed-size"), passes=1), drawn))


def test_poisson_samples_that_are_drawn_once_are_no_samples() -> None:
    """The sample of the first step is used again in the second."""
    draws = WayOfSampling("rate .3", {"rate": 0.3}, of("poisson").drawn, steps=2, passes=1)

    def drawn(release: Release, records: Records) -> Array:
        return of("poisson").drawn(lambda sample: np.multiply.outer(release(sample), release(sample)).ravel(), records)

    reference, found = gaussian(0.8), list[bool]()
    for situation, claims in prices(reference, "poisson", draws):
        other = Situation(situation.adjacency, replace(draws, drawn=drawn))
        found += [exceeds(*laws(release, other), claims) for release in reference.releases(situation)]
    assert any(found)


@pytest.mark.parametrize(("scheme", "drawn"), [("shuffle", shuffled), ("cyclic", in_order)])
def test_a_place_that_is_filled_up_moves_two_batches(scheme: str, drawn: Drawn) -> None:
    """Where a record is gone, those behind it move up: both batches change, and one is charged."""
    reference, found = gaussian(1.0), list[bool]()
    for situation, claims in prices(reference, scheme, of(scheme)):
        if situation.adjacency == "add-remove":
            pairs = [[drawn(release, ("x",) * k + ("o",) * 3) for k in (1, 0)] for release in reference.releases(situation)]
            found += [exceeds(p, q, claims) for p, q in pairs]
    assert any(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scheme", SAMPLING)
def test_one_pass_more_than_is_stated_costs_more(scheme: str) -> None:
    reference, found = gaussian(1.0), list[bool]()
    draws = replace(of(scheme), passes=1)
    for situation, claims in prices(reference, scheme, draws):
        for release in reference.releases(situation):
            p, q = laws(release, situation)
            assert not exceeds(p, q, claims)
            found.append(exceeds(p, q, claims, 2))
    assert any(found)


def test_a_fixed_size_of_another_batch_is_no_fixed_size() -> None:
    """Samples of two where one is stated."""
    assert any(exceeded("fixed-size", replace(of("fixed-size"), passes=1), fixed(2)))
