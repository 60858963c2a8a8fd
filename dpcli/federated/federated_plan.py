"""The plan of a federated run, which is made before any client takes part.

In a *round* of federated training some clients compute an update from their own data, and the server uses a noisy sum of the updates. The
plan states the *entry* ([[mechanism]] table) that a round performs, the number of rounds, and the number of rounds that one charge in a
ledger pays for. `dpcli.rounds` (rounds.py) makes it from a file, and asks it for the pipeline of each charge.

Rounds with independent noise are charged one by one, with two exceptions. A *pass* over the clients costs as much as its first round,
because each client takes part once. Correlated noise over n rounds (a *run* of the noise) is one mechanism. So one charge pays for a
complete pass or run: this number of rounds is the `portion`. If sampling does not amplify, and a client takes part at most k times, the
charges of k rounds pay for all rounds (`paid_by`). If either number were wrong, rounds could go unpaid. round_checks.py refuses a file
whose entry costs less than its rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpcli.federated.federated_settings import Federated
from dpcli.federated.round_checks import candidate_entries, rate_of, steps_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import sample_readers
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.file.toml.findings import Findings
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, OncePerEpoch, Unsampled
from dpcli.sessions.priced import FilePlan


@dataclass(frozen=True, slots=True)
class FederatedPlan(FilePlan):
    """The plan of a file with [federated].

    Attributes:
        table: The [federated] table of the file.
        entry: The [[mechanism]] entry that a round performs.
        rounds: Number of rounds in the plan.
        portion: Smallest number of rounds that a charge pays for. Every charge pays for a multiple of this number.
        paid_by: Number of charged rounds that pay for all rounds of the plan; at most `rounds`. Without sampling and with independent
            noise, it is the number of rounds in which one client takes part.
        rate: Share of the clients that take part in a round; None if it is unknown.
    """

    table: Federated
    entry: Entry
    rounds: int
    portion: int
    paid_by: int
    rate: Fraction | None

    @property
    def population(self) -> int | None:
        """The declared number of clients; None if the file does not state it."""
        return self.pipeline.privacy.dataset_size or self.table.population

    @property
    def rounds_per_step(self) -> int:
        return _rounds_per_step(self.entry)

    @property
    def rest(self) -> Pipeline | None:
        """The pipeline of the entries that no round performs; None if rounds perform all entries."""
        performed = sample_readers(self.entry, self.pipeline.mechanisms)  # the entry, and those that read the same sample
        unperformed = tuple(entry for entry in self.pipeline.mechanisms if entry not in performed)
        return self._priced(unperformed) if unperformed else None

    def charge(self, rounds: int, with_rest: bool) -> Pipeline:
        """Return a pipeline with the cost of a number of rounds, including entries that read the sample of the round's entry.

        Args:
            rounds: Number of rounds, a multiple of `portion`.
            with_rest: Whether to include the entries that no round performs.
        """
        steps = rounds // self.rounds_per_step
        performed = sample_readers(self.entry, self.pipeline.mechanisms)
        entries = [entry for entry in self.pipeline.mechanisms if with_rest or entry in performed]
        return self._priced(tuple(replace(entry, steps=steps, epochs=None) if entry in performed else entry for entry in entries))

    def _priced(self, entries: tuple[Entry, ...]) -> Pipeline:
        """Return the pipeline with these entries, without [federated] and similar tables and [budget]: the ledger caps a run."""
        return replace(self.pipeline, mechanisms=entries, sections=(), budget=None)


def federated_plan(path: str) -> FederatedPlan:
    """Return the plan of a file. If the file states its noise as "calibrate", the noise is computed.

    Raises:
        InputError: If the file cannot be read or has no [federated], or its entry costs less than the described rounds.
        CannotCertify: If no amount of noise meets the budget.
    """
    from dpcli.analysis.calibrate_file import solved_pipeline

    data = read_bytes(path)
    table = read_federated(data, path)
    pipeline = solved_pipeline(data, path)
    refuse_contradicted(pipeline)  # the checks of the tables again, with the computed noise
    (entry,) = candidate_entries(table, pipeline.mechanisms)
    steps, rate = steps_of(entry, pipeline.privacy), rate_of(table, entry, pipeline.privacy)
    rounds_per_step = _rounds_per_step(entry)
    rounds = table.rounds or steps * rounds_per_step
    # Without sampling, the steps are the rounds in which one client takes part, and their charge pays for all rounds.
    paid_by = steps if isinstance(entry.sampling, Unsampled | None) and rounds_per_step == 1 else rounds
    return FederatedPlan(path, pipeline, table, entry, rounds, _portion(entry, rate), paid_by, rate)


def _rounds_per_step(entry: Entry) -> int:
    """Return the number of rounds in one step of the entry: the length of a run of correlated noise, or 1 for independent noise."""
    return entry.spec.iterations if isinstance(entry.spec, CorrelatedSpec) else 1


def _portion(entry: Entry, rate: Fraction | None) -> int:
    """Return the number of consecutive rounds that cost no more than their first round.

    These are the rounds of a run of correlated noise, or the rounds of a pass over the clients as the accountant counts it.
    """
    if isinstance(entry.spec, CorrelatedSpec) or not isinstance(entry.sampling, OncePerEpoch) or rate is None:
        return _rounds_per_step(entry)
    participations = entry.sampling.participations if isinstance(entry.sampling, BallsInBins) else 1
    return max(int(participations / rate), 1)  # rounded down, like the accountant's count


def read_federated(data: bytes, path: str) -> Federated:
    """Return the [federated] table of a file. The other tables of the file must be valid too.

    Raises InvalidFile if the file has problems, each reported at its place, or has no [federated].
    """
    table = section(data, path, "federated")
    if not isinstance(table, Federated):  # a missing table is reported like any other problem of the file
        text, tables = toml_document(data, path)
        findings = Findings()
        findings.add("DP005", ("federated",), "a [federated] table, which describes the server and its clients", "none")
        refuse(findings, tables, text, path)
    assert isinstance(table, Federated)
    return table
