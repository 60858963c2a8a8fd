"""The ledger of one dataset, which decides whether a run fits in the remaining privacy budget and records the run.

`dpcli budget`, `dpcli.budget` and the commands that draw noise call `Ledger`. Its methods, in order: charges (`spend`, `reserve`, ...);
rules (`amend`, `quota`, ...); corrections; retired blocks; upgrade, and moves to another ledger. From `RunPrices` (run_prices.py) it has
the methods for the name, the price and the blocks of a run.

A run is *charged* before its noise is drawn. Its *key* is its name, and its *cost* is in the currency of the ledger's *filter*, a theorem
that adds up runs even if they were chosen from earlier outputs (filters/filter.py). The *cap* limits the sum. A dataset may be cut into
*blocks*, each with a cap of its own; a run is charged on the blocks of its *window* (blocks/family.py). In a *two-person* ledger some
changes are only *proposals* until another person approves them (governance/proposals.py).

A method that changes something builds a *request* (requests.py, governance/amendments.py, stores/move_requests.py). `EntryLog.append_all`
(entry_log.py) asks it for its entry, appends that entry, and returns a *receipt*. So the rules of a charge are in `Charge`, and this class
turns a pipeline into a `Charge`. `Proposable` makes a proposal of a request in a two-person ledger, and `visible_text` makes a text of a
user fit for an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.file.keys.words import has_words
from dpcli.ledger import amounts
from dpcli.ledger.chain import digest
from dpcli.ledger.charges.ledger_run import Run, payer
from dpcli.ledger.entry_log import KeyedRequest, Receipt
from dpcli.ledger.filters.filter import Cost, sum_of
from dpcli.ledger.governance.amendments import Amend, Approve, Proposable, Refuse, SetQuota, SetRate
from dpcli.ledger.governance.proposals import proposal_numbered
from dpcli.ledger.governance.quotas import ALERT_AT
from dpcli.ledger.grammar import visible_text
from dpcli.ledger.requests import (
    OWN_KEY,
    Acknowledge,
    Charge,
    CountAnswers,
    Retire,
    RunStep,
    Upgrade,
    checked_key,
)
from dpcli.ledger.run_prices import RunPrices
from dpcli.ledger.stores.move_requests import Arrived, Leave

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


def require_first_charge(receipt: Receipt, key: str) -> Receipt:
    """Return the receipt of a charge. Raises LedgerError if the run was charged before, because its noise may have been drawn already."""
    if receipt.repeated:
        raise LedgerError(f'key "{key}": expected a run that was not charged before, found one that was: {OWN_KEY}')
    return receipt


class Ledger(RunPrices):
    """The ledger of a dataset in a store. `EntryLog` describes the attributes, and `RunPrices` has the prices of runs.

    Arguments that many methods share: `why` is the reason, which the entry records. InputError is raised if a required reason is missing.
    Except in `reserve`, `expires` is for a two-person ledger: the time until which another person may approve the proposal
    ("2030-12-31T00:00:00Z", "7d", "36h"), at most 31 days ahead; None for a week. InputError is raised if it is invalid, or stated in a
    ledger without the two-person rule.
    """

    def spend(
        self,
        pipeline: Pipeline,
        key: str,
        delta: float | None = None,
        why: str = "",
        window: Sequence[str] = (),
        certificate: str = "",
    ) -> Receipt:
        """Charge a run that is made at once. Noise may be drawn only after this method returns, because only then the charge is durable.

        Args:
            key: Name of the run. If the request is repeated under this key, it is not charged again.
            delta: The delta at which the filters approx-dp and advanced charge the run's epsilon. If None, it is the delta of the file.
            window: The blocks that the run reads, as names or ranges FIRST..LAST. If empty, they are the blocks that the pipeline states.
            certificate: SHA-256 of a certificate about the run, which the entry names; "" for none.

        Raises:
            Denied: The run does not fit in the budget. Nothing was written.
            LedgerError: The key belongs to another run, the dataset has moved, or its ledger cannot be read or written.
            InputError: The run states other terms than the ledger, or its window is wrong or missing.
            CannotCertify, NotRepresentable: The run has no cost under the terms of the ledger.
        """
        request = self._request("spend", pipeline, key, delta, why=why, window=window, certificate=certificate)
        return self._charge(request, pipeline)

    def spend_both(self, parts: Sequence[tuple[Pipeline, str]], together: Pipeline, why: str = "") -> tuple[Receipt, ...]:
        """Charge the parts of one run, each under its own key, as `spend` does. Either all parts are charged or none.

        Args:
            parts: The pipeline and the key of each part.
            together: The whole run, which the message of `Denied` describes.

        Raises:
            Denied: The parts do not fit together. The message states their total cost.
            LedgerError, InputError, CannotCertify, NotRepresentable: As `spend`.
        """
        requests = [self._request("spend", pipeline, key, None, why=why) for pipeline, key in parts]
        try:
            return self.append_all([KeyedRequest(request, request.key) for request in requests])
        except Denied:
            total = replace(requests[0], cost=sum_of([request.cost for request in requests]))
            raise self._denial_error(total, together) from None

    def reserve(
        self,
        pipeline: Pipeline,
        key: str,
        delta: float | None = None,
        why: str = "",
        expires: str | None = None,
        window: Sequence[str] = (),
        certificate: str = "",
    ) -> Receipt:
        """Charge a long run before it starts. Call `start` before the first noise is drawn, and `commit` at the end.

        A resumed run draws fresh noise. So the steps that it repeats are a new run, which needs a key of its own.

        The other arguments and the errors are as in `spend`. LedgerError is also raised if the run was started before.

        Args:
            expires: The time until which the reservation can be voided, as an entry states it ("2030-12-31T00:00:00Z"). If None, the
                reservation can be voided until the run is started.
        """
        request = self._request("reserve", pipeline, key, delta, why=why, expires=expires, window=window, certificate=certificate)
        return self._charge(request, pipeline)

    def start(self, key: str, why: str = "") -> Receipt:
        """Record that noise is about to be drawn. The reservation can no longer be voided.

        A reason is required if another person reserved the run.

        Raises LedgerError if there is no such run, or it was started, has ended or was voided. Draw no noise then.
        """
        return self._append(RunStep("start", key, self.who, visible_text(why)), key)

    def commit(self, key: str, why: str = "") -> Receipt:
        """Record that a reserved run has ended. It stays charged. Raises LedgerError if there is no such run, or it was voided.

        A reason is required if another person reserved the run, or if it was never started.
        """
        return self._append(RunStep("commit", key, self.who, visible_text(why)), key)

    def count(self, key: str, of: str, count: int, total: int) -> int:
        """Grant `count` more answers of a run, all or none, and return the number of answers granted so far.

        Noise may be drawn only after this method returns, because only then the grant is durable. The ledger records the number. So no
        answer is granted twice if an earlier copy of the run's folder is restored.

        Args:
            of: Name of the answers.
            total: Largest number of answers that the charge of the run pays for.

        Raises:
            Denied: More than `total` answers would be granted. Nothing was written.
            LedgerError: The run was not started, was voided, or was charged to another person.
        """
        entry = self._append(CountAnswers(key, of, count, total, self.who), key).entry
        assert entry is not None
        return int(entry.content["count"])

    def void(self, key: str, why: str, expires: str | None = None) -> Receipt:
        """Cancel a reservation before any noise was drawn. In a two-person ledger this is a proposal. A reason is required.

        Raises LedgerError if there is no such run, or it was started, has ended or has expired.
        """
        return self._append(Proposable(RunStep("void", key, self.who, visible_text(why)), expires), key)

    def amend(
        self,
        epsilon: float,
        why: str,
        approver: str = "",
        acknowledged: bool = False,
        expires: str | None = None,
        unseen: bool = False,
    ) -> Receipt:
        """Change the cap on epsilon. In a two-person ledger this is a proposal, which takes effect when another person approves it.

        A reason is required.

        Args:
            approver: The person who approves the change; "" in a two-person ledger.
            acknowledged: The person accepts that a cap raised after outputs were seen bounds nothing, or that a lower cap does not reduce
                the loss of earlier runs.
            unseen: The person states that nobody who decides on the cap had seen an output.

        Raises InputError if the cap is not a number > 0, a statement is missing, the ledger is in declared mode, or the approver is the
        person who asks or is named in a two-person ledger.
        """
        request = Amend(epsilon, visible_text(why), visible_text(approver), self.who, unseen, acknowledged)
        return self._append(Proposable(request, expires), "")

    def approve(self, seq: int, why: str, unseen: bool = False, acknowledged: bool = False) -> Receipt:
        """Approve the proposal of entry `seq`, which makes it effective.

        One of the statements `unseen` and `acknowledged`, as in `amend`, is required if the proposal raises the cap above what is
        guaranteed.

        Raises:
            LedgerError: The proposal is not open or has expired, the approver made it, or its content is not valid in the current state.
            InputError: The reason is missing, or one of the two statements.
        """
        proposal = proposal_numbered(self.state().proposals, seq)
        if proposal is not None and proposal.asks["kind"] == "quota":  # a quota counts the earlier charges of each person
            self._require_people()
        return self._append(Approve(seq, self.who, visible_text(why), unseen, acknowledged), "")

    def refuse(self, seq: int, why: str) -> Receipt:
        """Close the proposal of entry `seq`. Its proposer withdraws it, or another person refuses it. A reason is required.

        Raises LedgerError if the proposal is not open, and InputError if the ledger is not a two-person ledger.
        """
        return self._append(Refuse(seq, visible_text(why)), "")

    def quota(
        self,
        of: str,
        name: str,
        share: str,
        members: Sequence[str] = (),
        alert_at: str = ALERT_AT,
        why: str = "",
        expires: str | None = None,
    ) -> Receipt:
        """Limit the charges of a person, or of all members of a team together, to a share of the cap.

        A reason is required. In a two-person ledger this is a proposal.

        Args:
            of: "person" or "team".
            name: Name of the person or team.
            share: The limit as a share of the cap, a decimal in [0, 1]; 1 removes the limit.
            members: Names of the team's members, in any order; ignored for a person.
            alert_at: The share of the limit from which on a warning is shown, a decimal in [0, 1].
        """
        self._require_people()
        people = tuple(sorted({*members})) if of == "team" else (name,)
        return self._append(Proposable(SetQuota(of, name, people, share, alert_at, visible_text(why)), expires), "")

    def rate(self, per_day: int, why: str, expires: str | None = None) -> Receipt:
        """Limit the entries without a cost that each login may append in a day, in UTC. In a two-person ledger this is a proposal.

        Raises:
            InputError: The ledger is a file, which cannot distinguish people.
            LedgerError: The definitions of the database are of an earlier version, which knows no rate, or the dataset has moved.
        """
        self.state().refuse_moved()
        if self.store.who is None:
            raise InputError(f"{self.store.place}: expected a ledger in a database, found a file, which cannot tell logins apart")
        self._require_current("rate")
        return self._append(Proposable(SetRate(per_day, visible_text(why)), expires), "")

    def acknowledge(self, finding: str, why: str, expires: str | None = None) -> Receipt:
        """Record the answer to a finding, in the form of `visible_text`. Use `dpcli.ledger.verify.acknowledge`, which checks the finding.

        In a two-person ledger this is a proposal. A reason is required. Raises LedgerError if the definitions of the database are of an
        earlier version, which knows no acknowledgement.
        """
        self._require_current("acknowledgement")
        return self._append(Proposable(Acknowledge(finding, visible_text(why)), expires), "")

    def _require_current(self, entry: str) -> None:
        """Check that the definitions of the store accept the new kinds of entries. Raises LedgerError if they are of an earlier version."""
        if self.store.outdated:
            raise LedgerError(f"{self.store.place}: {self.store.outdated}, which knows no {entry}: run dpcli budget upgrade first")

    def correct(self, key: str, pipeline: Pipeline, why: str, delta: float | None = None) -> Receipt:
        """Charge what is missing from the price of a run, which was charged by a wrong file or too low. It permits no further noise.

        The entry is a charge of its own, under the key "correction of entry N", and names the run. A price is never lowered, because
        nobody can check afterwards that the run was the cheaper one.

        Args:
            pipeline: What the run did.
            delta: As in `spend`.

        Raises:
            Denied: More was spent than the cap or a quota allows. Nothing was written.
            InputError: The reason is missing, the run was charged as much already, or another login corrected it.
            LedgerError: There is no such run, or it was not started.
        """
        self._require_current("correction")
        self.state().refuse_moved()
        run = self.state().run(key)
        if not has_words(why):
            raise InputError("--reason: state why the run was priced wrongly")
        request = self._request("spend", pipeline, self._correction_key(run), delta, why=why, window=run.window)
        missing = amounts.subtract(amounts.read(request.cost.amounts), self._paid_for(run))
        if max(missing.values()) <= 0:
            raise InputError(
                f'entry {run.seq} ("{key}"): expected a file that costs more than was charged: a price is never lowered'
            )
        more = {name: amounts.sum_text(max(value, amounts.ZERO)) for name, value in missing.items()}
        detail = f"what entry {run.seq} lacks; {request.cost.detail}"
        request = replace(request, cost=Cost(more, detail), corrects=key)
        try:
            return self._charge(request, pipeline)
        except Denied:
            from dpcli.ledger.planning.needed_cap import correction_denial

            raise Denied(correction_denial(self.state(), request, run.seq)) from None

    def _correction_key(self, run: Run) -> str:
        """Return the key of the correction of a run. Raises InputError if the run was corrected under another key or by another login."""
        # Also in a database the key has no login. So if two people correct the run at the same moment, only one of them gets the key.
        own_key = f"correction of entry {run.seq}"
        taken = self.state().runs.get(own_key)
        if taken is not None and taken.content.get("corrects") != run.key:  # another run has this key
            own_key = self.own_key(own_key)
        for other in self.state().runs.values():
            if other.content.get("corrects") == run.key and (other.key != own_key or payer(other.content) != self.who):
                raise InputError(
                    f'entry {run.seq} ("{run.key}") was corrected by entry {other.seq} already; correct "{other.key}" if more is missing'
                )
        return own_key

    def _paid_for(self, run: Run) -> amounts.Amounts:
        """Return what was charged for a run, together with the run that it corrects, if it corrects one."""
        corrected = run.content.get("corrects")
        return run.cost if corrected is None else amounts.add(run.cost, self._paid_for(self.state().run(corrected)))

    def retire(self, window: Sequence[str], why: str) -> Receipt:
        """Close blocks permanently. Raises InputError if the dataset has no blocks, a block is wrong, or the reason is missing."""
        return self._append(Retire(self.window(window), visible_text(why)), "")

    def upgrade(self) -> Receipt:
        """Record that this version of dpcli has renewed the definitions that guard the entries.

        Raises LedgerError if the definitions differ from those that the chain states, and their version is not a later one.
        """
        return self._append(Upgrade(digest(self.store.schema()), self.store.version), "", even_moved=True)

    def leave(self, to: str, why: str = "", expires: str | None = None) -> Receipt:
        """Close the dataset because it moves to the ledger at `to` (dpcli.ledger.stores.copying). In a two-person ledger, propose this.

        Raises LedgerError if the dataset has moved elsewhere.
        """
        return self._append(Proposable(Leave(to, visible_text(why)), expires), "", even_moved=True)

    def name_copy(self, copy: str) -> Receipt:
        """Record the name of the copy to which the dataset has moved. The name is the hash of the copy's first own entry."""
        return self._append(Arrived(copy), "", even_moved=True)

    def _charge(self, request: Charge, pipeline: Pipeline) -> Receipt:
        """Append a charge. Raises Denied, with what would fit, if it exceeds the budget."""
        try:
            receipt = self._append(request, request.key)
        except Denied:
            raise self._denial_error(request, pipeline) from None
        if receipt.repeated and receipt.run is not None:
            return replace(receipt, notes=request.notes_on_repetition(receipt.run))
        return receipt

    def _denial_error(self, request: Charge, pipeline: Pipeline) -> Denied:
        from dpcli.ledger.denial import denial

        return Denied(denial(self.state(), pipeline, request.cost, request.delta, request.window, self.who))

    def _request(
        self,
        kind: str,
        pipeline: Pipeline,
        key: str,
        delta: float | None,
        *,
        why: str,
        expires: str | None = None,
        window: Sequence[str] = (),
        certificate: str = "",
    ) -> Charge:
        """Return the request of a charge with its cost and its blocks. The arguments are those of `spend` and `reserve`."""
        from dpcli.file.pipeline.canonical import tables_of

        cost, described_at = self.cost(pipeline, delta)
        blocks = self.stated_window(pipeline, self.resolve_trailing(window))
        return Charge(
            kind,
            checked_key(key),
            tables_of(pipeline),  # [privacy] and the mechanisms, which determine the cost
            described_at,
            cost,
            self.who,
            why=visible_text(why),
            expires=expires,
            window=blocks,
            certificate=certificate,
        )
