"""`dpcli attest`: an attestation states what the folder proves, and verification fails if a byte differs."""

from __future__ import annotations

import base64
import copy
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.rounding import up
from dpcli.ledger.stores.places import open_ledger
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.description import RUN_FILES
from dpcli.train.trained.attestation import attestation, verify
from tests.cases import require_each
from tests.command import Result, dpcli
from tests.train.samples import FILE, ledger


def verified(run: Path, file: Path | None = None) -> Result:
    return dpcli("attest", str(run), "--verify", str(file or run / "attestation.json"))


def sealed(run: Path, **changes: Any) -> None:
    """The description with other values, and the digests of the files as they are now."""
    content = json.loads((run / "model.json").read_text())
    for name, value in changes.items():
        content[name] = content[name] | value if isinstance(value, dict) else value
    content["files"] = {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in content["files"]}
    (run / "model.json").write_text(json.dumps(content))


@pytest.mark.long
def test_a_run_verifies_where_it_was_moved_and_says_what_it_guarantees(run: Path) -> None:
    found = verified(run)
    assert found.code == 0, found
    statement = json.loads((run / "attestation.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digest = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "model.safetensors", "digest": {"sha256": digest}}]
    plan = plan_of(str(run / "pipeline.toml"))
    stated = statement["predicate"]["guarantee"]
    assert (stated["epsilon"], stated["delta"]) == (plan.account.upper, 1e-5)
    assert (stated["unit"], stated["adjacency"], stated["private"]) == ("example", "add-remove", True)
    assert plan.account.winner is not None and stated["accountant"] == plan.account.winner.accountant.name
    assert statement["predicate"]["pipeline"]["digest"]["sha256"] == hashlib.sha256(file_of(run)).hexdigest()
    assert json.loads(dpcli("attest", str(run), "-f", "json").out)["attestation"] == statement


def file_of(run: Path) -> bytes:
    return (run / "pipeline.toml").read_bytes()


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*RUN_FILES, "model.json"])
@pytest.mark.parametrize("place", [0, 9, 0.5, -1])
def test_a_changed_byte_of_a_file_is_seen(run: Path, name: str, place: float) -> None:
    content = bytearray((run / name).read_bytes())
    content[int(place * len(content)) if 0 < place < 1 else int(place)] ^= 1
    (run / name).write_bytes(content)
    found = verified(run)
    if name == "model.json" and found.code == 2:
        assert "not a description that this version of dpcli train writes" in found.err
        return
    assert found.code == 1
    assert "NOT verified" in found.out and name in found.err


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


@pytest.mark.long
def test_no_value_of_an_attestation_can_be_changed_or_left_out(run: Path, tmp_path: Path) -> None:
    statement, file = json.loads((run / "attestation.json").read_text()), tmp_path / "changed.json"
    places = list(leaves(statement))
    assert len(places) > 20
    for place in places:
        for other in ("other", None, True, 0, 1, 1e-9, "drop"):
            changed: Any = copy.deepcopy(statement)
            held = changed
            for key in place[:-1]:
                held = held[key]
            if other == "drop":
                held.pop(place[-1])
            elif type(held[place[-1]]) is type(other) and held[place[-1]] == other:
                continue
            else:
                held[place[-1]] = other
            file.write_text(json.dumps(changed))
            found = verified(run, file)
            assert found.code == (2 if place[-1] in ("_type", "predicateType") else 1), (place, other, found)


def test_what_two_readers_may_read_differently_is_not_verified(run: Path, tmp_path: Path) -> None:
    """A name that comes twice: here the last one counts, elsewhere the first."""
    statement, file = (run / "attestation.json").read_text(), tmp_path / "twice.json"
    for name in re.findall(r'"(\w+)":', statement):
        twice = statement.replace(f'"{name}":', f'"{name}": 0, "{name}":', 1)
        sealed_twice = json.dumps(
            {"payloadType": "application/vnd.in-toto+json", "payload": base64.b64encode(twice.encode()).decode()}
        )
        for content in (twice, sealed_twice):
            assert json.loads(content)
            file.write_text(content)
            assert verified(run, file).code == 2, name
    description = (run / "model.json").read_text()
    (run / "model.json").write_text(description.replace('"epsilon":', '"epsilon": 0.0, "epsilon":', 1))
    assert dpcli("attest", str(run)).code == 2


