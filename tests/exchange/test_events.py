"""Tests of DpEvents: both libraries give the same number, the same pipeline comes back, and refusals name the cause."""

from __future__ import annotations

import json
import math
import random
import sys
from collections import namedtuple
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcli
from dpcli.base.errors import InputError, Unavailable
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.exam.subjects import SEED
from dpcli.exchange.events.dp_event import event_json, file_of_json
from dpcli.exchange.events.event_tree import EVENTS, plain_of, tree_of
from dpcli.exchange.events.leaves import LEAVES
from dpcli.exchange.events.reader import NESTED, REFUSED, tables_of_event
from dpcli.exchange.events.writer import RELATIONS, tree_of_pipeline
from dpcli.exchange.foreign import Asserted, read_text
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.write import toml_text
from dpcli.lint.run import lint_bytes
from dpcli.mechanisms.choice.randomized_response import RandomizedResponseSpec
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplaceSpec
from tests.cases import of_each
from tests.command import ROOT
from tests.command import dpcli as run
from tests.strategies import entry, log_uniform, pipeline

VECTORS = json.loads((ROOT / "tests" / "vectors" / "dp_events.json").read_text())
DELTA = VECTORS["delta"]
ADJACENCIES = {relation: adjacency for adjacency, relation in RELATIONS.items()}
PRICED = [(case["event"], relation, asked) for case in VECTORS["cases"] for relation, asked in case["epsilon"].items()]
GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}


def names(event: Any) -> Iterator[str]:
    if isinstance(event, dict):
        yield event["type"]
        for value in event.values():
            yield from names(value)
    elif isinstance(event, list):
        for value in event:
            yield from names(value)


def test_vectors_have_every_class_that_dp_accounting_prices() -> None:
    """The others are refused, or are in its source and in no release yet."""
    found = {name for event, _, _ in PRICED for name in names(event)}
    later = {"DiscreteGaussianDpEvent", "EpsilonDeltaDpEvent", "ExponentialMechanismDpEvent", "PermuteAndFlipDpEvent"}
    assert found | later | set(REFUSED) == set(EVENTS) == set(LEAVES) | set(NESTED) | set(REFUSED)


@pytest.mark.long
@pytest.mark.sampled(0, 9)
@pytest.mark.parametrize(("event", "relation", "asked"), PRICED, ids=lambda value: value.get("type") if "type" in value else None)
def test_both_give_the_same_number(event: dict[str, Any], relation: str, asked: dict[str, float]) -> None:
    """Its PLD accountant to its grid of 1e-4, rounded up. Its RDP accountant is above us, but under replace-one: see below."""
    ours = dpcli.account(dpcli.from_dp_event(event, adjacency=ADJACENCIES[relation], delta=DELTA))
    if event["type"] == "RandomizedResponseDpEvent" and relation == "REPLACE_SPECIAL":
        # The event defines what the special record answers, a file does not: ours holds for any answer.
        assert ours.upper >= asked["pld"]
        return
    if "pld" in asked:
        assert asked["pld"] == pytest.approx(ours.upper, rel=1e-4, abs=5e-5)
        assert ours.lower is None or ours.lower <= asked["pld"]
    if "rdp" in asked and relation != "REPLACE_ONE":
        assert ours.upper <= asked["rdp"] <= 1.2 * ours.upper + 0.7


@pytest.mark.parametrize("event", [GAUSSIAN, {"type": "LaplaceDpEvent", "noise_multiplier": 1.5}])
def test_under_replace_one_a_record_moves_a_sum_by_twice_the_bound(event: dict[str, Any]) -> None:
    """noise_multiplier is over C, the bound on one record's values: PLDAccountant counts 2 C, RdpAccountant C, for the same event."""
    (asked,) = (asked for each, relation, asked in PRICED if each == event and relation == "REPLACE_ONE")
    ours = dpcli.account(dpcli.from_dp_event(event, adjacency="replace-one", delta=DELTA))
    halved = dpcli.account(dpcli.from_dp_event(event, adjacency="add-remove", delta=DELTA))
    assert ours.lower is not None and asked["rdp"] < ours.lower
    assert halved.upper <= asked["rdp"] <= 1.1 * halved.upper
    if "pld" in asked:
        assert ours.lower <= asked["pld"] <= ours.upper * (1.0 + 1e-6)


