"""Clients and their server in a report and an explanation of a file with [federated]."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command import dpcli
from tests.federated.files import file

SHARES = {"noise": "secure-aggregation", "min_clients": 30, "dishonest": 5, "clip": 0.5, "sampling": "fixed-size"}
SEEN = (
    "each client adds a share of the noise, and the server sees only sums with the noise of 30 clients or more, at most 5 of whom collude "
    "with it; the rounding and the modulus of the aggregation are not accounted for"
)


def answers(text: str) -> dict[str, str]:
    found = dpcli("report", "-", "-f", "json", stdin=text.encode())
    return {item["id"]: item["answer"] for item in json.loads(found.out)["items"]}


def test_a_report_says_who_adds_the_noise_and_who_sees_what() -> None:
    said = answers(file(SHARES))
    assert said["privacy-model"] == SEEN
    assert said["clipping"] == "each client's update of a round is clipped to L2 norm 0.5"
    sampler = "fixed-size, with which the server must really draw clients; no client's data may influence which clients take part"
    assert said["sampler"] == f"{sampler} or drop out"
    assert not answers(file(None))["privacy-model"]
    both = answers(file(SHARES, more='[disclosure]\nprivacy_model = "distributed"\nclipping = "after weighting"\n'))
    assert both["privacy-model"] == f"distributed: several parties, some of them trusted, add the noise; {SEEN}"
    assert both["clipping"] == "after weighting; each client's update of a round is clipped to L2 norm 0.5"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            {},
            "The guarantee protects against those who see the releases, but not against the server: the trusted server sees each client's",
        ),
        (SHARES, f"The guarantee protects against the server too, and so has no amplification by sampling: {SEEN}."),
        (
            {"noise": "local"},
            "The guarantee protects against everybody, including the server, and so has no amplification by sampling: each client",
        ),
    ],
)
def test_an_explanation_says_against_whom(table: dict[str, Any], words: str) -> None:
    assert words in " ".join(dpcli("explain", "-", stdin=file(table).encode()).out.split())
    assert "The guarantee protects against" not in dpcli("explain", "-", stdin=file(None).encode()).out


@pytest.mark.parametrize("noise", ["server", "secure-aggregation", "local"])
def test_a_report_does_not_contradict_itself(noise: str) -> None:
    fitting = {"server": ["central", "secure-computation"], "secure-aggregation": ["distributed"], "local": ["local"]}
    table = SHARES if noise == "secure-aggregation" else {"noise": noise}
    for word in ("central", "local", "shuffle", "distributed", "secure-computation"):
        found = dpcli("lint", "-", stdin=file(table, more=f'[disclosure]\nprivacy_model = "{word}"\n').encode())
        assert (found.code == 0) == (word in fitting[noise])
        if found.code:
            wanted = " or ".join(f'"{each}"' for each in fitting[noise])
            assert f'disclosure.privacy_model: expected {wanted} with federated.noise = "{noise}", found "{word}"' in found.out
