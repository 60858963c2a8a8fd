"""Which windows still take a run: stretches of blocks without a gap, the widest and the latest of them. Asks, and spends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.ledger import amounts
from dpcli.ledger.blocks.family import MOST
from dpcli.ledger.blocks.spread import opened_blocks
from dpcli.ledger.filters.filter import Cost

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks that follow one another, each of which takes the run; single ones where the blocks have no order."""

    blocks: tuple[str, ...]

    @property
    def words(self) -> str:
        """As --window takes it."""
        return self.blocks[0] if len(self.blocks) == 1 else f"{self.blocks[0]}..{self.blocks[-1]}"


@dataclass(frozen=True, slots=True)
class BlockRoom:
    """Where one run fits now.

    asked: the blocks that were looked at, in order. stretches: of those that take it, in order. cost: of one run, on each of its blocks;
    share: of a block's cap. before, after: the first or the last of `asked`, where no block on its other side was ever charged or retired
    and none was looked at; None else. whole_takes: whether a block that was never charged takes the run.
    """

    asked: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    cost: Cost
    share: float
    whole_takes: bool
    before: str | None = None
    after: str | None = None

    @property
    def widest(self) -> Stretch | None:
        """The latest of the longest, None where nothing takes it."""
        return max(reversed(self.stretches), key=lambda stretch: len(stretch.blocks), default=None)

    @property
    def latest(self) -> Stretch | None:
        """The last one."""
        return self.stretches[-1] if self.stretches else None


def block_room(ledger: Ledger, pipeline: Pipeline, within: Sequence[str] = (), delta: float | None = None) -> BlockRoom:
    """Where a run of `pipeline` fits: among the blocks `within`, or among all that are listed or lie between those that were charged.

    Raises InputError where the dataset has no blocks, or none was charged yet and none is stated; what `cost` of a ledger raises.
    """
    state = ledger.state()
    asked = _asked(state, ledger.window(ledger.dated(within)) if within else ())
    cost, _ = ledger.cost(pipeline, delta)
    wanted = amounts.read(cost.amounts)
    takes = {block: _takes(state, wanted, block) for block in asked}
    family = state.open_terms().family
    ordered = family is not None and family.kind.ordered
    groups = groupby(asked, key=lambda block: (takes[block], "" if ordered else block))
    stretches = tuple(Stretch(tuple(blocks)) for (fits, _), blocks in groups if fits)
    whole = amounts.exceeded(wanted, state.caps) is None
    before, after = (None, None) if within else _untouched(state, asked)
    return BlockRoom(asked, gapless(state, stretches), cost, amounts.share(wanted, state.caps), whole, before, after)


def _takes(state: LedgerState, wanted: amounts.Amounts, block: str) -> bool:
    return state.closed((block,)) is None and state.over((block,)).fits(wanted)


def _asked(state: LedgerState, within: Sequence[str]) -> tuple[str, ...]:
    family = state.open_terms().family
    if family is None:
        raise InputError(f'expected a dataset of blocks, found "{state.dataset}", which is not cut into any')
    known = family.kind.listed or _touched(state)
    if within:
        return tuple(sorted(within, key=family.kind.rank))
    if not known:
        raise InputError(
            f'--within: expected the blocks to look at, as no run was charged to "{state.dataset}" yet and each is whole, found none'
        )
    if family.kind.listed:
        return tuple(known)[-MOST:]
    end = family.kind.rank(known[-1])  # a block in the year 1 must not make a list of all days since
    return tuple(family.kind.between(next(block for block in known if end - family.kind.rank(block) < MOST), known[-1]))


def _touched(state: LedgerState) -> list[str]:
    """The blocks that were charged or retired, in order."""
    return sorted({*opened_blocks(state.spent), *state.retired})


def _untouched(state: LedgerState, asked: Sequence[str]) -> tuple[str | None, str | None]:
    """Before and after which of these no block was ever charged or retired."""
    family = state.open_terms().family
    if family is None or family.kind.listed:
        return None, None
    return asked[0] if _touched(state)[0] == asked[0] else None, asked[-1]


def window_words(state: LedgerState, window: Sequence[str]) -> str:
    """A window as --window takes it, its stretches apart by commas; "" without blocks."""
    family = state.open_terms().family
    if family is None or not family.kind.ordered:
        return ", ".join(window)
    return ", ".join(found.words for found in gapless(state, [Stretch(tuple(sorted(window, key=family.kind.rank)))]))


def gapless(state: LedgerState, stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Cut where blocks in order leave some out."""
    family = state.open_terms().family
    if family is None or not family.kind.ordered:
        return tuple(stretches)
    return tuple(
        Stretch(tuple(block for _, block in part))
        for stretch in stretches
        for _, part in groupby(enumerate(stretch.blocks), key=lambda item: family.kind.rank(item[1]) - item[0])
    )
