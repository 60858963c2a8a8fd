"""The ledger of one dataset, which decides whether a run fits in the remaining privacy budget and records the run.

`dpcli budget`, `dpcli.budget` and the commands that draw noise call `Ledger`. Its methods, in order: keys; prices; charges (`spend`,
`reserve`, ...); rules (`amend`, `quota`, ...); corrections; windows of blocks; upgrade, and moves to another ledger.

A run is *charged* before its noise is drawn. Its *key* is its name, and its *cost* is in the currency of the ledger's *filter*, a theorem
that adds up runs even if they were chosen from earlier outputs (filters/filter.py). The *cap* limits the sum. A dataset may be cut into
*blocks*, each with a cap of its own; a run is charged on the blocks of its *window* (blocks/family.py). In a *two-person* ledger some
changes are only *proposals* until another person approves them (governance/proposals.py).

A method that changes something builds a request (requests.py, governance/amendments.py). `EntryLog.append_all` (entry_log.py) asks it for
its entry and appends that entry. So the rules of a charge are in `Charge`, and this class turns a pipeline into a `Charge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import CannotCertify, Denied, InputError, LedgerError, NotRepresentable
from dpcli.file.keys.words import has_words
from dpcli.file.pipeline.parts import entry_that_shows_blanks
from dpcli.ledger import amounts
from dpcli.ledger.chain import digest
from dpcli.ledger.entry_log import EntryLog, KeyedRequest, Receipt
from dpcli.ledger.filters.filter import Cost, sum_of
from dpcli.ledger.governance.amendments import Amend, Approve, Proposable, Refuse, SetQuota, SetRate
from dpcli.ledger.governance.proposals import proposal_numbered
from dpcli.ledger.governance.quotas import ALERT_AT
from dpcli.ledger.grammar import LONGEST_NAME, visible_text
from dpcli.ledger.requests import (
    OWN_KEY,
    SCOPE,
    Acknowledge,
    Arrived,
    Charge,
    CountAnswers,
    Leave,
    Retire,
    RunStep,
    Upgrade,
    checked_key,
    key_scope,
)
from dpcli.ledger.state import Run, payer
from dpcli.mechanisms.neighbours import Adjacency

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


class Price(NamedTuple):
    """The cost of one run in the currency of the ledger's filter, and the delta at which the run is *described*.

    The filters approx-dp and advanced charge the epsilon of the run at this delta, and the delta. Other filters ignore it.
    """

    cost: Cost
    delta: float


def require_first_charge(receipt: Receipt, key: str) -> Receipt:
    """Return the receipt of a charge. Raises LedgerError if the run was charged before, because its noise may have been drawn already."""
    if receipt.repeated:
        raise LedgerError(f'key "{key}": expected a run that was not charged before, found one that was: {OWN_KEY}')
    return receipt


class Ledger(EntryLog):
    """The ledger of a dataset in a store. `EntryLog` describes the attributes.

    Arguments that many methods share: `why` is the reason, which the entry records. InputError is raised if a required reason is missing.
    Except in `reserve`, `expires` is for a two-person ledger: the time until which another person may approve the proposal
    ("2030-12-31T00:00:00Z", "7d", "36h"), at most 31 days ahead; None for a week. InputError is raised if it is invalid, or stated in a
    ledger without the two-person rule.
    """

    def own_key(self, key: str) -> str:
        """Return the name of the run that this login charges under a key that a person chose: "ada//week-7" for the key "week-7" of ada.

        Names begin with the login in a database only, so that nobody can take the key of somebody else. A run that this login charged under
        the bare key, before keys had logins or in a file, keeps its name, so that a repeated request still charges it once.
        """
        return self._own_name(checked_key(key))

    def _own_name(self, key: str) -> str:
        if SCOPE in key:
            return key  # a full name; the database refuses a charge under the name of another login
        runs, own = self.state().runs, f"{key_scope(self.who)}{key}"
        bare = runs.get(key)
        if bare is not None and payer(bare.content) == self.who:
            return key
        if not self.store.scopes_keys and own not in runs:
            return key
        if len(own) > LONGEST_NAME:
            raise InputError(
                f"--key: expected at most {LONGEST_NAME - len(own) + len(key)} characters, as the name of the run begins with the login, "
                f"found {len(key)}"
            )
        return own

    def key_of_run(self, key: str) -> str:
        """Return the name of an existing run: of this login's run under the key or, if it has none, of the run with just this name."""
        own = self._own_name(key)
        return own if own in self.state().runs or key not in self.state().runs else key

    def cost(self, pipeline: Pipeline, delta: float | None = None) -> Price:
        """Return what one run would be charged. Nothing is written.

        Args:
            delta: The delta of the description. If None, it is the file's privacy.delta, or 0 if the file has none.

        Raises:
            InputError: The run states another dataset, unit, adjacency or dataset_size, or is not one of the declared runs of a ledger in
                declared mode. Or the delta is not in [0, 1).
            CannotCertify, NotRepresentable: The run has no cost under the terms of the ledger.
            LedgerError: The dataset has moved, or its ledger cannot be read.
        """
        terms = self._state.terms or self.state().open_terms()  # cached terms are current, because no entry changes them
        self._state.refuse_moved()
        if pipeline.privacy.dataset not in (None, self.dataset):
            raise InputError(
                f'{pipeline.path or "<pipeline>"}: privacy.dataset: expected "{self.dataset}", the dataset of this ledger, or none, found '
                f'"{pipeline.privacy.dataset}"'
            )
        terms.refuse_other_privacy(pipeline)
        stated = pipeline.privacy.delta if delta is None else delta
        described_at = 0.0 if stated is None else stated
        if not 0.0 <= described_at < 1.0:
            raise InputError(f"expected a delta in [0, 1), found {described_at!r}")
        try:
            return Price(terms.price(pipeline, described_at), described_at)
        except (CannotCertify, NotRepresentable) as refusal:
            raise type(refusal)(f"{refusal}{terms.filter_advice(pipeline, described_at)}") from None

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
            delta: As in `cost`.
            window: The blocks that the run reads, as names or ranges FIRST..LAST. If empty, they are the blocks that the pipeline states.
            certificate: SHA-256 of a certificate about the run, which the entry names; "" for none.

        Raises:
            Denied: The run does not fit in the budget. Nothing was written.
            LedgerError: The key belongs to another run, or as `cost`.
            InputError, CannotCertify, NotRepresentable: As `cost` and `stated_window`.
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
        answer is granted twice if an earlier copy of the run's folder is restored. `CountAnswers` describes the arguments.

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

        `Amend` (governance/amendments.py) describes the other arguments. A reason is required.

        Raises InputError if the cap is not a number > 0, a statement is missing, the ledger is in declared mode, or the approver is the
        person who asks or is named in a two-person ledger.
        """
        request = Amend(epsilon, visible_text(why), visible_text(approver), self.who, unseen, acknowledged)
        return self._append(Proposable(request, expires), "")

    def approve(self, seq: int, why: str, unseen: bool = False, acknowledged: bool = False) -> Receipt:
        """Approve the proposal of entry `seq`, which makes it effective.

        One of `unseen` and `acknowledged` is required if the proposal raises the cap above what is guaranteed (`Amend`).

        Raises:
            LedgerError: The proposal is not open or has expired, the approver made it, or its content is not valid in the current state.
            InputError: The reason is missing, or one of the two statements.
        """
        proposal = proposal_numbered(self.state().proposals, seq)
        if proposal is not None and proposal.asks["kind"] == "quota":
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

        `SetQuota` (governance/amendments.py) describes the arguments. `members` may be in any order, and are ignored for a person. A reason
        is required. In a two-person ledger this is a proposal.
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
            delta: As in `cost`.

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
        own = f"correction of entry {run.seq}"  # also in a database, so that of two people at the same moment one gets the key
        taken = self.state().runs.get(own)
        if taken is not None and taken.content.get("corrects") != key:
            own = self.own_key(own)
        for other in self.state().runs.values():
            if other.content.get("corrects") == key and (other.key != own or payer(other.content) != self.who):
                raise InputError(
                    f'entry {run.seq} ("{key}") was corrected by entry {other.seq} already; correct "{other.key}" if more is missing'
                )
        request = self._request("spend", pipeline, own, delta, why=why, window=run.window)
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

    def _paid_for(self, run: Run) -> amounts.Amounts:
        """Return what was charged for a run, together with the run that it corrects, if it corrects one."""
        corrected = run.content.get("corrects")
        return run.cost if corrected is None else amounts.add(run.cost, self._paid_for(self.state().run(corrected)))

    def retire(self, window: Sequence[str], why: str) -> Receipt:
        """Close blocks permanently. Raises InputError if the dataset has no blocks, a block is wrong, or the reason is missing."""
        return self._append(Retire(self.window(window), visible_text(why)), "")

    def window(self, stated: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the stated blocks in order; an empty tuple if the dataset has no blocks.

        Raises InputError if a name is wrong, no block is stated, or blocks are stated for a dataset that has none.
        """
        family = (self._state.terms or self.state().open_terms()).family
        if family is None:
            if stated:
                raise InputError(f'--window: expected none, as "{self.dataset}" is not cut into blocks, found {stated[0]}')
            return ()
        if not stated:
            raise InputError(
                f'--window: expected the blocks of "{self.dataset}" that the run reads ({family.kind.word}): state them as window '
                "under [privacy], or by this flag of a command that charges a run"
            )
        return family.window(stated)

    def resolve_trailing(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return the blocks that a flag names. A trailing window such as "last 7 days" is replaced by its blocks.

        A trailing window ends with the day before today, by the ledger's clock in UTC (dpcli.ledger.planning.schedule.Trailing).

        Raises InputError if the window is trailing, but the blocks of the dataset are not days or weeks.
        """
        if not given:
            return ()
        from dpcli.ledger.planning.schedule import trailing_of

        family = self.state().open_terms().family
        if family is None:
            return tuple(given)
        blocks: list[str] = []
        for text in given:
            trailing = trailing_of(text, family.kind)
            blocks += [text] if trailing is None else trailing.blocks(family.kind, date.fromisoformat(self.now()[:10]))
        return tuple(blocks)

    def stated_window(self, pipeline: Pipeline, given: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the blocks that a run reads. The file states them, or the caller gives them.

        Every charge calls this method, so that a run is charged on the blocks that it states.

        Under the adjacency zero-out a neighbouring dataset has a blank in place of a record, and the blank may lie in another block. So a
        mechanism is accepted on blocks only if a blank record adds nothing to its output.

        Raises InputError as `window`, and if the file and the caller state different blocks, or a mechanism may reveal a blank record.
        """
        stated = pipeline.privacy.window or ()
        if given and stated and self.window(given) != self.window(stated):
            raise InputError(
                f"--window: {', '.join(given)[:60]} contradicts the window of {pipeline.path or '<pipeline>'} ({', '.join(stated)[:60]})"
            )
        blocks = self.window(given or stated)
        if blocks and pipeline.privacy.adjacency is Adjacency.ZERO_OUT:
            revealing = entry_that_shows_blanks(pipeline.mechanisms)
            if revealing is not None:
                raise InputError(
                    f'mechanism["{revealing}"]: expected noise_multiplier and no max_batch_size: a record that is blanked may move '
                    "between blocks, and this mechanism may reveal where a blank is"
                )
        return blocks

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
            tables_of(pipeline),
            described_at,
            cost,
            self.who,
            why=visible_text(why),
            expires=expires,
            window=blocks,
            certificate=certificate,
        )
