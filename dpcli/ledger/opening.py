"""The opening of a ledger from the flags of `dpcli budget init`, with the fingerprint of the data.

The flags become the *terms* of the ledger (terms.py), which never change. In adaptive mode they name a privacy *filter*, a theorem that
adds up runs even if they were chosen from earlier outputs, and in *declared mode* all runs. A dataset may be cut into *blocks*, such as
days, each with a cap of its own. The *fingerprint* reveals data that have a ledger under another name in the same place, and would get a
second budget. It depends only on the contents of the files, and not on their names, folders or order. The module also reads the flags of
`dpcli budget quota`, which limits what a person or a team may charge.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import Denied, InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.blocks.block_kinds import known_kinds
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.declared_set import MOST_RUNS, compose
from dpcli.ledger.filters.filter import filter_choices, filter_for_cap
from dpcli.ledger.grammar import WORDS, is_a
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

PIECE = 1 << 20  # number of bytes of a file that are read at once, which limits the memory
# The largest number of characters of a share on the command line. The shortest spelling has at most 8; zeros may precede or follow it.
LONGEST_PORTION = 20
ALWAYS_REQUIRED = ("dataset", "unit", "adjacency", "epsilon", "delta")  # the flags that every ledger needs
NEEDED_BY_BLOCKS = ("column", "max_blocks")  # the flags that every kind of blocks needs
FLAG_OF_TERM = {"names": "block", "count": "block_count"}  # the flag for a term that one kind of blocks needs (`BlockKind.needs`)
# What a message tells the user to state, for each required flag.
REQUIRED_FLAGS = {
    "dataset": "the name of the dataset",
    "unit": "the unit of privacy that every run will state (user, example, ...)",
    "adjacency": "the adjacency that every run will state (add-remove, replace-one or zero-out)",
    "epsilon": "the cap on the epsilon of all runs together",
    "delta": "the delta of the cap",
    "column": "the column that determines the block of a record",
    "max_blocks": "the number of blocks in which the records of one unit may lie (1 if the unit lies in one block, as a user-day)",
    "block": "the name of a block, once for each block",
    "block_count": "the number of blocks",
    "declare": "the file of a run, once for each run",
}


def open_from_flags(url: str, dataset: str | None, given: Mapping[str, Any]) -> Ledger:
    """Open a ledger with the terms that the flags state, and return it.

    Args:
        url: Path or URL of the ledger.
        given: The value of each flag, under its name with _ for - ("max_blocks" for --max-blocks).

    Raises:
        InputError: A flag is missing or invalid.
        Denied: The declared runs exceed the cap.
        CannotCertify: No finite epsilon of the declared runs can be certified.
        LedgerError: The ledger cannot be written, or the dataset already has a ledger there.
    """
    given = {**given, "dataset": dataset}
    _require_all(given)
    common = {name: given[name] for name in ("unit", "adjacency", "epsilon", "delta", "dataset_size", "fingerprint", "team")}
    ceiling, two_person = given.get("ceiling"), given.get("two_person") or None  # terms state None in place of False
    terms = LedgerTerms(**common, ceiling=ceiling, blocks=_blocks_of(given), two_person=two_person)
    terms.refuse_invalid()
    terms = _declared_terms_of(terms, given) if given["mode"] == "declared" else _adaptive_terms_of(terms, given)
    assert dataset is not None  # as `_require_all` has checked
    return init(url, dataset, replace(terms, fingerprint=_fingerprint(given)))


def _require_all(given: Mapping[str, Any]) -> None:
    """Check that no required flag is missing. Raises InputError with all missing flags in one message."""
    lines = []
    for name in _needed_flags(given):
        if given.get(name) in (None, "", (), []):
            needed = REQUIRED_FLAGS[name] if name in REQUIRED_FLAGS else filter_choices()
            lines.append(f"{_flag(name)}: state {needed}")
    if len(lines) == 1:
        raise InputError(lines[0])
    if lines:
        raise InputError("\n  ".join((f"{len(lines)} flags are missing:", *lines)))


def _needed_flags(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the flags that are required together with the given ones."""
    yield from ALWAYS_REQUIRED
    if given.get("blocks") is not None:
        yield from NEEDED_BY_BLOCKS
        term = known_kinds().get(given["blocks"], "")  # "names" for listed blocks, "count" for blocks by a hash, "" for others
        if term in FLAG_OF_TERM:
            yield FLAG_OF_TERM[term]
    yield "declare" if given["mode"] == "declared" else "filter"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _fingerprint(given: Mapping[str, Any]) -> str | None:
    """Return the fingerprint of the files, or the stated fingerprint; None if neither is given. Raises InputError if both are given."""
    files = given.get("data") or ()
    if not files:
        stated: str | None = given["fingerprint"]
        return stated
    if given["fingerprint"] is not None:
        raise InputError(f"--fingerprint: expected none with --data, which determines it, found {given['fingerprint'][:60]!r}")
    return fingerprint_of(files)


