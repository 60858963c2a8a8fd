"""The blocks in which a run still fits, as stretches of consecutive blocks, for `dpcli budget windows`. Nothing is charged.

A *block* is a part of the dataset, such as a day, with a cap of its own; a run is charged to every block of its *window* (family.py). A
block may be *retired*, after which it accepts no run. A *pipeline* is the file of a run. What fits now may not fit when the run is charged,
because others may be faster: the answer is advice, and the charge decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.ledger import amounts
from dpcli.ledger.amounts import charged_blocks
from dpcli.ledger.blocks.family import stretches, window_spelling
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.plugin import MOST_IN_WINDOW

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import LedgerState


Stretch = tuple[str, ...]  # consecutive blocks; a single block if the blocks have no order


@dataclass(frozen=True, slots=True)
class BlockRoom:
    """The blocks in which one run fits now.

    Attributes:
        within: The blocks that were checked, in order.
        stretches: The stretches of blocks in which the run fits, in order.
        cost: The cost of the run, which is charged on each of its blocks.
        share: The cost as a share of a block's cap.
        fits_unused: Whether the run fits in a block that was never charged.
        before: The first checked block, if no block before it was ever charged, retired or checked; None otherwise.
        after: The last checked block, if no block after it was ever charged, retired or checked; None otherwise.
    """

    within: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    cost: Cost
    share: float
    fits_unused: bool
    before: str | None = None
    after: str | None = None

    @property
    def widest(self) -> Stretch | None:
        """The longest stretch, or the latest of the longest ones; None if the run fits in no block."""
        return max(reversed(self.stretches), key=len, default=None)

    @property
    def latest(self) -> Stretch | None:
        """The last stretch; None if the run fits in no block."""
        return self.stretches[-1] if self.stretches else None


def block_room(ledger: Ledger, pipeline: Pipeline, within: Sequence[str] = (), delta: float | None = None) -> BlockRoom:
    """Return the blocks in which a run of `pipeline` fits.

    Args:
        ledger: The ledger. The run is only priced.
        within: The blocks to check, as --within takes them. If empty, the listed blocks are checked. If the blocks are not listed, all
            blocks from the first to the last charged or retired block are checked. In both cases only the last `MOST_IN_WINDOW` blocks are
            checked.
        delta: The delta at which the filters approx-dp and advanced charge the run's epsilon. If None, it is the delta of the file.

    Raises:
        InputError: The dataset has no blocks, or no block was charged yet and none is stated. A stated block is wrong, or the run states
            other terms than the ledger.
        CannotCertify, NotRepresentable: The run has no cost under the terms of the ledger.
        LedgerError: The dataset has moved, or its ledger cannot be read.
    """
    state = ledger.state()
    blocks = _candidates(state, ledger.window(ledger.resolve_trailing(within)) if within else ())
    cost = ledger.cost(pipeline, delta).cost
    wanted = amounts.read(cost.amounts)
    accepting = [block for block in blocks if block not in state.retired and state.on_blocks((block,)).fits(wanted)]
    family = state.open_terms().family
    assert family is not None  # else `_candidates` raised an error
    before, after = (None, None) if within else _unused_sides(state, blocks)
    return BlockRoom(
        blocks,
        tuple(stretches(family, accepting)),
        cost,
        share=amounts.largest_share(wanted, state.caps),
        fits_unused=amounts.exceeded(wanted, state.caps) is None,
        before=before,
        after=after,
    )


def _candidates(state: LedgerState, within: Sequence[str]) -> tuple[str, ...]:
    """Return the blocks to check, in order. Raises InputError if the dataset has no blocks, or if there is none to check."""
    family = state.open_terms().family
    if family is None:
        raise InputError(f'expected a dataset of blocks, found "{state.dataset}", which is not cut into blocks')
    if within:
        return tuple(sorted(within, key=family.kind.rank))
    known = family.kind.listed or _used_blocks(state)
    if not known:
        raise InputError(
            f'--within: name the blocks to check: no run was charged to "{state.dataset}" yet, so each block has its full budget'
        )
    if family.kind.listed:
        return tuple(known)[-MOST_IN_WINDOW:]
    last = known[-1]
    end = family.kind.rank(last)
    # If the used blocks are far apart (a mistyped date), only the last MOST_IN_WINDOW blocks are checked, so that the list stays short.
    first = next(block for block in known if end - family.kind.rank(block) < MOST_IN_WINDOW)
    return tuple(family.kind.between(first, last))


def _used_blocks(state: LedgerState) -> list[str]:
    return sorted({*charged_blocks(state.spent), *state.retired})


def _unused_sides(state: LedgerState, blocks: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the attributes `before` and `after` of BlockRoom, if the blocks from the first to the last used one were checked."""
    family = state.open_terms().family
    if family is None or family.kind.listed:
        return None, None
    first, last = blocks[0], blocks[-1]
    is_first_used = _used_blocks(state)[0] == first  # not if there were too many blocks to check them all
    return first if is_first_used else None, last


def window_words(state: LedgerState, window: Sequence[str]) -> str:
    """Return a window in the spelling of --window, with commas between its stretches; "" for an empty window."""
    family = state.open_terms().family
    return ", ".join(window if family is None or not family.kind.ordered else window_spelling(family, window))
