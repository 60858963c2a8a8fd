"""Tests of entries that share a sample: their cost against quadrature, enumeration and closed forms; refusals; lint."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random
from typing import Any, get_args

import numpy as np
import pytest

import dpcli
from dpcli.analysis.account import Account, account
from dpcli.analysis.calibrate import calibrate
from dpcli.analysis.difference import priced_changes
from dpcli.analysis.solved_keys import Parameter, parameter_key
from dpcli.analysis.table_changes import changes
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.exam.drawn_files import Document
from dpcli.exam.subjects import SEED
from dpcli.exchange.events.event_tree import plain_of
from dpcli.exchange.events.writer import tree_of_pipeline
from dpcli.exchange.opacus.phases import state_of
from dpcli.file.pipeline.canonical import pipeline_from, tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.parts import SAMPLING_KEYS, shares_its_price
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import MAX_MEMBERS, resolve
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.write import toml_text
from dpcli.gate.claims import claim_warnings
from dpcli.ledger.chain import canonical
from dpcli.lint.run import lint_bytes
from dpcli.mechanisms.neighbours import Adjacency
from tests.command import dpcli as run

ADJACENCIES = [adjacency.value for adjacency in Adjacency]
SCHEMES: dict[str, Document] = {scheme: {"scheme": scheme} for scheme in SAMPLING} | {
    "poisson": {"scheme": "poisson", "rate": 0.1},
    "cut": {"scheme": "poisson", "batch_size": 100, "max_batch_size": 150},
    "fixed-size": {"scheme": "fixed-size", "rate": 0.1},
    "balls-in-bins": {"scheme": "balls-in-bins", "rate": 0.1},
}
SAMPLED = [name for name in SCHEMES if name != "none"]
POISSON = SCHEMES["poisson"]


def entry(name: str, noise: float = 1.0, **keys: Any) -> Document:
    return {"name": name, "type": "gaussian", "noise_multiplier": noise, **keys}


def document(*entries: Document, adjacency: str = "add-remove", **privacy: Any) -> Document:
    stated = {"adjacency": adjacency, "dataset_size": 1000, "delta": 1e-5, **privacy}
    return {"format": 1, "privacy": stated, "mechanism": list(entries)}


def read(*entries: Document, **privacy: Any) -> Pipeline:
    return parse(toml_text(document(*entries, **privacy)).encode(), "a.toml")


def pair(sample: str | None = "batch", sampling: Document = POISSON, **keys: Any) -> tuple[Document, Document]:
    """Two entries that are sampled alike."""
    named = {} if sample is None else {"sample": sample}
    return entry("a", steps=50, sampling=sampling, **named, **keys), entry("b", 2.0, steps=50, sampling=sampling, **named, **keys)


def sound(found: Account) -> dict[str, float]:
    return {row.accountant.name: row.bound.upper for row in found.rows if row.accountant.sound and row.bound is not None}


def one_step(p: np.ndarray[Any, Any], q: np.ndarray[Any, Any], rate: float, epsilon: float) -> float:
    """delta of one Poisson sample of what has density p with the record and q without it."""
    mixed = (1.0 - rate) * q + rate * p
    return float(max(np.maximum(mixed - math.exp(epsilon) * q, 0.0).sum(), np.maximum(q - math.exp(epsilon) * mixed, 0.0).sum()))


def test_two_gaussians_on_one_sample_against_quadrature_in_the_plane() -> None:
    """The trapezoid rule on a grid of 0.02 standard deviations errs by about 1e-4 of delta, for the kink of what it adds up."""
    random = Random(SEED)
    first, second, rate, epsilon = (random.uniform(*ends) for ends in ((0.8, 2.0), (0.8, 2.0), (0.05, 0.5), (0.1, 0.6)))
    at = np.arange(-8.0, 10.0, 0.02)

    def normal(shift: float) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = np.exp(-0.5 * (at - shift) ** 2) / math.sqrt(2.0 * math.pi) * 0.02
        return found

    p, q = np.multiply.outer(normal(1.0 / first), normal(1.0 / second)), np.multiply.outer(normal(0.0), normal(0.0))
    sampling = {"scheme": "poisson", "rate": rate}
    shared = read(entry("a", first, sampling=sampling, sample="x"), entry("b", second, sampling=sampling, sample="x"))
    asked, exact = account(shared, epsilon=epsilon), one_step(p, q, rate, epsilon)
    assert asked.upper == pytest.approx(exact, rel=5e-4), (SEED, first, second, rate, epsilon)
    assert all(value >= exact * (1.0 - 5e-4) for value in sound(asked).values()), (SEED, first, second, rate, epsilon)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("scheme", ["poisson", "cut", "balls-in-bins"])
def test_gaussians_on_one_sample_are_one_gaussian(scheme: str, adjacency: str) -> None:
    """mu^2 adds up before the sampling: of noise s and t, as of 1 / sqrt(1/s^2 + 1/t^2), in each of 50 steps."""
    single = entry("one", 1.0 / math.sqrt(1.0 + 0.25), steps=50, sampling=SCHEMES[scheme])
    ours, other = (
        account(each, ["exact", "rdp"])
        for each in (read(*pair(sampling=SCHEMES[scheme]), adjacency=adjacency), read(single, adjacency=adjacency))
    )
    assert sound(ours) == pytest.approx(sound(other), rel=1e-9)
    apart = account(read(*pair(None, SCHEMES[scheme]), adjacency=adjacency), ["exact", "rdp"])
    assert ours.upper > 1.02 * apart.upper


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("scheme", SAMPLED)
def test_every_type_on_one_sample_is_the_composed_entry(scheme: str, adjacency: str) -> None:
    """By hand: the same two without sampling, and a composed entry that has it; both are refused or neither is."""
    for kind in MECHANISMS:
        for contributions in (1, 3):
            keys = dict(load(MECHANISMS[kind]).example)
            part = [entry("part", 4.0)] if {"mechanism", "mechanisms"} & set(keys) else []
            own, other = {"name": "own", "type": kind, **keys}, entry("other", 3.0)
            drawn = {"sampling": SCHEMES[scheme], "steps": 20}
            shared = [*part, {**own, **drawn, "sample": "x"}, {**other, **drawn, "sample": "x"}]
            whole = {"name": "whole", "type": "composed", "mechanisms": ["own", "other"], **drawn}
            made = [
                charged(*entries, adjacency=adjacency, unit="user", max_contributions=contributions)
                for entries in (shared, [*part, own, other, whole])
            ]
            assert made[0] == made[1], (kind, contributions)


def charged(*entries: Document, **privacy: Any) -> Any:
    """What is charged for, None where that is refused."""
    try:
        return [(line.mechanism, line.count) for line in resolve(read(*entries, **privacy))]
    except InputError:
        return None


def test_entries_share_what_they_say_and_nothing_else() -> None:
    """Beside others, in any order, in disjoint parts, and for groups."""
    three = [
        *pair(),
        entry("c", 3.0, steps=50, sampling=POISSON, sample="other"),
        entry("d", 3.0, steps=50, sampling=POISSON, sample="other"),
    ]
    lines = resolve(
        read(*three, entry("e", 3.0, steps=50, sampling=POISSON, sample="own"), entry("f", 3.0, steps=50, sampling=POISSON))
    )
    assert [line.name for line in lines] == ["batch: a + b", "other: c + d", "e", "f"]
    mixed = read(*(three[i] for i in (2, 0, 3, 1)))
    assert account(mixed).upper == pytest.approx(account(read(*three)).upper, rel=1e-9)
    part = {"of": "region", "part": "north"}
    (parallel,) = resolve(read(*pair(partition=part), entry("c", 9.0, partition={**part, "part": "south"})))
    assert [one.name for one in parallel.entries] == ["a", "b", "c"]
    assert account(read(*pair(partition="region"))).upper == account(read(*pair())).upper
    both = [account(read(*each), ["rdp"], group_size=3).upper for each in (pair(), (pair()[0], {**pair()[1], "sample": "batch"}))]
    assert both[0] == both[1] > account(read(*pair()), ["rdp"]).upper


OTHERWISE: dict[str, Document] = {
    "sampling": {"sampling": {"scheme": "poisson", "rate": 0.2}},
    "steps": {"steps": 49},
    "epochs": {"epochs": 5.0},
    "partition": {"partition": "region"},
}


def test_every_way_to_differ_is_tried() -> None:
    assert set(OTHERWISE) == set(SAMPLING_KEYS)


@pytest.mark.parametrize("key", OTHERWISE)
def test_one_sample_is_drawn_in_one_way(key: str) -> None:
    """Refused in the file, with both places, and where a pipeline comes from elsewhere."""
    first, second = pair()
    second = {**{name: value for name, value in second.items() if (name, key) != ("steps", "epochs")}, **OTHERWISE[key]}
    with pytest.raises(InvalidFile) as caught:
        read(first, second)
    said = [found.message for found in caught.value.diagnostics]
    assert any(f'as mechanism["a"].{key}: both have sample = "batch"' in words for words in said), said
    good = read(*pair())
    other = replace(read({**first, "sample": "own"}, {**second, "sample": "own"}).mechanisms[1], sample="batch")
    with pytest.raises(InputError, match=r'mechanism."a".* expected .*as mechanism."a"'):
        resolve(replace(good, mechanisms=(good.mechanisms[0], other)))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ((entry("a", sample="own"),), "expected sampling with sample, found none: every step reads all records"),
        ((entry("a", sample="x", sampling={"scheme": "none"}),), "expected sampling with sample, found none"),
        ((pair("batch")[0], pair("bach")[1]), "found 'batch', which no other mechanism has; did you mean 'bach'"),
        ((pair("batch")[0], pair("bach")[1]), "found 'bach', which no other mechanism has; did you mean 'batch'"),
        (
            (
                *pair(),
                {"name": "c", "type": "repeat-and-select", "mechanism": "a", "trials": {"distribution": "poisson", "mean": 2.0}},
            ),
            "found 'a', which shares a sample; a part runs without the others",
        ),
    ],
)
def test_a_sample_is_of_several_that_are_sampled(entries: tuple[Document, ...], words: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(*entries)
    assert any(words in found.message for found in caught.value.diagnostics), [found.message for found in caught.value.diagnostics]


@pytest.mark.parametrize("name", ["Batch", "b\u0430tch", "batch ", "OWN", "0wn", "\uff4fwn"])
def test_two_samples_do_not_look_alike(name: str) -> None:
    """A reader would take them for one sample, or for own ones; what looks like another is refused in ASCII, hints included."""
    four = [*pair(), *({**one, "name": f"{one['name']}2", "sample": name} for one in pair())]
    with pytest.raises(InvalidFile) as caught:
        read(*four)
    said = [found.message for found in caught.value.diagnostics]
    assert len(said) == 2 and all("or a name that does not look like it, found" in words for words in said), said
    with pytest.raises(InvalidFile) as caught:
        read(*four[:1], *four[2:3])
    assert all(found.message.isascii() for found in caught.value.diagnostics)


def test_a_part_that_shares_a_sample_is_not_left_unpaid() -> None:
    """The first of a sample may not vanish with the entry that names it, in a pipeline that no file states."""
    whole = read(entry("a"), entry("b"), {"name": "whole", "type": "composed", "mechanisms": ["a"]})
    sampled = read(*pair()).mechanisms
    with pytest.raises(InputError, match="expected entries that no other one names, found"):
        resolve(replace(whole, mechanisms=(*sampled, whole.mechanisms[2])))


@pytest.mark.parametrize("scheme", SAMPLED)
def test_lint_asks_until_the_file_says(scheme: str) -> None:
    def asked(*samples: str | None) -> int:
        keys = {"steps": 50, "sampling": SCHEMES[scheme]}
        made = [entry(f"m{i}", 1.0 + i, **keys, **({} if name is None else {"sample": name})) for i, name in enumerate(samples)]
        return sum(
            found.rule == "DP120" for found in lint_bytes(toml_text(document(*made, adjacency="replace-one")).encode(), "a.toml")
        )

    amplified = scheme not in ("shuffle", "cyclic")
    assert asked(None, None) == asked(None, "x", "x") == asked("x", None, "x") == amplified
    assert asked(None, None, None) == asked(None, None, "x", "x") == 2 * amplified
    for said in [(None,), ("x", "x"), ("own", None), (None, "own"), ("own", "own"), ("x", "y", "x", "y"), ("own", "x", "x")]:
        assert asked(*said) == 0, said


def test_what_lint_advises_is_taken() -> None:
    """Both ways out of DP120, for every pair that it asks about: one sample, once the keys that it names are the same; or own ones."""
    parts: list[Document] = [
        {},
        *({"partition": {"of": "region", "part": part}} for part in ("east", "west")),
        {"partition": "region"},
    ]
    rates: list[Document] = [POISSON, {"scheme": "poisson", "batch_size": 100}]
    ways = [{"sampling": rate, **count, **part} for rate in rates for count in ({"steps": 50}, {"epochs": 5.0}) for part in parts]
    asked = 0
    for first in ways:
        for second in ways:
            said = lint_bytes(toml_text(document(entry("a", **first), entry("b", **second))).encode(), "a.toml")
            told = [found.message for found in said if found.rule == "DP120"]
            assert bool(told) == (first.get("partition") == second.get("partition")), (first, second)
            for message in told:
                asked += 1
                alike = {**second, **{key: first[key] for key in ("sampling",) if f"(and {key}" in message}}
                if "steps" in message.partition("(and")[2] or "epochs" in message.partition("(and")[2]:
                    counts = {key: first[key] for key in ("steps", "epochs") if key in first}
                    alike = {**{key: value for key, value in alike.items() if key not in ("steps", "epochs")}, **counts}
                for ours, theirs, name in ((first, alike, "batch"), (first, second, "own")):
                    made = toml_text(document(entry("a", **ours, sample=name), entry("b", **theirs, sample=name)))
                    assert "DP120" not in {found.rule for found in lint_bytes(made.encode(), "a.toml")}
                    read(entry("a", **ours, sample=name), entry("b", **theirs, sample=name))
    assert asked == 4 * 16


def test_a_change_of_who_shares_is_one_change() -> None:
    """Each stands alone: no entry is left at odds with the sample that it is said to read."""
    for old, new, edits in [
        (pair(), pair(None), 2),
        (pair(), pair("own"), 2),
        (pair(), pair("renamed"), 2),
        (pair(), tuple({**one, "steps": 40} for one in pair()), 2),
        (pair(), tuple({**one, "sampling": {"scheme": "poisson", "rate": 0.2}} for one in pair()), 2),
        ((pair(None)[0],), pair(), 2),
        (pair(), (pair(None)[0],), 2),
        (pair(None), tuple({**one, "steps": 40} for one in pair(None)), 1),
    ]:
        found = changes(document(*old), document(*new))
        assert {len(change.edits) for change in found} == {edits}, (old, new)
        for change in found:
            parse(toml_text(dict(change.applied(document(*old)))).encode(), "a.toml")


@pytest.mark.parametrize(("old", "new"), [("batch", None), ("batch", "own"), (None, "batch")])
def test_who_shares_is_a_claim(old: str | None, new: str | None) -> None:
    """No accountant can tell whether it is true: the gate warns, whichever way it is changed."""
    before, after = (toml_text(document(*pair(sample))).encode() for sample in (old, new))
    priced = priced_changes(before, after, account(parse(before, "a.toml"), ["rdp"]))
    assert [one.increase < 0.0 for one in priced] == [new != "batch"]
    (told,) = claim_warnings(priced, parse(after, "a.toml"))
    assert told.verdict == "warn" and "a: sample" in told.message and "b: sample" in told.message


@pytest.mark.parametrize("solve", get_args(Parameter))
def test_what_is_solved_for_keeps_one_draw(solve: Parameter) -> None:
    pipeline = read(*pair(), delta=1e-5)
    if parameter_key(pipeline.mechanisms[0], solve) is None:
        return
    targets = [("a", parameter_key(pipeline.mechanisms[0], solve))] if solve == "noise" else None
    found = calibrate(pipeline, 6.0, solve=solve, targets=targets, accountants=["rdp"])  # type: ignore[arg-type]
    assert len(resolve(found.pipeline)) == 1 and account(found.pipeline, ["rdp"]).upper == found.upper <= 6.0
    assert {name for name, _, _ in found.values} == ({"a"} if solve == "noise" else {"a", "b"})


def test_a_ledger_remembers_who_shares() -> None:
    pipeline = read(*pair())
    back = pipeline_from(json.loads(canonical(tables_of(pipeline))))
    assert back.mechanisms == pipeline.mechanisms and account(back).upper == account(pipeline).upper
    assert all(shares_its_price(one, pipeline) for one in pipeline.mechanisms)
    assert not any(shares_its_price(one, read(*pair("own"))) for one in read(*pair("own")).mechanisms)


def test_an_event_has_one_sample_and_opacus_has_no_word_for_it() -> None:
    pipeline = read(*pair(), entry("c", 4.0))
    event = plain_of(tree_of_pipeline(pipeline))
    assert str(event).count("PoissonSampledDpEvent") == 1
    assert account(dpcli.from_dp_event(event, adjacency="add-remove", delta=1e-5)).upper == pytest.approx(
        account(pipeline).upper, rel=1e-9
    )
    with pytest.raises(InputError, match="'a' cannot be a history of Opacus: it shares its sample with 'b'"):
        state_of(pipeline, "rdp")


@pytest.mark.long
def test_a_report_says_who_shares() -> None:
    told = run(
        "report", "-", stdin=toml_text(document(*pair(), *({**one, "name": f"{one['name']}2"} for one in pair("own")))).encode()
    ).out
    assert "poisson, rate 0.1, one sample batch for all of them (a, b); poisson, rate 0.1 (a2, b2)" in " ".join(told.split()), told


def test_a_group_may_have_as_many_members_as_stated() -> None:
    """MAX_MEMBERS entries that the group names are priced, however they are nested. One more is refused."""
    head = '[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 1e-6\n'
    entry = '[[mechanism]]\nname = "a"\ntype = "pure-dp"\nepsilon = 0.01\n'
    group = '[[mechanism]]\nname = "{}"\ntype = "composed"\nmechanisms = {}\n'

    def resolved(members: int) -> int:
        inner, outer = json.dumps(["a"] * 50), json.dumps([*["a"] * (members - 51), "inner"])
        text = "format = 1\n" + head + entry + group.format("inner", inner) + group.format("outer", outer)
        (line,) = resolve(parse(text.encode(), "p.toml"))
        return line.count

    assert resolved(MAX_MEMBERS) == 1
    with pytest.raises(InputError, match=f"at most {MAX_MEMBERS} members"):
        resolved(MAX_MEMBERS + 1)
