"""Files of one dataset that were given, and whose sum no cap holds: it is told where it is above the cap of each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from dpcli.analysis.together import together
from dpcli.errors import CannotCertify, InputError, NotRepresentable
from dpcli.gate.judgement import Judged, JudgedTogether
from dpcli.gate.shared_caps import SharedCaps
from dpcli.gate.totals import NAME, listed
from dpcli.gate.verdicts import Condition
from dpcli.pipeline.datasets import by_dataset
from dpcli.rounding import up

REMEDY = "--max-together, or [[together]] in a policy, caps the sum"


def caps_of(cap: float | None, files: Sequence[Judged]) -> tuple[SharedCaps, ...]:
    """The cap of a flag on each dataset that the files name. Raises InputError where they name none."""
    if cap is None or all(file.own is None for file in files):  # what cannot be read says so itself
        return ()
    names = dict.fromkeys(file.own.privacy.dataset for file in files if file.own is not None)
    found = tuple(SharedCaps((name,), cap) for name in names if name is not None)
    if not found:
        raise InputError("--max-together: expected files that name a dataset (privacy.dataset), found none")
    return found


def uncapped(files: Sequence[Judged], capped: Collection[str]) -> Iterator[JudgedTogether]:
    """A warning for each dataset of several files, none of `capped`, that costs more than any of its files may, or cannot be added up."""
    accounts = {file.path: file.account for file in files if file.account is not None and file.own is not None}
    pipelines = {file.path: file.own for file in files if file.path in accounts and file.own is not None}
    open_ = {path: one for path, one in pipelines.items() if one.privacy.dataset not in capped}
    try:
        datasets = by_dataset(open_.values())
    except InputError as error:
        first = next(iter(open_))
        yield _told((), (), f"{error}: no sum", first)
        return
    for name, members in datasets.items():
        paths = [path for path, one in open_.items() if one.privacy.dataset == name]
        if len(members) < 2:
            continue
        verdicts = [account.budget for path in paths if (account := accounts[path]) is not None and account.budget is not None]
        most = max((verdict.epsilon.cap for verdict in verdicts if verdict.epsilon is not None), default=None)
        words = f"dataset {name}: {len(paths)} files ({listed(paths)})"
        try:
            found = together([(replace(one, budget=None), 1) for one in members], rows=False)
        except (InputError, CannotCertify, NotRepresentable) as error:
            yield _told((name,), paths, f"{words}: no sum: {error}", paths[0])
            continue
        if most is not None and found.upper > most:
            text = (
                f"{words}: epsilon {up(found.upper)} at delta = {found.delta!r}, above the cap of each of them (at most {most!r})"
            )
            yield _told((name,), paths, f"{text}; {REMEDY}", paths[0])


def _told(datasets: tuple[str, ...], members: Sequence[str], text: str, at: str) -> JudgedTogether:
    words = f"dataset {', '.join(datasets)}" if datasets else "datasets"
    return JudgedTogether(words, None, (Condition(NAME, "warn", text, ()),), at=at, datasets=datasets, members=tuple(members))
