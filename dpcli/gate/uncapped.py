"""Files of one dataset that were given, and whose sum no cap holds: it is told where it is above the cap of each of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from dpcli.analysis.together import together
from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.rounding import up
from dpcli.file.pipeline.datasets import by_dataset
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.looks import looks
from dpcli.gate.horizon import runs_of
from dpcli.gate.judgement import Judged, JudgedTogether
from dpcli.gate.shared_caps import SharedCaps
from dpcli.gate.totals import NAME, listed
from dpcli.gate.verdicts import Condition

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


def uncapped(files: Sequence[Judged], capped: Collection[str], horizon: Horizon | None = None) -> Iterator[JudgedTogether]:
    """A warning for each dataset of several files, none of `capped`, that costs more than any of its files may, or cannot be added up.

    Each file counts once, or as often as its horizon plans. horizon: of flags or policy.
    """
    alike: dict[str, list[Judged]] = {}
    for file in files:
        if file.account is not None and file.own is not None and file.own.privacy.dataset not in (None, *capped):
            alike.setdefault(looks(file.own.privacy.dataset or ""), []).append(file)
    for members in alike.values():
        if len(members) > 1:
            yield from _above(members, horizon)


def _above(files: Sequence[Judged], horizon: Horizon | None) -> Iterator[JudgedTogether]:
    paths = [file.path for file in files]
    owns = [file.own for file in files if file.own is not None]
    names = tuple(dict.fromkeys(own.privacy.dataset or "" for own in owns))
    words = f"dataset {', '.join(names)}: {len(paths)} files ({listed(paths)})"
    try:
        by_dataset(owns)
        found = together([(_uncapped(file, own), runs_of(own, horizon)) for file, own in zip(files, owns, strict=True)], rows=False)
    except (InputError, CannotCertify, NotRepresentable) as error:
        yield _told(names, paths, f"{words}: no sum: {error}", paths[0])
        return
    budgets = [file.account.budget for file in files if file.account is not None and file.account.budget is not None]
    epsilon = max((budget.epsilon.cap for budget in budgets if budget.epsilon is not None), default=math.inf)
    rho = max((budget.rho.cap for budget in budgets if budget.rho is not None), default=math.inf)
    said = [f"epsilon {up(found.upper)} at delta = {found.delta!r}, above the cap of each of them (at most {epsilon!r})"] * (
        found.upper > epsilon
    )
    said += [f"rho {up(found.rho.value)}, above the cap of each of them (at most {rho!r})"] * (found.rho.value > rho)
    if said:
        yield replace(_told(names, paths, f"{words}: {' and '.join(said)}; {REMEDY}", paths[0]), told=found)


def _uncapped(file: Judged, own: Pipeline) -> Pipeline:
    """The file without its cap; an adaptive one with the cap that holds it, which is what it costs."""
    return file.account.pipeline if own.privacy.adaptive and file.account is not None else replace(own, budget=None)


def _told(datasets: tuple[str, ...], members: Sequence[str], text: str, at: str) -> JudgedTogether:
    words = f"dataset {', '.join(datasets)}" if datasets else "datasets"
    return JudgedTogether(words, None, (Condition(NAME, "warn", text, ()),), at=at, datasets=datasets, members=tuple(members))
