"""The plan of a server, made before a client is asked: the entry of a round, the number of rounds, and what one charge pays for.

Independent noise is charged by the round. A pass over the clients, and a run of correlated noise, cost the same however far they went: the
first round is charged for all of it. Where a client takes part at most k times and nothing is amplified, k rounds pay for all others too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcli.federated.federated_settings import Federated
from dpcli.federated.judged import fitting_entries, rate_of, steps_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import together
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.toml.findings import Findings
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, OncePerEpoch, Unsampled
from dpcli.sessions.priced import FilePlan


@dataclass(frozen=True, slots=True)
class FederatedPlan(FilePlan):
    """The rounds of a server, as they are charged.

    Attributes:
        entry: What a round performs.
        rounds: Rounds of the whole plan.
        portion: Rounds that one charge pays for at least.
        paid_by: After so many charged rounds all others are free; `rounds` if none is.
        rate: The share of the clients in a round.
    """

    table: Federated
    entry: Entry
    rounds: int
    portion: int
    paid_by: int
    rate: Fraction | None

    @property
    def population(self) -> int | None:
        """Return the declared number of clients."""
        return self.pipeline.privacy.dataset_size or self.table.population

    @property
    def per_step(self) -> int:
        """Return the rounds of one step of the entry: many, if that is a run of correlated noise."""
        return self.portion if isinstance(self.entry.spec, CorrelatedSpec) else 1

    @property
    def rest(self) -> Pipeline | None:
        """Return what the file releases besides its rounds; None if that is nothing."""
        performed = together(self.entry, self.pipeline.mechanisms)
        others = tuple(entry for entry in self.pipeline.mechanisms if entry not in performed)
        return replace(self.pipeline, mechanisms=others, sections=(), budget=None) if others else None

    def charge(self, rounds: int, with_rest: bool) -> Pipeline:
        """Return the pipeline that charges for `rounds`, a multiple of `portion`, and for other entries that read the same sample.

        Args:
            with_rest: With the entries of the file that no round performs.
        """
        return replace(self.pipeline, mechanisms=tuple(self._charged_entries(rounds, with_rest)), sections=(), budget=None)

    def _charged_entries(self, rounds: int, with_rest: bool) -> Iterable[Entry]:
        steps = rounds // self.per_step
        performed = together(self.entry, self.pipeline.mechanisms)
        for entry in self.pipeline.mechanisms:
            if entry in performed:
                yield replace(entry, steps=steps, epochs=None)
            elif with_rest:
                yield entry


def federated_plan(path: str) -> FederatedPlan:
    """Return the plan of a file, its noise solved for where it says "calibrate".

    Raises:
        InputError: The file cannot be read, has no [federated], or charges less than the table does.
        CannotCertify: No noise is enough.
    """
    from dpcli.analysis.calibrate_file import solved

    data = read_bytes(path)
    table = read_federated(data, path)
    pipeline = solved(data, path)
    refuse_contradicted(pipeline)
    (entry,) = fitting_entries(table, pipeline.mechanisms)
    steps, rate = steps_of(entry, pipeline.privacy), rate_of(table, entry, pipeline.privacy)
    portion = _portion(entry, rate)
    rounds_per_step = portion if isinstance(entry.spec, CorrelatedSpec) else 1
    rounds = table.rounds or steps * rounds_per_step
    # Without sampling, the steps are the rounds of one client, and pay for the rounds of all others.
    paid_by = steps if isinstance(entry.sampling, Unsampled | None) and rounds_per_step == 1 else rounds
    return FederatedPlan(path, pipeline, table, entry, rounds, portion, paid_by, rate)


def _portion(entry: Entry, rate: Fraction | None) -> int:
    """Return how many rounds cost no more than the first of them: the rounds of a run, or of a pass as the accountant counts them."""
    if isinstance(entry.spec, CorrelatedSpec):
        return entry.spec.iterations
    if not isinstance(entry.sampling, OncePerEpoch) or rate is None:
        return 1
    participations = entry.sampling.participations if isinstance(entry.sampling, BallsInBins) else 1
    return max(int(participations / rate), 1)


def read_federated(data: bytes, path: str) -> Federated:
    """Return the [federated] table of a file's content, the rest of which is read as strictly.

    Raises:
        InvalidFile: With every problem found, at its place; a file without [federated] is one.
    """
    table = section(data, path, "federated")
    if not isinstance(table, Federated):
        text, tables = toml_document(data, path)
        findings = Findings()
        findings.add("DP005", ("federated",), "a [federated] table, which says what the server and its clients do", "none")
        refuse(findings, tables, text, path)
    assert isinstance(table, Federated)
    return table
