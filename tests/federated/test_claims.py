"""Tests that the gate reports every change of what a file claims about its server and clients."""

from __future__ import annotations

from typing import Any

from dpcli.analysis.account import account
from dpcli.analysis.difference import priced_changes
from dpcli.federated.federated_settings import Federated
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.read import parse
from dpcli.gate.claims import claim_warnings
from tests.cases import of_each
from tests.federated.files import file

CLAIMED = [name for name, member in members_of(Federated).items() if member.claim]
SAID: dict[str, Any] = {
    "sampling": "cyclic",
    "noise": "secure-aggregation",
    "rounds": 30,
    "clients_per_round": 50,
    "noise_multiplier": 1.0,
    "min_clients": 20,
    "dishonest": 4,
    "max_participations": 29,
    "min_separation": 1,
}
OTHERWISE: dict[str, Any] = {
    **SAID,
    "sampling": "none",
    "noise": "server",
    "noise_multiplier": 2.0,
    "min_clients": 40,
    "dishonest": 3,
}
OTHERWISE |= {"max_participations": 28, "min_separation": 2, "rounds": 31, "clients_per_round": 49}
SAID |= {"population": None, "client_rate": None, "mechanism": "rounds"}
OTHERWISE |= {"population": 100, "mechanism": "other"}
BESIDE: dict[str, dict[str, Any]] = {"client_rate": {"clients_per_round": None, "client_rate": 0.5}}  # in place of another key
FREE = {"clip"}  # noise is stated as a multiple of it
OTHER = '[[mechanism]]\nname = "other"\ntype = "gaussian"\nnoise_multiplier = 2.0\nsteps = 30\n'


def told(old: str, new: str) -> list[str]:
    before = parse(old.encode(), "fed.toml")
    priced = priced_changes(old.encode(), new.encode(), account(before, delta=1e-6))
    return [one.message for one in claim_warnings(priced, before)]


@of_each("key", CLAIMED)
def test_what_a_server_and_its_clients_are_said_to_do_is_told(key: str) -> None:
    said = {**SAID, **BESIDE.get(key, {})}
    changed = {"client_rate": 0.25}.get(key, OTHERWISE.get(key))
    words = told(file(said, more=OTHER), file({**said, key: changed}, more=OTHER))
    assert len(words) == 1 and words[0].startswith(f"federated.{key} ") and words[0].endswith("and not because of noise")


def test_every_key_on_which_the_price_rests_is_a_claim() -> None:
    assert {*members_of(Federated)} - {*CLAIMED} == FREE


def test_a_file_that_says_nothing_more_of_its_clients_is_told() -> None:
    assert len(told(file(SAID), file(None))) == len(told(file(None), file(SAID))) == 1
