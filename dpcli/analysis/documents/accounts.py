"""The accounts of several files as one document: each file separately, and the files of each dataset together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from dpcli.analysis.account import Account
from dpcli.analysis.dataset_sum import FIXED
from dpcli.analysis.documents import account as single
from dpcli.base.rounding import up
from dpcli.document.document import Document, Passage, Sheet, Table
from dpcli.file.toml.findings import Diagnostic

WORST_FIRST = ("unknown", "fail", "warn", "pass", "")  # the verdicts, the worst first


def document(
    files: Sequence[tuple[Account, tuple[Diagnostic, ...]]],
    sums: Mapping[str, Account],
    decimals: int = 4,
    cite_sources: bool = False,
) -> Document:
    """Return the output of `dpcli account` for several pipelines.

    Args:
        files: the account of each file, with the findings in it.
        sums: the account of each dataset that files share, by its name.
        decimals: digits after the point of printed bounds.
        cite_sources: whether to cite the theorem of each bound.
    """
    accounts = [account for account, _ in files]
    file_documents = [single.document(account, findings, decimals, cite_sources) for account, findings in files]
    sum_documents = {name: single.document(account, (), decimals, cite_sources) for name, account in sums.items()}
    members = {name: [a.pipeline.path for a in accounts if a.pipeline.privacy.dataset == name] for name in sums}
    paths = [account.pipeline.path for account in accounts]
    # Each part has an account, its document, and a title that no other part has.
    parts = [
        *zip(paths, accounts, file_documents, strict=True),
        *((f'dataset "{name}"', sums[name], sum_documents[name]) for name in sums),
    ]
    documents = [part for _, _, part in parts]
    headlines = [f'dataset "{name}" ({len(members[name])} files): {sum_documents[name].headline}' for name in sums]
    is_one_sum = len(sums) == 1 and all(account.pipeline.privacy.dataset in sums for account in accounts)
    code = max(part.exit_code for part in documents)  # 3 takes precedence over 1, and 1 over 0
    return Document(
        headline="; ".join(headlines) or f"{len(files)} files, priced separately: no two of them name the same dataset",
        data=_data(accounts, file_documents, members, sum_documents, code),
        verdict=min((part.verdict for part in documents), key=WORST_FIRST.index),
        passages=tuple(
            Passage(f"{title}: {passage.title}", passage.paragraphs) for title, _, part in parts for passage in part.passages
        ),
        tables=(_files(accounts, decimals), *_tables(sum_documents)),
        notes=(
            *(f"{path}: {note}" for path, part in zip(paths, file_documents, strict=True) for note in part.notes),
            *(f'dataset "{name}": {FIXED}' for name in sums),
            *_sums_over_budget(accounts, sums, decimals),
        ),
        findings=tuple(chain.from_iterable(part.findings for part in documents)),
        checks=tuple(chain.from_iterable(part.checks for part in documents)),
        total=next(iter(sum_documents.values())).total if is_one_sum else None,
        exit_code=code,
        records=[{"file": account.pipeline.path, **record} for _, account, part in parts for record in part.records],
        sheet=Sheet(single.SHEET, tuple(row for part in documents if part.sheet is not None for row in part.sheet.rows)),
        details=tuple(f"{path}: {part.headline}" for path, part in zip(paths, file_documents, strict=True)),
    )


def _data(
    accounts: Sequence[Account],
    file_documents: Sequence[Document],
    members: Mapping[str, Sequence[str | None]],
    sum_documents: Mapping[str, Document],
    exit_code: int,
) -> dict[str, Any]:
    """Return the JSON document dpcli/accounts/v1."""
    return {
        "schema": "dpcli/accounts/v1",
        "files": [
            {"dataset": account.pipeline.privacy.dataset, **part.data}
            for account, part in zip(accounts, file_documents, strict=True)
        ],
        "datasets": [
            {"dataset": name, "files": members[name], "premise": FIXED, **part.data} for name, part in sum_documents.items()
        ],
        "exit_code": exit_code,
    }


def _sums_over_budget(files: Sequence[Account], sums: Mapping[str, Account], decimals: int) -> Iterator[str]:
    """Return a note for each sum that exceeds the budgets of all its files. The budget of a file does not cap the sum."""
    for name, total in sums.items():
        budgets = [file.budget for file in files if file.pipeline.privacy.dataset == name and file.budget is not None]
        epsilon_cap = max((budget.epsilon.cap for budget in budgets if budget.epsilon is not None), default=None)
        rho_cap = max((budget.rho.cap for budget in budgets if budget.rho is not None), default=None)
        if rho_cap is not None and total.rho.value > rho_cap:
            yield (
                f'dataset "{name}": rho {up(total.rho.value, decimals)} is above the budget of each of its files (at most {rho_cap!r}), '
                "and there is no cap on the sum; [[together]] in a policy of dpcli gate sets one"
            )
        if epsilon_cap is not None and total.quantity == "epsilon" and total.upper > epsilon_cap:
            yield (
                f'dataset "{name}": epsilon {up(total.upper, decimals)} is above the budget of each of its files '
                f"(at most {epsilon_cap!r}), "
                "and there is no cap on the sum; dpcli gate --max-together sets one"
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
    return Table("each file separately", ("file", "dataset", quantity, f"at {given}", "accountant"), rows, frozenset({2, 3}))


def _tables(sum_documents: Mapping[str, Document]) -> Iterator[Table]:
    for name, part in sum_documents.items():
        yield from (replace(table, title=f'dataset "{name}": {table.title}') for table in part.tables)