def test_whole_numbers_too_move_by_twice_the_bound() -> None:
    event = {"type": "DiscreteLaplaceDpEvent", "noise_parameter": 0.25, "sensitivity": 3}
    epsilons = [
        dpcli.account(dpcli.from_dp_event(event, adjacency=each, delta=0.0)).upper for each in ("add-remove", "replace-one")
    ]
    assert epsilons == pytest.approx([0.75, 1.5], rel=1e-12)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_the_sensitivity_of_discrete_gaussian_noise_already_depends_on_the_adjacency(adjacency: str) -> None:
    """The event states it of the function, where the other events state a bound on one record. RdpAccountant doubles it nowhere."""
    event = {"type": "DiscreteGaussianDpEvent", "sigma": 9.0, "sensitivity": 2.0, "dimension": 1}
    (made,) = dpcli.from_dp_event(event, adjacency=adjacency, delta=DELTA).mechanisms
    assert (made.spec.sigma, made.spec.sensitivity) == (9.0, 2)  # type: ignore[attr-defined]


@of_each("adjacency", RELATIONS)
@of_each(
    "made",
    [
        entry("gaussian", sigma=7.0, sensitivity=3.0),
        entry("laplace", scale=7.0, sensitivity=3.0),
        entry("discrete-laplace", scale=7.0, sensitivity=4),
        entry("gaussian", noise_multiplier=3.0, rate=0.3, steps=5),
    ],
)
def test_an_event_alone_costs_what_its_pipeline_costs(made: Entry, adjacency: str) -> None:
    """A sensitivity is under the file's adjacency, a bound on one record's values is under none."""
    first = pipeline(made, adjacency=adjacency)
    again = dpcli.from_dp_event(plain_of(tree_of_pipeline(first)), adjacency=adjacency, delta=1e-5)
    assert dpcli.account(again).upper == pytest.approx(dpcli.account(first).upper, rel=1e-9)


finite = st.floats(0.5, 50.0)
probability = st.floats(1e-6, 0.6)
steps = st.sampled_from([1, 2, 3, 1000, 14063])


def one(kind: str, rate: float | None = None, count: int = 1, **keys: Any) -> Entry:
    return entry(kind, steps=count, rate=rate, **keys)