def _blocks_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the terms of the blocks into which the dataset is cut; None if it is not cut.

    Raises InputError if a flag about blocks is given without --blocks.
    """
    if given.get("blocks") is None:
        unused = next((name for name in (*NEEDED_BY_BLOCKS, *FLAG_OF_TERM.values()) if given.get(name)), None)
        if unused is not None:
            raise InputError(f"{_flag(unused)}: only with --blocks")
        return None
    family = BlockFamily(
        given["blocks"],
        given["column"],
        given["max_blocks"],
        names=sorted(given.get("block") or ()),
        count=given.get("block_count"),
    )
    return family.content()


def _adaptive_terms_of(terms: LedgerTerms, given: Mapping[str, Any]) -> LedgerTerms:
    """Return the terms with the filter that the flags state. Raises InputError if a flag does not belong to the mode or the filter."""
    if given["declare"]:
        raise InputError("--declare: only with --mode declared")
    parameters = {name: given[name] for name in ("order", "slack") if given[name] is not None}
    try:
        rule = filter_for_cap(given["filter"], terms.epsilon, terms.delta, parameters)
    except TypeError:  # the filter has no such parameter
        raise InputError(f"--{next(iter(parameters))} cannot be combined with --filter {given['filter']}") from None
    return replace(terms, filter=rule.name, parameters=dict(rule.parameters()))


def _declared_terms_of(terms: LedgerTerms, given: Mapping[str, Any]) -> LedgerTerms:
    """Return the terms with the declared runs that the flags state. Raises as `declared_terms`, or if a flag is of adaptive mode."""
    if terms.blocks is not None:
        raise InputError("--blocks: only with --mode adaptive")
    if terms.ceiling is not None:
        raise InputError("--ceiling: only with --mode adaptive: a declared set of runs cannot be changed")
    for name in ("filter", "order", "slack"):
        if given[name]:
            raise InputError(f"{_flag(name)} cannot be combined with --mode declared")
    runs = [_pipeline_and_count(text) for text in given["declare"]]
    for pipeline, _ in runs:
        if pipeline.privacy.dataset not in (None, given["dataset"]):
            raise InputError(
                f'{pipeline.path}: privacy.dataset: expected "{given["dataset"]}", the dataset of this ledger, or none, found '
                f'"{pipeline.privacy.dataset}": its runs could not be charged here'
            )
    return declared_terms(terms, runs)


def _pipeline_and_count(text: str) -> tuple[Pipeline, int]:
    """Return the pipeline and the number of runs that a text PATH or PATH:COUNT states. If it has no count, the number is 1."""
    from dpcli.file.pipeline.read import load

    path, separator, count = text.rpartition(":")
    if separator and count.isascii() and count.isdigit() and len(count) < 10:  # a longer number is taken for a part of the path
        return load(path), int(count)
    return load(text), 1


def declared_terms(terms: LedgerTerms, runs: Sequence[tuple[Pipeline, int]]) -> LedgerTerms:
    """Return the terms of declared mode with a set of runs, and with the epsilon of all runs together.

    `runs` has each pipeline with the number of its runs.

    Raises:
        InputError: There is no run, or a number of runs is not in [1, `MOST_RUNS`]. A run states another unit, adjacency or dataset_size,
            is adaptive, or is declared twice.
        Denied: The epsilon of the whole set exceeds the cap.
        CannotCertify: No finite epsilon of the set can be certified.
    """
    declared: list[dict[str, Any]] = []
    for pipeline, count in runs:
        if not 1 <= count <= MOST_RUNS:
            raise InputError(f"{pipeline.path}: expected a number of runs from 1 to {MOST_RUNS}, found {count!r}")
        declared.append({"pipeline": tables_of(pipeline), "runs": count})  # the tables [privacy] and [[mechanism]]
    if not declared:
        raise InputError("expected distinct runs to declare, found no --declare")
    if len({canonical(item["pipeline"]) for item in declared}) != len(declared):
        raise InputError("expected distinct runs to declare, found one twice: use --declare PATH:COUNT")
    for pipeline, _ in runs:
        terms.refuse_other_privacy(pipeline)
        if pipeline.privacy.adaptive:  # its mechanisms may be chosen from outputs
            raise InputError(f"{pipeline.path}: privacy.adaptive: expected false in declared mode, found true: use --mode adaptive")
    epsilon, accountant = compose(runs, terms.delta)
    if epsilon > terms.epsilon:
        from dpcli.base.rounding import up

        raise Denied(
            f"the declared runs cost epsilon {up(epsilon)} by {accountant} at delta = {terms.delta!r}, above the cap {terms.epsilon!r}"
        )
    return replace(terms, mode="declared", declared=declared, certified={"epsilon": epsilon, "accountant": accountant})


def fingerprint_of(paths: Sequence[str]) -> str:
    """Return the fingerprint of files.

    Equal contents count once, because a repeated file would otherwise give known data a new fingerprint and a second budget. The
    fingerprint of one content is its SHA-256. The fingerprint of several contents is the SHA-256 of their sorted SHA-256 values, one per
    line.

    Raises InputError if a path is not a file, or the file is empty, cannot be read, or changes while it is read.
    """
    digests = sorted({_digest(path) for path in paths})
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()


def _digest(path: str) -> str:
    """Return the SHA-256 of the content of one file. Raises InputError if it is not a file, is empty or unreadable, or changes."""
    total, size = hashlib.sha256(), 0
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe may never end, and its content can be read only once
            raise InputError(f"--data {path}: not a file: name each file of a folder")
        with open(path, "rb") as file:
            before = _size_and_time(file.fileno())
            while piece := file.read(PIECE):
                size += len(piece)
                total.update(piece)
            after = _size_and_time(file.fileno())
    except OSError as error:
        raise InputError(f"--data {path}: cannot be read: {error.strerror}") from None
    if not size:
        raise InputError(f"--data {path}: expected the data of the dataset, found an empty file")
    if before != after:  # the digest of a mixture of two contents would be the fingerprint of neither
        raise InputError(f"--data {path}: was changed while it was read: nobody may write to it meanwhile")
    return total.hexdigest()


def _size_and_time(file: int) -> tuple[int, int]:
    info = os.fstat(file)
    return info.st_size, info.st_mtime_ns


class QuotaTerms(NamedTuple):
    """The terms of a quota, under the names of the parameters of `Ledger.quota`."""

    of: str
    name: str
    share: str
    members: tuple[str, ...]
    alert_at: str


def quota_from_flags(person: str | None, team: str | None, members: Sequence[str], share: str, alert_at: str) -> QuotaTerms:
    """Return the terms of a quota that flags state. Raises InputError if flags are invalid or contradict each other."""
    if person is not None and team is not None:
        raise InputError("--person, --team: expected one of the two, found both")
    if team is None and members:
        raise InputError("--member: only with --team")
    if team is not None and not members:
        raise InputError("--member: state the name of a member, once for each member of the team")
    name = person if team is None else team
    if name is None:
        raise InputError("--person, --team: state one of the two")
    of = "person" if team is None else "team"
    _require_name(f"--{of}", name)
    for member in members:
        _require_name("--member", member)
    return QuotaTerms(of, name, _portion("--share", share), tuple(members), _portion("--alert-at", alert_at))


def _require_name(flag: str, name: str) -> None:
    if not is_a("name", name):
        raise InputError(f"{flag}: expected {WORDS['name']}, found {name[:60]!a}")


def _portion(flag: str, text: str) -> str:
    """Return the spelling that entries use for a decimal in [0, 1]; both 0.250 and .25 become 0.25. Raises InputError otherwise."""
    spelling = _plain_spelling(text)
    if not is_a("portion", spelling):
        raise InputError(f"{flag}: expected {WORDS['portion']}, found {text[:40]!a}")
    return spelling


def _plain_spelling(text: str) -> str:
    """Return the shortest spelling of a decimal without an exponent; "" if the text is too long, or no decimal near [0, 1]."""
    if len(text) > LONGEST_PORTION:
        return ""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return ""
    # The plain spelling of a decimal with a large exponent, as 1E+999999, could fill the memory.
    is_short = number.is_finite() and -LONGEST_PORTION <= number.as_tuple().exponent <= 1  # type: ignore[operator]
    return format(number.normalize(), "f") if is_short else ""
