"""A ledger's answers as documents: what was charged, what is left, every entry, what was checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dpcli.errors import Denied
from dpcli.ledger import amounts
from dpcli.ledger.chain import Entry
from dpcli.ledger.denial import costs
from dpcli.ledger.ledger import Ledger, Receipt
from dpcli.ledger.room import Room, room, share_of
from dpcli.ledger.state import State
from dpcli.report.document import Document, Table
from dpcli.rounding import down as rounded_down
from dpcli.rounding import up as rounded

if TYPE_CHECKING:
    from dpcli.plots.chart import Chart

DONE = {
    "spend": "charged",
    "reserve": "reserved",
    "start": "started",
    "commit": "committed",
    "void": "voided",
    "amend": "amended",
}


def receipt(ledger: Ledger, ask: Callable[[], Receipt]) -> Document:
    """What came of a request: granted, granted before, or denied (exit code 1, nothing written)."""
    try:
        found = ask()
    except Denied as no:
        data = {
            "schema": "dpcli/budget/v1",
            "granted": False,
            "reason": str(no),
            **_balance(ledger.state()),
            "exit_code": no.exit_code,
        }
        said, *why = str(no).split("\n  ")
        return Document(
            said,
            data,
            "fail",
            notes=tuple(why),
            total=_total(ledger.state()),
            exit_code=no.exit_code,
            details=tuple(line for text in why for line in wrap(text, 110, initial_indent="  ", subsequent_indent="    ")),
        )
    state = found.state
    data = {
        "schema": "dpcli/budget/v1",
        "granted": True,
        "repeated": found.repeated,
        "entry": _entry_data(found.entry),
        **_balance(state),
    }
    return Document(_granted(found), {**data, "exit_code": 0}, "pass", total=_total(state))


def _granted(found: Receipt) -> str:
    state, run = found.state, found.run
    of = "declared runs" if state.open_terms().mode == "declared" else "cap"
    left = f"{_left_percent(room(state))} of the {of} is left"
    if run is None:
        return f"amended: the cap is epsilon {state.epsilon!r} at delta = {state.open_terms().delta!r}; {left}"
    what = f'"{run.key}": {costs(run.cost)}'
    if found.entry is None:
        return f"{what} was {run.status} before (entry {run.seq}): nothing was written; {left}"
    return f"{DONE[found.entry.kind]} {what}, entry {found.entry.row.seq}; {left}"


def opening(ledger: Ledger) -> Document:
    """What a new ledger was opened for."""
    state = ledger.state()
    terms = state.open_terms()
    how = _how(state)
    headline = (
        f'opened the ledger of "{ledger.dataset}" in {ledger.store.place}: at most epsilon {terms.epsilon!r} at delta = {terms.delta!r} '
        f"per {terms.unit}, {terms.adjacency}; {how}; fixed for good"
    )
    return Document(
        headline, {"schema": "dpcli/budget/v1", **_terms(state), **_balance(state), "exit_code": 0}, "pass", total=_total(state)
    )


def shown(ledger: Ledger, pictured: bool = False) -> Document:
    """The balance of a dataset and its runs; `pictured` with the way down to it."""
    state = ledger.state()
    found = room(state)
    return Document(
        headline=headline(state, found),
        data={"schema": "dpcli/budget/v1", **_terms(state), **_balance(state), "runs": _runs(state), "exit_code": 0},
        verdict="fail" if found.spent > 1.0 else "warn" if found.left <= 0.2 else "pass",
        tables=(_run_table(state),) if state.runs else (),
        notes=_outlook(state, found),
        total=_total(state),
        records=_runs(state),
        title=f"budget of {ledger.dataset}",
        pictures=_pictures(ledger) if pictured else (),
        details=_details(state, found),
    )


def _pictures(ledger: Ledger) -> tuple[Chart, ...]:
    from dpcli.plots.burn_down import chart

    picture = chart(ledger.entries())
    return (picture,) if picture else ()


def headline(state: State, found: Room) -> str:
    """The balance in one sentence, with everything that it depends on."""
    terms = state.open_terms()
    spent = f"epsilon {rounded(found.epsilon)} of {state.epsilon!r} at delta = {terms.delta!r}"
    if terms.mode == "declared":
        spent = f"{rounded(100.0 * found.spent, 1)} % of the declared runs are made; all of them cost {spent}"
    return f"{state.dataset}: {spent} (per {terms.unit}, {terms.adjacency}; {_how(state)}){_left_words(state, found)}"


def _left_words(state: State, found: Room) -> str:
    if state.open_terms().mode == "declared":
        return ""
    if found.spent > 1.0:
        return "; more was spent than the cap allows since it was amended: nothing fits"
    return f"; {_left_percent(found)} of the cap is left"


def _how(state: State) -> str:
    terms = state.open_terms()
    if terms.mode == "declared":
        return f"declared set, composed by {(terms.certified or {})['accountant']}"
    own = "".join(f", {name} {value:g}" for name, value in (terms.parameters or {}).items())
    return f"adaptive, filter: {terms.filter}{own}"


def _outlook(state: State, found: Room) -> tuple[str, ...]:
    """What still fits."""
    lines = []
    if state.last is not None and found.like_last is not None and state.open_terms().mode == "adaptive":
        many = "any number of" if found.like_last < 0 else f"{found.like_last:,}"
        lines.append(f'still fits: {many} more like the last run, "{state.last.key}" ({costs(state.last.cost)} each)')
    if state.open_terms().mode == "declared":
        lines += [f"{name}: {state.spent[name]} of {cap} made" for name, cap in state.caps.items()]
    else:
        lines.append(f"largest pure epsilon that fits in one run: {rounded_down(found.pure)}")
    floor = _conversion(state)
    if floor > 0.05 * state.epsilon:
        taken = f"epsilon {rounded(floor)} is what the conversion to delta = {state.open_terms().delta!r} takes, however little is spent"
        lines.append(f"{taken}: the shares are of the filter's own cap")
    if found.reserved:
        lines.append(f"{100.0 * found.reserved:.1f} % of the cap is reserved or under way: it counts in full until it is voided")
    return tuple(lines)


def _conversion(state: State) -> float:
    """The epsilon of next to nothing: what a filter's conversion takes before the first run."""
    terms = state.open_terms()
    if terms.mode == "declared":
        return 0.0
    return terms.the_filter.epsilon(dict.fromkeys(state.caps, Decimal("1e-30")), terms.delta)


