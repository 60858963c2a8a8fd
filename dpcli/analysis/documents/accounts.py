"""The document of `dpcli account` with several files: each file separately, and the files of each dataset together.

A *part* is one file, or the *sum* of the files that name one dataset, with its account (analysis/account.py) and the document that
documents/account.py makes of it. The passages, findings, checks and records here are those of the parts, and the exit code is that of the
worst part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from dpcli.analysis.account import Account
from dpcli.analysis.dataset_sum import FIXED
from dpcli.analysis.documents import account as single
from dpcli.base.rounding import up
from dpcli.document.document import Document, Passage, Sheet, Table
from dpcli.file.toml.findings import Diagnostic

WORST_FIRST = ("unknown", "fail", "warn", "pass", "")  # verdicts of documents; "" is that of a part without a budget


def document(
    files: Sequence[tuple[Account, tuple[Diagnostic, ...]]],
    sums: Mapping[str, Account],
    decimals: int = 4,
    cite_sources: bool = False,
) -> Document:
    """Return the document about files, each with the findings in it, and about the sum of each dataset that files share, by its name.

    decimals, cite_sources: as for the document of one account.
    """
    file_parts = [
        Part(str(account.pipeline.path), account, single.document(account, findings, decimals, cite_sources))
        for account, findings in files
    ]
    sum_parts = [Part(name, account, single.document(account, (), decimals, cite_sources)) for name, account in sums.items()]
    documents = [part.document for part in (*file_parts, *sum_parts)]
    accounts = [part.account for part in file_parts]
    # Only the sum over all files is the single number of the document.
    is_one_sum = len(sums) == 1 and all(account.pipeline.privacy.dataset in sums for account in accounts)
    exit_code = max(document.exit_code for document in documents)  # 3 takes precedence over 1, and 1 over 0
    return Document(
        headline=_headline(file_parts, sum_parts),
        data=_data(file_parts, sum_parts, exit_code),
        verdict=min((document.verdict for document in documents), key=WORST_FIRST.index),
        passages=tuple(_passages(file_parts, sum_parts)),
        tables=(_table_of_files(accounts, decimals), *_tables(sum_parts)),
        notes=tuple(_notes(file_parts, sum_parts, decimals)),
        findings=tuple(chain.from_iterable(document.findings for document in documents)),
        checks=tuple(chain.from_iterable(document.checks for document in documents)),
        total=sum_parts[0].document.total if is_one_sum else None,
        exit_code=exit_code,
        records=list(_records((*file_parts, *sum_parts))),
        sheet=Sheet(single.SHEET, tuple(chain.from_iterable(document.sheet.rows for document in documents if document.sheet))),
        details=tuple(f"{part.name}: {part.document.headline}" for part in file_parts),
    )


class Part(NamedTuple):
    """The account of a file or of the sum over a dataset, with its document. The name is the path or the name of the dataset."""

    name: str
    account: Account
    document: Document


def _members(dataset: str, files: Sequence[Part]) -> list[Part]:
    """Return the files that name a dataset."""
    return [file for file in files if file.account.pipeline.privacy.dataset == dataset]


def _headline(files: Sequence[Part], sums: Sequence[Part]) -> str:
    """Return the headlines of all sums or, without a sum, that no files belong together."""
    if not sums:
        return f"{len(files)} files, priced separately: no two of them name the same dataset"
    return "; ".join(f'dataset "{part.name}" ({len(_members(part.name, files))} files): {part.document.headline}' for part in sums)


def _data(files: Sequence[Part], sums: Sequence[Part], exit_code: int) -> dict[str, Any]:
    """Return the JSON document dpcli/accounts/v1."""
    datasets = []
    for part in sums:
        paths = [member.account.pipeline.path for member in _members(part.name, files)]
        datasets.append({"dataset": part.name, "files": paths, "premise": FIXED, **part.document.data})
    return {
        "schema": "dpcli/accounts/v1",
        "files": [{"dataset": part.account.pipeline.privacy.dataset, **part.document.data} for part in files],
        "datasets": datasets,
        "exit_code": exit_code,
    }


def _passages(files: Sequence[Part], sums: Sequence[Part]) -> Iterator[Passage]:
    """Yield the passages of all parts, with the file or the dataset in their titles."""
    titles = [*(part.name for part in files), *(f'dataset "{part.name}"' for part in sums)]
    for title, part in zip(titles, (*files, *sums), strict=True):
        for passage in part.document.passages:
            yield Passage(f"{title}: {passage.title}", passage.paragraphs)


def _notes(files: Sequence[Part], sums: Sequence[Part], decimals: int) -> Iterator[str]:
    """Yield the notes of files, the premise of each sum, and the notes on caps that a sum exceeds."""
    for part in files:
        yield from (f"{part.name}: {note}" for note in part.document.notes)
    yield from (f'dataset "{part.name}": {FIXED}' for part in sums)
    for part in sums:
        yield from _excess_over_budgets(part, _members(part.name, files), decimals)


def _records(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    """Yield the records of all parts, each with its file. That of a sum is "dataset NAME"."""
    for part in parts:
        yield from ({"file": part.account.pipeline.path, **record} for record in part.document.records)


def _excess_over_budgets(part: Part, files: Sequence[Part], decimals: int) -> Iterator[str]:
    """Yield a note on each quantity in which a sum exceeds the budgets of all its files. The budget of a file does not cap the sum."""
    name, total = part.name, part.account
    budgets = [file.account.budget for file in files if file.account.budget is not None]
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
            f"(at most {epsilon_cap!r}), and there is no cap on the sum; dpcli gate --max-together sets one"
        )


def _table_of_files(accounts: Sequence[Account], decimals: int) -> Table:
    """Return the table with a row for each file. The quantity and what is fixed are the same for all files."""
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
    return Table(
        "each file separately", ("file", "dataset", quantity, f"at {given}", "accountant"), rows, numeric=frozenset({2, 3})
    )


def _tables(sums: Sequence[Part]) -> Iterator[Table]:
    """Yield the tables of the sums, with the dataset in the title. The tables of single files are left out."""
    for part in sums:
        yield from (replace(table, title=f'dataset "{part.name}": {table.title}') for table in part.document.tables)