def test_an_envelope_is_read_and_its_signatures_are_said_to_be_unchecked(run: Path, tmp_path: Path) -> None:
    payload = base64.b64encode((run / "attestation.json").read_bytes()).decode()
    envelope = {"payloadType": "application/vnd.in-toto+json", "payload": payload, "signatures": [{"sig": "AA=="}]}
    for content in (envelope, {"dsseEnvelope": envelope, "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}):
        (tmp_path / "signed.json").write_text(json.dumps(content))
        found = verified(run, tmp_path / "signed.json")
        assert found.code == 0 and "signatures were not checked" in found.out
    for none in ({**envelope, "signatures": []}, {"dsseEnvelope": {**envelope, "signatures": None}}):
        (tmp_path / "signed.json").write_text(json.dumps(none))
        found = verified(run, tmp_path / "signed.json")
        assert (
            found.code in (0, 2)
            and "signatures were not checked" not in found.out
            and ("unsigned" in found.out) is (found.code == 0)
        )
    for bad in ({**envelope, "payloadType": "text/plain"}, {**envelope, "payload": "%"}, [], {"payload": 1}, {"_type": "x"}):
        (tmp_path / "signed.json").write_text(json.dumps(bad))
        assert verified(run, tmp_path / "signed.json").code == 2


def test_a_seeded_run_is_not_attested(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(FILE.replace("steps = 30", "steps = 1"))
    assert dpcli("train", "tiny.toml", "--insecure-seed", "1", folder=tmp_path).code == 0
    run = tmp_path / "runs" / "tiny"
    assert json.loads((run / "model.json").read_text())["guarantee"]["epsilon"] is None
    found = dpcli("attest", str(run))
    assert found.code == 2 and "NOT PRIVATE (the noise is seeded, or visible to an audit): nothing is attested" in found.err, found
    assert not (run / "attestation.json").exists()
    assert "NOT PRIVATE" in dpcli("predict", str(run), "digits").out


def test_no_smaller_epsilon_than_the_file_costs_is_attested(run: Path) -> None:
    epsilon = plan_of(str(run / "pipeline.toml")).account.upper
    for claimed, code in ((epsilon * 0.99, 2), (epsilon * 1.5, 0)):
        sealed(run, guarantee={"epsilon": claimed})
        found = dpcli("attest", str(run))
        assert found.code == code, found
        assert code == 0 or "the cost of its file" in found.err
        assert (verified(run).code == 0) == (code == 0)


def test_no_other_guarantee_than_the_files_is_attested(run: Path) -> None:
    described = (run / "model.json").read_bytes()

    def check(case: tuple[str, object]) -> None:
        name, value = case
        (run / "model.json").write_bytes(described)
        sealed(run, guarantee={name: value})
        found = dpcli("attest", str(run))
        assert found.code == 2 and f"guarantee.{name}" in found.err

    require_each(
        [("delta", 1e-6), ("unit", "user"), ("adjacency", "zero-out"), ("tuning", "none"), ("max_contributions", 2)], check
    )


def test_repeated_steps_cost_and_are_attested(run: Path) -> None:
    plan = plan_of(str(run / "pipeline.toml"))
    sealed(run, repeated=[[10, 20]])
    assert "the cost of its file" in dpcli("attest", str(run)).err
    epsilon = plan.account_with([(10, 20)]).upper
    sealed(run, repeated=[[10, 20]], guarantee={"epsilon": epsilon})
    assert attestation(str(run))["predicate"]["guarantee"]["epsilon"] == epsilon > plan.account.upper
    sealed(run, repeated=[[10, 40]])
    assert "expected portions of 30 steps" in dpcli("attest", str(run)).err


def test_the_ledgers_head_is_that_of_the_commit_and_another_run_moves_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(FILE.replace("steps = 30", "steps = 1"))
    with ledger(tmp_path):
        pass
    for _ in range(2):
        assert dpcli("train", "tiny.toml", "--ledger", "ledger.db", folder=tmp_path).code == 0
        run = tmp_path / "runs" / "tiny"
        assert not (run / "attestation.json").exists()  # of the run before
        assert dpcli("attest", str(run)).code == 0
        stated = json.loads((run / "attestation.json").read_text())["predicate"]["ledger"]
        with open_ledger(str(tmp_path / "ledger.db"), None) as found:
            state = found.state()
        assert (stated["seq"], stated["head"], stated["status"]) == (state.head.seq, state.head.hash, "committed")
        assert stated["run"] in state.runs and stated["dataset"] == "digits"


def tables(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield place
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tables(item, (*place, key))


def test_no_name_can_be_added_to_an_attestation_with_or_without_a_value(run: Path) -> None:
    statement = json.loads((run / "attestation.json").read_text())
    places = list(tables(statement))
    assert len(places) > 8
    for place in places:
        for name, value in itertools.product(("name", "uri", "digest", "epsilon", ""), (None, "other")):
            changed: Any = copy.deepcopy(statement)
            held = changed
            for key in place:
                held = held[key]
            if name in held:
                continue
            held[name] = value
            (run / "attestation.json").write_text(json.dumps(changed))
            found = verify(str(run), str(run / "attestation.json")).problems
            words = (
                "not the file that was attested"
                if place[-1:] == ("digest",)
                else f"expected no such name, found {json.dumps(value)}"
            )
            assert len(found) == 1 and words in found[0], (place, name, found)


@pytest.mark.long
def test_an_attestation_names_a_certificate_that_proves_its_epsilon(run: Path, tmp_path: Path) -> None:
    """Made of the run's own file; verified with it, and not without it."""
    pytest.importorskip("flint", reason="the checker needs python-flint")
    proof, attested = tmp_path / "proof.json", run / "attestation.json"
    assert dpcli("certify", str(run / "pipeline.toml"), "--write", str(proof)).code == 0
    digest = hashlib.sha256(proof.read_bytes()).hexdigest()
    result = dpcli("attest", str(run), "--certificate", str(proof))
    assert (result.code, f"proved by certificate sha256:{digest} (epsilon <= " in result.out) == (0, True)
    statement = json.loads(attested.read_text())
    named = statement["predicate"]["certificate"]
    epsilon = up(statement["predicate"]["guarantee"]["epsilon"])
    assert named == {"name": "certificate", "digest": {"sha256": digest}, "epsilon": epsilon, "delta": "1e-05"}
    found = dpcli("attest", str(run), "--verify", str(attested), "--certificate", str(proof))
    assert (found.code, digest in found.out) == (0, True)
    found = verified(run)
    assert (found.code, "give it by --certificate" in found.err + found.out) == (1, True)
    for place, value in (("epsilon", "0.1"), ("delta", "1e-06"), ("digest", {"sha256": "0" * 64})):
        forged = copy.deepcopy(statement)
        forged["predicate"]["certificate"][place] = value
        attested.write_text(json.dumps(forged))
        assert dpcli("attest", str(run), "--verify", str(attested), "--certificate", str(proof)).code == 1, place


@pytest.mark.long
def test_a_certificate_of_another_file_or_of_fewer_steps_attests_nothing(run: Path, tmp_path: Path) -> None:
    """Steps that a run may have taken twice count twice in what must be proved too."""
    pytest.importorskip("flint", reason="the checker needs python-flint")
    own, other = tmp_path / "own.json", tmp_path / "other.json"
    assert dpcli("certify", str(run / "pipeline.toml"), "--write", str(own)).code == 0
    assert dpcli("certify", "examples/dp-sgd.toml", "--write", str(other)).code == 0
    before = (run / "attestation.json").read_bytes()
    refused = dpcli("attest", str(run), "--certificate", str(other))
    assert (refused.code, "about another file than" in refused.err) == (3, True)
    epsilon = plan_of(str(run / "pipeline.toml")).account_with([(10, 20)]).upper
    sealed(run, repeated=[[10, 20]], guarantee={"epsilon": epsilon})
    refused = dpcli("attest", str(run), "--certificate", str(own))
    assert (refused.code, "about another file than" in refused.err) == (3, True)
    assert (run / "attestation.json").read_bytes() == before  # nothing was written
    assert dpcli("attest", str(run)).code == 0