WIDTH = 50


def _details(state: State, found: Room) -> tuple[str, ...]:
    """The balance for a terminal, without any library: a bar, a line per run, the outlook."""
    lines = [_bar(found, "declared runs" if state.open_terms().mode == "declared" else "cap")]
    table = _run_table(state)
    widths = [max(len(cell) for cell in column) for column in zip(table.columns, *table.rows, strict=True)]
    rows = (table.columns, *table.rows) if table.rows else ()
    lines += [
        "",
        *(
            "  ".join(
                _set(cell, width, i in table.numeric) for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ),
    ]
    return (*lines, "", *_outlook(state, found))


def _bar(found: Room, of: str) -> str:
    reserved = min(round(WIDTH * found.reserved), WIDTH)
    spent = min(max(round(WIDTH * found.spent), int(found.spent > 0)), WIDTH)
    bar = "#" * (spent - min(reserved, spent)) + "+" * min(reserved, spent)
    return f"[{bar:.<{WIDTH}}] {rounded(100.0 * found.spent, 1)} % of the {of}" + (" (+: reserved)" if reserved else "")


def _set(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


SHOWN = 20


def _run_table(state: State) -> Table:
    runs = list(state.runs.values())
    rows = [
        (
            run.key,
            run.status,
            f"{100.0 * share_of(state, run.cost):.1f} %",
            costs(run.cost),
            str(run.content.get("who", "")),
            str(run.content.get("when", "")),
            run.name,
        )
        for run in runs[-SHOWN:]
    ]
    title = "runs" if len(runs) <= SHOWN else f"the last {SHOWN} of {len(runs):,} runs (dpcli budget log lists all)"
    return Table(title, ("run", "status", "share", "cost", "who", "when", "mechanisms"), tuple(rows), frozenset({2}))


def log(ledger: Ledger) -> Document:
    """Every entry."""
    entries = ledger.entries()
    rows = tuple(
        (str(e.row.seq), e.kind, e.key, costs(amounts.read(e.content.get("cost", {}))), _text(e, "who"), _text(e, "when"), _why(e))
        for e in entries
    )
    return Document(
        headline=f"{ledger.dataset}: {len(entries)} entries, head {entries[-1].row.hash[:16] if entries else 'none'}",
        data={
            "schema": "dpcli/budget-log/v1",
            "dataset": ledger.dataset,
            "entries": [_entry_data(e) for e in entries],
            "exit_code": 0,
        },
        tables=(Table("entries", ("entry", "kind", "run", "cost", "who", "when", "why"), rows, frozenset({0})),),
        records=[_entry_data(e) or {} for e in entries],
        log=tuple("  ".join(row) for row in rows),
    )


def export(ledger: Ledger) -> Document:
    """Every entry with its canonical text and hash."""
    entries = ledger.entries()
    whole = [{"seq": e.row.seq, "hash": e.row.hash, "body": e.row.body, "content": e.content} for e in entries]
    rows = tuple(
        (str(e.row.seq), e.kind, e.key, _text(e, "who"), _text(e, "when"), _why(e), e.row.body, e.row.hash) for e in entries
    )
    return Document(
        headline=f"{ledger.dataset}: {len(entries)} entries",
        data={"schema": "dpcli/budget-export/v1", "dataset": ledger.dataset, "entries": whole, "exit_code": 0},
        tables=(Table("entries", ("entry", "kind", "run", "who", "when", "why", "body", "hash"), rows, frozenset({0})),),
        records=whole,
    )


def anchor(ledger: Ledger) -> Document:
    """The head of the chain."""
    from dpcli.ledger.verify import anchor_of

    found = anchor_of(ledger)
    return Document(f"{found['dataset']}: entry {found['seq']}, {found['hash']}", {**found, "exit_code": 0})


def verified(ledger: Ledger, found: Any) -> Document:
    """What a verification came to."""
    problems = found.problems
    said = (
        f"{len(problems)} of {found.costs} costs are larger than what was charged"
        if problems
        else f"{found.costs} costs computed again"
    )
    headline = f"{ledger.dataset}: {found.entries} entries whole, head {found.head.hash[:16]}; {said}"
    data = {"schema": "dpcli/budget-verify/v1", "dataset": ledger.dataset, "entries": found.entries, "head": found.head.hash}
    code = 1 if problems else 0
    return Document(
        headline,
        {**data, "costs": found.costs, "problems": list(problems), "exit_code": code},
        "fail" if problems else "pass",
        notes=problems,
        log=problems,
        exit_code=code,
    )


def _left_percent(found: Room) -> str:
    """What is left of the cap; never rounded up, and never below 0."""
    return f"{rounded_down(100.0 * found.left, 1)} %"


def _text(entry: Entry, name: str) -> str:
    return str(entry.content.get(name, ""))


def _why(entry: Entry) -> str:
    approver = f" (approved by {entry.content['approver']})" if "approver" in entry.content else ""
    return _text(entry, "why") + approver


def _total(state: State) -> str:
    return repr(room(state).epsilon)


def _terms(state: State) -> dict[str, Any]:
    return {"dataset": state.dataset, "terms": state.open_terms().content()}


def _balance(state: State) -> dict[str, Any]:
    found = room(state)
    return {
        "caps": _plain(state.caps),
        "spent": _plain(state.spent),
        "left": _plain(state.left()),
        "share_spent": found.spent,
        "share_reserved": found.reserved,
        "result": {"epsilon_upper": found.epsilon, "epsilon_cap": state.epsilon, "delta": state.open_terms().delta},
        "more_like_last": found.like_last,
        "largest_pure_epsilon": found.pure,
        "head": {"seq": state.head.seq, "hash": state.head.hash},
    }


def _plain(found: amounts.Amounts) -> Mapping[str, str]:
    return {name: str(value) for name, value in found.items()}


def _runs(state: State) -> list[dict[str, Any]]:
    return [
        {
            "key": run.key,
            "entry": run.seq,
            "status": run.status,
            "cost": _plain(run.cost),
            "share": share_of(state, run.cost),
            "who": run.content.get("who"),
            "when": run.content.get("when"),
            "why": run.content.get("why"),
            "pipeline": run.pipeline,
        }
        for run in state.runs.values()
    ]


def _entry_data(entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else {**entry.content, "hash": entry.row.hash}


__all__ = ["anchor", "export", "headline", "log", "opening", "receipt", "shown", "verified"]
