"""The accounts of several files as one document: each on its own, and those of one dataset together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from dpcli.analysis.account import Account
from dpcli.analysis.dataset_sum import FIXED
from dpcli.analysis.documents import account as single
from dpcli.base.rounding import up
from dpcli.document.document import Document, Passage, Sheet, Table
from dpcli.file.toml.findings import Diagnostic

WORST_FIRST = ("unknown", "fail", "warn", "pass", "")  # verdicts


def document(
    files: Sequence[tuple[Account, tuple[Diagnostic, ...]]],
    sums: Mapping[str, Account],
    decimals: int = 4,
    cite_sources: bool = False,
) -> Document:
    """Return everything that `dpcli account` says about several pipelines. sums: the account of each dataset, by its name."""
    alone = [single.document(account, result, decimals, cite_sources) for account, result in files]
    added = [single.document(account, (), decimals, cite_sources) for account in sums.values()]
    members = {name: [a.pipeline.path for a, _ in files if a.pipeline.privacy.dataset == name] for name in sums}
    facts = [f'dataset "{name}" ({len(members[name])} files): {one.headline}' for name, one in zip(sums, added, strict=True)]
    covered = len(sums) == 1 and all(account.pipeline.privacy.dataset in sums for account, _ in files)
    every, names = [*alone, *added], [*(account.pipeline.path for account, _ in files), *(f'dataset "{name}"' for name in sums)]
    code = max(one.exit_code for one in every)  # 3 before 1 before 0
    return Document(
        headline="; ".join(facts) or f"{len(files)} files, each on its own: no two of them name one dataset",
        data={
            "schema": "dpcli/accounts/v1",
            "files": [{"dataset": a.pipeline.privacy.dataset, **one.data} for (a, _), one in zip(files, alone, strict=True)],
            "datasets": [
                {"dataset": name, "files": members[name], "premise": FIXED, **one.data}
                for name, one in zip(sums, added, strict=True)
            ],
            "exit_code": code,
        },
        verdict=min((one.verdict for one in every), key=WORST_FIRST.index),
        passages=tuple(
            Passage(f"{name}: {passage.title}", passage.paragraphs)
            for name, one in zip(names, every, strict=True)
            for passage in one.passages
        ),
        tables=(_files([account for account, _ in files], decimals), *_tables(sums, added)),
        notes=(
            *(f"{a.pipeline.path}: {note}" for (a, _), one in zip(files, alone, strict=True) for note in one.notes),
            *(f'dataset "{name}": {FIXED}' for name in sums),
            *_over([account for account, _ in files], sums, decimals),
        ),
        findings=tuple(chain.from_iterable(one.findings for one in every)),
        checks=tuple(chain.from_iterable(one.checks for one in every)),
        total=added[0].total if covered else None,
        exit_code=code,
        records=[
            {"file": account.pipeline.path, **record}
            for account, one in zip([*(a for a, _ in files), *sums.values()], every, strict=True)
            for record in one.records
        ],
        sheet=Sheet(single.SHEET, tuple(row for one in every if one.sheet is not None for row in one.sheet.rows)),
        details=tuple(f"{a.pipeline.path}: {one.headline}" for (a, _), one in zip(files, alone, strict=True)),
    )


def _over(files: Sequence[Account], sums: Mapping[str, Account], decimals: int) -> Iterator[str]:
    """Note each sum that is above the budget of every one of its files, none of which caps the sum."""
    for name, total in sums.items():
        budgets = [file.budget for file in files if file.pipeline.privacy.dataset == name and file.budget is not None]
        most = max((budget.epsilon.cap for budget in budgets if budget.epsilon is not None), default=None)
        rho = max((budget.rho.cap for budget in budgets if budget.rho is not None), default=None)
        if rho is not None and total.rho.value > rho:
            yield (
                f'dataset "{name}": rho {up(total.rho.value, decimals)} is above the budget of each of its files (at most {rho!r}), '
                "and no cap holds for the sum; [[together]] in a policy of dpcli gate sets one"
            )
        if most is not None and total.quantity == "epsilon" and total.upper > most:
            yield (
                f'dataset "{name}": epsilon {up(total.upper, decimals)} is above the budget of each of its files (at most {most!r}), '
                "and no cap holds for the sum; dpcli gate --max-together sets one"
            )


def _files(accounts: Sequence[Account], decimals: int) -> Table:
    rows = tuple(
        (
            account.pipeline.path or "-",
            account.pipeline.privacy.dataset or "-",
            up(account.upper, decimals),
            repr(account.at),
            account.winner.accountant.name if account.winner else "-",
        )
        for account in accounts
    )
    quantity, given = ("epsilon", "delta") if accounts[0].quantity == "epsilon" else ("delta", "epsilon")
    return Table("each file on its own", ("file", "dataset", quantity, f"at {given}", "accountant"), rows, frozenset({2, 3}))


def _tables(sums: Mapping[str, Account], added: Sequence[Document]) -> Iterator[Table]:
    for name, one in zip(sums, added, strict=True):
        yield from (replace(table, title=f'dataset "{name}": {table.title}') for table in one.tables)
