"""The name, the price and the blocks under which a ledger would charge a run. Nothing is written.

`Ledger` (ledger.py) is a subclass, which charges runs; dry runs, quotes and plans only ask for the price. A run is *charged* before its
noise is drawn. Its *key* is its name, and its *cost* is in the currency of the ledger's *filter*, a theorem that adds up runs even if they
were chosen from earlier outputs (filters/filter.py). The *terms* are what was fixed at the opening (terms.py). *This login* is the person
who signs the entries (`who`). A dataset may be cut into *blocks*, such as days, each with a cap of its own; a run is charged on the blocks
of its *window* (blocks/family.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.file.pipeline.parts import entry_that_shows_blanks
from dpcli.ledger.charges.ledger_run import payer
from dpcli.ledger.entry_log import EntryLog
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.grammar import LONGEST_NAME
from dpcli.ledger.requests import SCOPE, checked_key, key_scope
from dpcli.mechanisms.neighbours import Adjacency

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


class Price(NamedTuple):
    """The cost of one run in the currency of the ledger's filter, and the delta at which the run is *described*.

    The filters approx-dp and advanced charge the epsilon of the run at this delta, and the delta. Other filters ignore it.
    """

    cost: Cost
    delta: float


class RunPrices(EntryLog):
    """The names, prices and blocks of the runs of a dataset in a store. `EntryLog` describes the attributes.

    `state()` reads new entries first; `_state` is the state as it was read last, which suffices for terms, because no entry changes them.
    """

    def own_key(self, key: str) -> str:
        """Return the name of the run that this login charges under a key that a person chose: "ada//week-7" for the key "week-7" of ada.

        Names begin with the login in a database only, so that nobody can take the key of someone else. A run that this login charged under
        the bare key, before keys had logins or in a file, keeps its name, so that a repeated request still charges it once.
        """
        return self._own_name(checked_key(key))

    def _own_name(self, key: str) -> str:
        """Return the name of this login's run under a key, which may not exist yet. Raises InputError if the name would be too long."""
        if SCOPE in key:
            return key  # a full name; the database refuses a charge under the name of another login
        runs, name_with_login = self.state().runs, f"{key_scope(self.who)}{key}"
        run_under_key = runs.get(key)
        if run_under_key is not None and payer(run_under_key.content) == self.who:
            return key
        if not self.store.scopes_keys and name_with_login not in runs:  # a file, unless the run came from a database with its name
            return key
        if len(name_with_login) > LONGEST_NAME:
            raise InputError(
                f"--key: expected at most {LONGEST_NAME - len(name_with_login) + len(key)} characters, as the name of the run begins with "
                f"the login, found {len(key)}"
            )
        return name_with_login

    def key_of_run(self, key: str) -> str:
        """Return the name of an existing run: of this login's run under the key or, if it has none, of the run with just this name."""
        own = self._own_name(key)
        return own if own in self.state().runs or key not in self.state().runs else key

    def cost(self, pipeline: Pipeline, delta: float | None = None) -> Price:
        """Return what one run would be charged. Nothing is written.

        Args:
            delta: The delta at which the run is described. If None, it is the file's privacy.delta, or 0 if the file has none.

        Raises:
            InputError: The run states another dataset, unit, adjacency or dataset_size, or is not one of the declared runs of a ledger in
                declared mode. Or the delta is not in [0, 1).
            CannotCertify, NotRepresentable: The run has no cost under the terms of the ledger.
            LedgerError: The dataset has moved, or its ledger cannot be read.
        """
        terms = self._state.terms or self.state().open_terms()
        self._state.refuse_moved()  # a charge checks this again, in the newest state
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
            if trailing is None:
                blocks.append(text)
            else:
                today = date.fromisoformat(self.now()[:10])  # the first ten characters of a time are its day
                blocks += trailing.blocks(family.kind, today)
        return tuple(blocks)

    def stated_window(self, pipeline: Pipeline, given: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the blocks that a run reads. The file states them, or the caller gives them.

        Every charge calls this method, so that a run is charged on the blocks that it states.

        Under the adjacency zero-out a neighbouring dataset has a blank in place of a record, and the blank may lie in another block. So a
        mechanism is accepted on blocks only if a blank adds nothing to its output.

        Raises InputError as `window`, and if the file and the caller state different blocks, or a mechanism may reveal a blank.
        """
        stated = pipeline.privacy.window or ()
        if given and stated and self.window(given) != self.window(stated):
            raise InputError(
                f"--window: {', '.join(given)[:60]} contradicts the window of {pipeline.path or '<pipeline>'} ({', '.join(stated)[:60]})"
            )
        blocks = self.window(given or stated)
        if blocks and pipeline.privacy.adjacency is Adjacency.ZERO_OUT:
            revealing = entry_that_shows_blanks(pipeline.mechanisms)  # the name of a mechanism to which a blank may add something
            if revealing is not None:
                raise InputError(
                    f'mechanism["{revealing}"]: expected noise_multiplier and no max_batch_size: a record that is blanked may move '
                    "between blocks, and this mechanism may reveal where a blank is"
                )
        return blocks