additive = st.one_of(
    st.builds(lambda nm, n, q: one("gaussian", q, n, noise_multiplier=nm), finite, steps, st.none() | probability),
    st.builds(lambda nm, n: one("laplace", None, n, noise_multiplier=nm), finite, steps),
    st.builds(lambda s, c: one("gaussian", sigma=s, sensitivity=c), finite, finite),
    st.builds(lambda s, c: one("laplace", scale=s, sensitivity=c), finite, finite),
    st.builds(lambda s, c, n: one("discrete-laplace", None, n, scale=s, sensitivity=2 * c), finite, st.integers(1, 5), steps),
    st.builds(lambda s, c: one("discrete-gaussian", sigma=s, l2_sensitivity=c), st.floats(5.0, 50.0), st.floats(0.5, 9.0)),
    st.builds(lambda s, c: one("discrete-gaussian", sigma=s, sensitivity=c, dimension=1), st.floats(5.0, 50.0), st.integers(1, 5)),
)
stated = st.one_of(
    st.builds(lambda e, n: one("pure-dp", None, n, epsilon=e), log_uniform(-3.0, 0.5), steps),
    st.builds(lambda e, d: one("approx-dp", epsilon=e, delta=d), log_uniform(-3.0, 0.5), log_uniform(-12.0, -6.0)),
    st.builds(lambda r, n: one("zcdp", None, n, rho=r), log_uniform(-4.0, 0.0), steps),
    st.builds(lambda r, x: one("zcdp", rho=r, xi=x), log_uniform(-4.0, 0.0), log_uniform(-4.0, 0.0)),
    st.builds(lambda e: one("exponential", epsilon=e), log_uniform(-3.0, 0.5)),
    st.builds(lambda e: one("permute-and-flip", epsilon=e), log_uniform(-3.0, 0.5)),
    st.just(one("post-processing")),
)
come_or_go = st.one_of(
    st.builds(
        lambda s, p: one("gaussian-mixture", sigma=s, sensitivities=(0.0, 1.5), probabilities=(p, 1.0 - p)), finite, probability
    ),
    st.builds(
        lambda nm, n: one("tree-aggregation", noise_multiplier=nm, iterations=n, max_participations=1), finite, st.integers(1, 300)
    ),
    st.builds(
        lambda nm, n: one("tree-aggregation", noise_multiplier=nm, iterations=n + 9, max_participations=1, trees=(n, 9)),
        finite,
        st.integers(1, 300),
    ),
)
responses = st.one_of(
    st.builds(lambda e, k: one("randomized-response", epsilon=e, categories=k), st.floats(0.01, 8.0), st.integers(2, 20)),
    st.builds(lambda p, k: one("randomized-response", keep=p, categories=k), st.floats(0.51, 0.999), st.integers(2, 20)),
)
fixed = st.builds(
    lambda nm, n, b: {
        "type": "gaussian",
        "noise_multiplier": nm,
        "steps": n,
        "sampling": {"scheme": "fixed-size", "batch_size": b},
    },
    finite,
    steps,
    st.integers(1, 1000),
)
BY_ADJACENCY = {
    "add-remove": st.one_of(additive, stated, come_or_go),
    "zero-out": st.one_of(stated, come_or_go, responses),
    "replace-one": st.one_of(additive, stated, responses),
}


@st.composite
def expressible(draw: st.DrawFn) -> Pipeline:
    """Pipelines of all that an event says, under every adjacency."""
    adjacency = draw(st.sampled_from(sorted(BY_ADJACENCY)))
    return pipeline(*draw(st.lists(BY_ADJACENCY[adjacency], min_size=1, max_size=4)), adjacency=adjacency, unit="example")


@given(expressible())
def test_export_and_import_give_the_same_pipeline(made: Pipeline) -> None:
    """With dpcli's own part of the file: the same tables. Without it: a pipeline that says the same event, with no more noise."""
    text = event_json(made)
    assert tables_of(read_text(file_of_json(text.encode(), Asserted(), "x"), "x")) == tables_of(made)
    document = json.loads(text)
    del document["pipeline"]
    bare = read_text(file_of_json(json.dumps(document).encode(), Asserted(), "x"), "x")
    assert near(plain_of(tree_of_pipeline(bare)), document["event"])
    for first, again in zip(merged(made), bare.mechanisms, strict=True):
        noisy = first.spec, again.spec
        if isinstance(noisy[0], DiscreteLaplaceSpec) and isinstance(noisy[1], DiscreteLaplaceSpec):
            assert noisy[0].scale * (1 - 1e-15) <= noisy[1].scale <= noisy[0].scale
        if isinstance(noisy[0], RandomizedResponseSpec) and isinstance(noisy[1], RandomizedResponseSpec):
            assert response(noisy[0]) <= response(noisy[1]) <= response(noisy[0]) * (1.0 + 1e-9)


def response(spec: RandomizedResponseSpec) -> float:
    """Epsilon of what is stated, to the rounding of this test."""
    return round(spec.stated().epsilon, 13)  # type: ignore[attr-defined]


def merged(made: Pipeline) -> list[Entry]:
    """Without neighbours that differ in their steps alone, which become one entry."""
    kept: list[Entry] = []
    for each in made.mechanisms:
        if not kept or plain_of(tree_of_pipeline(alone(kept[-1], made))) != plain_of(tree_of_pipeline(alone(each, made))):
            kept.append(each)
    return kept


def alone(each: Entry, made: Pipeline) -> Pipeline:
    return Pipeline(made.privacy, (Entry(each.name, each.type, each.spec, sampling=each.sampling),))


