"""The [federated] table of a pipeline file. This module does not import numpy.

In *federated* training a server trains a model with many clients. In a *round* some clients compute an *update* from their own data, and
the server uses only a noisy sum of the clipped updates. The table says what they do. The cost follows from the *entry* ([[mechanism]]
table) that a round performs; an entry that costs less than the described rounds is refused (round_checks.py). A key with claim=True states
what dpcli cannot check; the gate shows a reviewer every change of such a key. A *premise* is an assumption of the guarantee; it names who
must ensure it and a test that breaks it. `MEASURABLE` is the range of clipping norms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, POSITIVE, RATE, Constraint, Key, NeededSetting
from dpcli.base.premise import Premise, Premises
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.clipping import MEASURABLE

# As COUNT (base/fields.py), but 0 is allowed.
NONE_OR_MORE = Constraint("a whole number from 0 to 10^18", lambda x: 0 <= x <= 10**18, (("minimum", 0), ("maximum", 10**18)))
ENFORCED_KEYS = ("max_participations", "min_separation")  # limits that the server enforces in addition to its random draws
SECURE_AGGREGATION = NeededSetting('noise = "secure-aggregation"', lambda table: table.noise == "secure-aggregation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated:
    """The rounds of federated learning. In each round some clients send a clipped update, and only a noisy sum of the updates is used."""

    premises: ClassVar[Premises] = (
        Premise(
            "The server draws clients by the stated sampling. A round that is given up is counted, and the next round is drawn again.",
            "the operator of the server",
            "tests/federated/test_judged.py::test_amplification_does_not_survive_rounds_that_are_given_up",
        ),
        Premise(
            "No more clients drop out or reveal their noise than min_clients and dishonest state.",
            "the operator of the server",
            "tests/federated/test_judged.py::test_noise_that_drops_out_is_paid_for",
        ),
    )

    # Example tables. Together they state every key.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "sampling": "cyclic",
            "noise": "secure-aggregation",
            "mechanism": "train",
            "rounds": 40,
            "clients_per_round": 4,
            "population": 100,
            "clip": 0.5,
            "noise_multiplier": 1.0,
            "min_clients": 3,
            "dishonest": 1,
            "min_separation": 20,
            "max_participations": 2,
        },
        {"sampling": "poisson", "noise": "server", "client_rate": 0.01},
    )

    sampling: Annotated[
        Literal["poisson", "fixed-size", "balls-in-bins", "shuffle", "cyclic", "none"],
        Key("how the server chooses the clients of a round; always required", claim=True),
    ]
    noise: Annotated[
        Literal["server", "secure-aggregation", "local"],
        Key(
            "who adds the noise: server (which sees every update), secure-aggregation (each client adds a share, and the server sees only "
            "sums), or local (each client adds all of it, and the server sees every message)",
            claim=True,
        ),
    ]
    mechanism: Annotated[str | None, Key("the entry that a round performs; required if several could be meant", claim=True)] = None
    rounds: Annotated[int | None, Key("number of rounds; if absent, the steps of the entry", COUNT, claim=True)] = None
    clients_per_round: Annotated[
        int | None,
        Key("number of clients in a round (expected number if it is random), as the entry states it", COUNT, claim=True),
    ] = None
    client_rate: Annotated[
        float | None, Key("share of the clients in one round, in place of clients_per_round", RATE, claim=True)
    ] = None
    population: Annotated[
        int | None, Key("number of clients, which is public; if absent, privacy.dataset_size", COUNT, claim=True)
    ] = None
    clip: Annotated[float | None, Key("L2 norm to which a client's update is clipped", MEASURABLE)] = None
    noise_multiplier: Annotated[
        float | None,
        Key(
            "standard deviation of the noise over clip; with secure-aggregation or local, of the noise of one client",
            POSITIVE,
            claim=True,
        ),
    ] = None
    min_clients: Annotated[
        int | None,
        Key(
            "least number of clients whose noise is in a sum, after all dropouts; the server gives up a round with fewer",
            COUNT,
            claim=True,
            needs=SECURE_AGGREGATION,
        ),
    ] = None
    dishonest: Annotated[
        int | None,
        Key(
            "largest number of these clients that collude with the server; their noise does not count, as they know it",
            NONE_OR_MORE,
            claim=True,
            needs=SECURE_AGGREGATION,
        ),
    ] = None
    max_participations: Annotated[
        int | None, Key("largest number of rounds in which a client takes part, which the server enforces", COUNT, claim=True)
    ] = None
    min_separation: Annotated[
        int | None,
        Key("least number of rounds from one participation of a client to the next, which the server enforces", COUNT, claim=True),
    ] = None

    def problems(self) -> Iterator[Problem]:
        if self.clients_per_round is not None and self.client_rate is not None:
            yield ("client_rate",), "either clients_per_round or client_rate", "both"
        if self.clients_per_round is not None and self.population is not None and self.clients_per_round > self.population:
            yield ("clients_per_round",), f"at most population = {self.population}", str(self.clients_per_round)
        if self.noise == "secure-aggregation":
            yield from self._aggregation_problems()

    def _aggregation_problems(self) -> Iterator[Problem]:
        """Yield the problems of the keys that state whose noise is in a sum."""
        if self.min_clients is None:
            yield ("min_clients",), "the least number of clients whose noise is in a sum, as clients drop out", "none"
        if self.dishonest is None:
            yield ("dishonest",), "the number of these clients that may collude with the server; 0 if none", "none"
        clients = self.clients_per_round or self.population
        if self.min_clients is not None and clients is not None and self.min_clients > clients:
            yield ("min_clients",), f"at most the {clients} clients that a round has", str(self.min_clients)
        if self.dishonest is not None and self.min_clients is not None and self.dishonest >= self.min_clients:
            yield (
                ("dishonest",),
                f"fewer than min_clients = {self.min_clients}, as some noise must be secret",
                str(self.dishonest),
            )

    @property
    def observed(self) -> bool:
        """True if the guarantee must hold against the server, which knows who takes part in a round."""
        return self.noise != "server"

    @property
    def honest(self) -> int:
        """The number of clients that contribute secret noise to a sum; 1 if the server, or each client, adds all of the noise."""
        if self.min_clients is None or self.dishonest is None:
            return 1
        return self.min_clients - self.dishonest

    @property
    def enforced_keys(self) -> tuple[str, ...]:
        """The keys of `ENFORCED_KEYS` that the table states."""
        return tuple(key for key in ENFORCED_KEYS if getattr(self, key) is not None)

    def rate(self, dataset_size: int | None) -> Fraction | None:
        """Return the share of the clients that take part in one round; None if the table does not state it."""
        if self.client_rate is not None:
            return Fraction(repr(self.client_rate))  # the decimal number in the file
        size = self.population or dataset_size
        if self.clients_per_round is None or size is None:
            return None
        return Fraction(self.clients_per_round, size)