def near(found: Any, wanted: Any) -> bool:
    """The same tree, its numbers to the last digits."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(near(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        joined = [_joined(each) for each in (found, wanted)]
        return len(joined[0]) == len(joined[1]) and all(near(*pair) for pair in zip(*joined, strict=True))
    return math.isclose(found, wanted, rel_tol=1e-9) if isinstance(wanted, float) else bool(found == wanted)


def _joined(events: list[Any]) -> list[Any]:
    """A list of events without neighbours that are repetitions of one event."""
    kept: list[tuple[Any, int]] = []
    for each in events:
        once = (each["event"], each["count"]) if isinstance(each, dict) and each["type"] == "SelfComposedDpEvent" else (each, 1)
        if kept and kept[-1][0] == once[0]:
            kept[-1] = (once[0], kept[-1][1] + once[1])
        else:
            kept.append(once)
    return [{"of": of, "count": count} if isinstance(of, dict) else of for of, count in kept]


@given(st.lists(fixed, min_size=1, max_size=3))
def test_samples_of_a_fixed_size_come_back(entries: list[dict[str, Any]]) -> None:
    privacy = {"adjacency": "replace-one", "dataset_size": 1000, "delta": 1e-6}
    named = [{"name": f"{place}", **each} for place, each in enumerate(entries)]
    made = read_text(toml_text({"format": 1, "privacy": privacy, "mechanism": named}), "x")
    back = dpcli.from_dp_event(plain_of(tree_of_pipeline(made)), adjacency="replace-one", delta=1e-6)
    assert back.privacy == made.privacy
    assert sum(each.steps for each in back.mechanisms) == sum(each["steps"] for each in entries)


@pytest.mark.parametrize("relation", RELATIONS.values())
def test_a_second_time_nothing_changes(relation: str) -> None:
    """What was imported, exported and imported again is what was imported."""
    for event in (event for event, found, _ in PRICED if found == relation):
        first = dpcli.from_dp_event(event, adjacency=ADJACENCIES[relation], delta=DELTA)
        second = dpcli.from_dp_event(plain_of(tree_of_pipeline(first)), adjacency=ADJACENCIES[relation], delta=DELTA)
        kinds = {each.type for each in first.mechanisms}
        if not kinds & {"randomized-response", "discrete-laplace"}:  # converted, each time to less noise
            assert tables_of(second) == tables_of(first)


def test_what_runs_on_one_sample_stays_on_one_sample() -> None:
    both = {"type": "ComposedDpEvent", "events": [GAUSSIAN, {"type": "LaplaceDpEvent", "noise_multiplier": 9.0}]}
    shared = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event": both}
    made = dpcli.from_dp_event({"type": "SelfComposedDpEvent", "event": shared, "count": 7}, adjacency="add-remove")
    assert [(each.type, each.steps, each.sampling is None) for each in made.mechanisms] == [
        ("gaussian", 1, True),
        ("laplace", 1, True),
        ("composed", 7, False),
    ]


def test_events_of_one_composition_draw_samples_of_their_own() -> None:
    """However often a rate comes again, which lint would ask about; one event alone has nobody to share with."""
    draw = random.Random(f"{SEED} own")
    for _ in range(10):
        sampled = [
            {"type": "PoissonSampledDpEvent", "sampling_probability": draw.choice([0.1, 0.2]), "event": one}
            for one in draw.choices([GAUSSIAN, {"type": "LaplaceDpEvent", "noise_multiplier": 9.0}], k=draw.randint(1, 5))
        ]
        made = dpcli.from_dp_event({"type": "ComposedDpEvent", "events": [*sampled, GAUSSIAN]}, adjacency="add-remove", delta=1e-6)
        own = [each.sample for each in made.mechanisms if each.sampling is not None]
        assert own == (["own"] * len(own) if len(own) > 1 else [None]), SEED
        assert all(each.sample is None for each in made.mechanisms if each.sampling is None), SEED
        found = lint_bytes(toml_text(tables_of(made)).encode(), "a.toml")
        assert "DP120" not in {each.rule for each in found}, SEED


STEPS = {"type": "SingleEpochTreeAggregationDpEvent", "noise_multiplier": 1.0, "step_counts": [3, 4]}
NO_EVENT: dict[str, tuple[dict[str, Any], str]] = {
    "nonprivate": ({"type": "NonPrivateDpEvent"}, "NonPrivateDpEvent: it is not private"),
    "unsupported": ({"type": "ComposedDpEvent", "events": [GAUSSIAN, {"type": "UnsupportedDpEvent"}]}, "UnsupportedDpEvent"),
    "replacement": (
        {"type": "SampledWithReplacementDpEvent", "source_dataset_size": 9, "sample_size": 2, "event": GAUSSIAN},
        "SampledWithReplacementDpEvent",
    ),
    "unknown": ({"type": "ShuffledDpEvent", "event": GAUSSIAN}, "ShuffledDpEvent"),
    "no trees": ({**STEPS, "step_counts": []}, "iterations"),
    "xi": ({"type": "ZCDpEvent", "rho": 0.1, "xi": -0.2}, "xi"),
    "twice sampled": (
        {
            "type": "PoissonSampledDpEvent",
            "sampling_probability": 0.5,
            "event": {"type": "PoissonSampledDpEvent", "sampling_probability": 0.5, "event": GAUSSIAN},
        },
        "no sample of a sample",
    ),
    "two sizes": (
        {
            "type": "ComposedDpEvent",
            "events": [
                {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": n, "sample_size": 2, "event": GAUSSIAN}
                for n in (10, 20)
            ],
        },
        "one dataset size",
    ),
    "no noise": ({"type": "GaussianDpEvent", "noise_multiplier": 0}, "noise_multiplier"),
    "no noise on integers": ({"type": "DiscreteLaplaceDpEvent", "noise_parameter": 0.0, "sensitivity": 1}, "noise_parameter > 0"),
    "nan": ({"type": "GaussianDpEvent", "noise_multiplier": float("nan")}, "noise_multiplier"),
    "true": ({"type": "GaussianDpEvent", "noise_multiplier": True}, "noise_multiplier"),
    "text": ({"type": "GaussianDpEvent", "noise_multiplier": "2"}, "noise_multiplier"),
    "negative": ({"type": "LaplaceDpEvent", "noise_multiplier": -1.0}, "noise_multiplier"),
    "missing": ({"type": "GaussianDpEvent"}, "found no noise_multiplier"),
    "too much": ({**GAUSSIAN, "clipping": 1.0}, "found clipping too"),
    "never": ({"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 0}, "count"),
    "too often": (
        {
            "type": "SelfComposedDpEvent",
            "count": 10**12,
            "event": {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 10**12},
        },
        "10^18",
    ),
    "nothing": ({"type": "ComposedDpEvent", "events": []}, "contains no mechanism"),
    "a number": ({"type": "SelfComposedDpEvent", "event": 3, "count": 2}, "DpEvent"),
    "truth": ({"type": "RandomizedResponseDpEvent", "noise_parameter": 0.0, "num_buckets": 2}, "noise_parameter in (0, 1)"),
}


@of_each("kind", NO_EVENT)
def test_an_event_that_no_file_says_is_refused_by_name(kind: str) -> None:
    event, words = NO_EVENT[kind]
    with pytest.raises(InputError) as refused:
        dpcli.from_dp_event(event, adjacency="zero-out")
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["MixtureOfGaussiansDpEvent", "SingleEpochTreeAggregationDpEvent"])
def test_what_says_nothing_of_a_replaced_record_is_refused_there(name: str) -> None:
    event = next(event for event, _, _ in PRICED if event["type"] == name)
    with pytest.raises(InputError, match="not records that are replaced"):
        dpcli.from_dp_event(event, adjacency="replace-one")


def test_a_bound_on_one_record_is_none_on_a_unit_of_several() -> None:
    event = {"type": "DiscreteLaplaceDpEvent", "noise_parameter": 0.1, "sensitivity": 1}
    with pytest.raises(InputError, match="max_contributions"):
        dpcli.from_dp_event(event, adjacency="add-remove", unit="user", max_contributions=3)
    stated = dpcli.from_dp_event(
        {"type": "ZCDpEvent", "rho": 0.01}, adjacency="add-remove", unit="user", max_contributions=3, delta=1e-6
    )
    alone = dpcli.from_dp_event({"type": "ZCDpEvent", "rho": 0.01}, adjacency="add-remove", delta=1e-6)
    assert dpcli.account(stated).upper > 2.0 * dpcli.account(alone).upper


def test_events_too_deep_are_refused() -> None:
    event: dict[str, Any] = GAUSSIAN
    for _ in range(100):
        event = {"type": "SelfComposedDpEvent", "event": event, "count": 1}
    with pytest.raises(InputError, match="deep"):
        tree_of(event)
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    for lists in ({"type": "ComposedDpEvent", "events": deep}, {**STEPS, "step_counts": deep}):
        with pytest.raises(InputError):
            dpcli.from_dp_event(lists, adjacency="add-remove")
    with pytest.raises(InputError):
        file_of_json(b'{"type": ' * 100_000, Asserted(), "x")


NO_PIPELINE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "shuffle": ({"sampling": {"scheme": "shuffle", "rate": 0.1}}, {}, "the sampling scheme shuffle"),
    "cyclic": ({"sampling": {"scheme": "cyclic", "rate": 0.1}}, {}, "the sampling scheme cyclic"),
    "bins": ({"sampling": {"scheme": "balls-in-bins", "rate": 0.1}}, {}, "the sampling scheme balls-in-bins"),
    "partition": ({"partition": "region"}, {}, "partition"),
    "users": ({}, {"unit": "user", "max_contributions": 2}, "max_contributions"),
    "adaptive": ({}, {"adaptive": True}, "adaptive"),
    "half a batch": ({"sampling": {"scheme": "fixed-size", "rate": 0.1}}, {"adjacency": "replace-one"}, "dataset_size"),
    "another adjacency": ({"type": "zcdp", "rho": 0.1, "adjacency": "add-remove"}, {"adjacency": "replace-one"}, "adjacency"),
    "failures": ({"type": "zcdp", "rho": 0.1, "delta": 1e-9}, {}, "delta"),
    "odd": ({"type": "discrete-laplace", "scale": 9.0, "sensitivity": 3}, {"adjacency": "replace-one"}, "odd"),
    "participations": (
        {"type": "tree-aggregation", "noise_multiplier": 9.0, "iterations": 8, "max_participations": 2},
        {},
        "takes part in several steps",
    ),
}


@of_each("kind", NO_PIPELINE)
def test_a_key_that_no_event_says_is_refused_by_name(kind: str) -> None:
    keys, privacy, words = NO_PIPELINE[kind]
    own = {"type": "gaussian", "noise_multiplier": 2.0} if "type" not in keys else {}
    file = {"format": 1, "privacy": {"adjacency": "add-remove", **privacy}, "mechanism": [{"name": "it", **own, **keys}]}
    with pytest.raises(InputError) as refused:
        tree_of_pipeline(read_text(toml_text(file), "x"))
    assert words in str(refused.value)


def refusal(made: Pipeline) -> str | None:
    try:
        event_json(made)
    except InputError as refused:
        return str(refused)
    return None


@of_each("adjacency", RELATIONS)
@of_each("kind", MECHANISMS)
def test_every_type_is_an_event_or_refused_by_its_name(kind: str, adjacency: str) -> None:
    example = dict(load(MECHANISMS[kind]).example)
    part = {"name": "part", "type": "gaussian", "noise_multiplier": 3.0}
    parts = [part] if "part" in str(example) else []
    table = {"name": "it", "type": kind, **example}
    made = read_text(toml_text({"format": 1, "privacy": {"adjacency": adjacency}, "mechanism": [*parts, table]}), "x")
    why = refusal(made)
    if why is not None:
        assert kind in why or "'it'" in why or '"it"' in why
        return
    text = event_json(made)
    assert tables_of(read_text(file_of_json(text.encode(), Asserted(), "x"), "x")) == tables_of(made)


def test_a_changed_export_is_refused_and_adjacency_is_asked_for() -> None:
    document = json.loads(event_json(pipeline(entry("gaussian", noise_multiplier=2.0, rate=0.1))))
    document["event"]["sampling_probability"] = 0.05
    with pytest.raises(InputError, match="contradicts the pipeline that dpcli export wrote"):
        file_of_json(json.dumps(document).encode(), Asserted(), "x")
    with pytest.raises(InputError, match="expected the adjacency of the file, add-remove"):
        file_of_json(json.dumps(document).encode(), Asserted(adjacency="zero-out"), "x")
    done = run("import", "dp-accounting", "-", stdin=json.dumps(document["event"]).encode())
    assert done.code == 2 and "does not state its adjacency" in done.err
    done = run("import", "dp-accounting", "-", "--adjacency", "add-remove", stdin=json.dumps(document["event"]).encode())
    assert done.code == 0 and "rate = 0.05" in done.out


def standing_in() -> ModuleType:
    """A module with classes of these names and fields, as attrs makes them."""
    module = ModuleType("dp_accounting.dp_event")
    for name, (needed, optional) in EVENTS.items():
        module.__dict__[name] = namedtuple(name, (*needed, *optional), defaults=(None,) * len(optional))
    return module


def test_objects_are_made_of_the_package_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipeline(entry("gaussian", noise_multiplier=2.0, rate=0.1, steps=9), entry("laplace", noise_multiplier=5.0))
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(Unavailable, match="pip install dp-accounting"):
        dpcli.to_dp_event(made)
    package, module = ModuleType("dp_accounting"), standing_in()
    package.__spec__ = ModuleSpec("dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting", package)
    monkeypatch.setitem(sys.modules, "dp_accounting.dp_event", module)
    event = dpcli.to_dp_event(made)
    assert type(event).__name__ == "ComposedDpEvent" and event.events[0].event.sampling_probability == 0.1
    monkeypatch.delattr(module, "LaplaceDpEvent")
    with pytest.raises(Unavailable, match="LaplaceDpEvent"):
        dpcli.to_dp_event(made)


def test_a_field_that_is_new_is_not_passed_over() -> None:
    """attrs lists the fields of a class: one that nobody here knows may change what the event means."""

    class Field:
        def __init__(self, name: str) -> None:
            self.name = name

    class GaussianDpEvent:
        __attrs_attrs__ = (Field("noise_multiplier"), Field("clipped_twice"))
        noise_multiplier, clipped_twice = 2.0, True

    with pytest.raises(InputError, match="found clipped_twice too"):
        dpcli.from_dp_event(GaussianDpEvent(), adjacency="add-remove")


def test_a_binomial_number_of_trials_has_no_event() -> None:
    text = (ROOT / "examples" / "tuning.toml").read_text()
    binomial = text.replace('"geometric", mean = 10', '"binomial", mean = 10, most = 20')
    assert binomial != text
    refused = run("export", "dp-accounting", "-", stdin=binomial.encode())
    assert refused.code == 2 and "no binomial number of trials" in refused.err


@pytest.mark.needs("dp_accounting")
def test_objects_of_the_package_are_what_their_json_is() -> None:
    """Real events, their named tuples and their JSON are one pipeline; what is exported is the package's own event, at its own number."""
    import dp_accounting  # type: ignore[import-not-found]
    from dp_accounting.pld import PLDAccountant  # type: ignore[import-not-found]

    from tests.vectors.dp_events import events, plain

    for event in events(dp_accounting.dp_event):
        tuple_of = event.to_named_tuple()
        trees = [tables_of_event(tree_of(each), Asserted(adjacency="zero-out")) for each in (event, tuple_of, plain(tuple_of))]
        assert trees[0] == trees[1] == trees[2]
    made = dpcli.load(ROOT / "examples" / "mnist.toml")
    accountant = PLDAccountant().compose(dpcli.to_dp_event(made))
    assert accountant.get_epsilon(1e-5) == pytest.approx(dpcli.account(made).upper, rel=1e-4)
