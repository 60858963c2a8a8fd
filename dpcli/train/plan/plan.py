"""The plan of a training run, with its stages, their noise and their cost. The plan is complete before any data are read.

`plan_of` reads the plan from a training file and refuses a file that training could not perform exactly. The accountant prices the
*entries* of the file (its mechanisms), and training performs those that [train] selects, as *stages*: sequences of steps of one entry
(plan/stages.py). Both use one plan, so that they cannot disagree. If a run crashes, the steps after its last saved state may be taken
twice: such a *portion* of the steps is charged again (`repeated_portions`, `costs`).

A *unit* is whom the guarantee protects, such as a user, who may own several records. *last-iterate* is an entry type whose price holds only
if no model but the last one is seen (plan/descent.py). *Canaries* are records or gradients that an audit inserts to test the run
(replay/canaries.py).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dpcli.audit.audit_settings import read_settings
from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import sample_readers
from dpcli.file.toml.limits import read_bytes
from dpcli.file.toml.shown import first_names
from dpcli.sessions.priced import PricedFile, fingerprint, priced_file
from dpcli.train.plan.descent import require_premises
from dpcli.train.plan.settings import BOUNDED, Train, every_key, read_train
from dpcli.train.plan.sources import source_digests
from dpcli.train.plan.stages import Stage, is_trainable, stages

if TYPE_CHECKING:
    from dpcli.analysis.account import Account

# A pair for consecutive steps of a run: the number of steps before them, and the number of the last one. (200, 400) is steps 201 to 400.
Portion = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TrainingPlan(PricedFile):
    """The plan of a training run. The accountant and the training both use it.

    Attributes:
        canaries: Number of canaries of [audit]. A fair coin toss decides for each whether it is inserted.
        canary: Kind of a canary, "record" or "gradient".
        source: Content of the training file.
    """

    train: Train
    stages: tuple[Stage, ...]
    canaries: int = 0
    canary: str = "record"
    source: bytes = field(default=b"", repr=False)

    @property
    def steps(self) -> int:
        """Return the number of steps of the whole run."""
        return self.stages[-1].stop

    @property
    def first_stages(self) -> tuple[Stage, ...]:
        """Return the first stage of each entry that training performs, in order. All stages of an entry have the same mechanism."""
        firsts = {stage.entry.name: stage for stage in reversed(self.stages)}
        return tuple(firsts.values())[::-1]

    @property
    def final_only(self) -> bool:
        """Return whether the cost holds only if no model but the last one is seen, nor anything that is computed from others."""
        return any(stage.spec.final_only for stage in self.stages)

    @property
    def open_to_audit(self) -> bool:
        """Return whether an audit observes the steps (canary gradients, replay/canaries.py). Such a run is not private."""
        return self.canaries > 0 and self.canary == "gradient"

    @property
    def size(self) -> int:
        """Return the declared number of records."""
        assert self.pipeline.privacy.dataset_size is not None
        return self.pipeline.privacy.dataset_size

    @property
    def folder(self) -> str:
        """Return the folder to which the run writes its files."""
        return self.folder_at(self.train.output)

    @property
    def private_file(self) -> str | None:  # the table to which a window of rows applies; `tables`: endings of table files
        return self.train.data if os.path.splitext(self.train.data)[1] in self.train.tables else None

    @property
    def bounded(self) -> tuple[str, str] | None:  # the key that names the column with the owners of records, and the column
        return None if self.train.units is None else ("train.units", self.train.units)

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything in the file that a resumed run must not have changed."""
        content = {"pipeline": tables_of(self.pipeline), "train": every_key(self.train), "canaries": self.canaries}
        if self.open_to_audit:
            content["canary"] = self.canary
        return fingerprint({**content, **self.row_data})  # row_data: the rows to which a window restricts the run

    def parts(self) -> dict[str, str]:
        """Return the SHA-256 of the file, and of the code and the files that it names, by key. These digests are private.

        A run can be resumed only if no digest has changed.
        """
        digests = source_digests(every_key(self.train), self.path)
        return {"the file": self.fingerprint(), **{f"train.{key}": digest for key, digest in digests.items()}}

    def stage_at(self, step: int) -> Stage:
        """Return the stage of the step that follows the first `step` steps; `step` must be less than `steps`."""
        return next(stage for stage in self.stages if step < stage.stop)

    def milestone(self, step: int) -> int:
        """Return the next step after `step` at which a state is saved: a multiple of train.checkpoint_every, or the end of a stage.

        `step` must be less than `steps`. With checkpoint_every = 200 and one stage of 450 steps, milestones are 200, 400 and 450.
        """
        every = self.train.checkpoint_every
        return min((step // every + 1) * every, self.stage_at(step).stop)

    def repeated_portions(self, resumed_at: Iterable[int]) -> list[Portion]:
        """Return the portions of steps that a run may have taken twice, given the steps at which it was resumed.

        Each portion begins at such a step and ends at the next saved state: [200] gives [(200, 400)] in the example of `milestone`.
        """
        return [(step, self.milestone(step)) for step in resumed_at]

    def costs(self, portions: Iterable[Portion], with_rest: bool = True) -> Pipeline:
        """Return a pipeline whose cost is the cost of the given portions of the run. Each portion is charged separately.

        Args:
            with_rest: Whether to include the entries of the file that training does not perform.
        """
        amounts: Counter[str] = Counter()
        for start, stop in portions:
            for stage in self.stages:
                steps = max(0, min(stop, stage.stop) - max(start, stage.start))
                amounts[stage.entry.name] += stage.charged_amount(steps)
        return replace(self.pipeline, mechanisms=tuple(self._charged_entries(amounts, with_rest)))

    def account_with(self, repeated: Collection[Portion]) -> Account:
        """Return the account of the whole file. The steps in `repeated` count twice."""
        from dpcli.analysis.account import headline

        if not repeated:
            return self.account
        return headline(self.costs([(0, self.steps), *repeated]))

    def _charged_entries(self, amounts: Counter[str], with_rest: bool) -> Iterable[Entry]:
        """Yield the entries of the file with their charged amounts. `amounts` has the amount of each entry that training performs."""
        for entry in self.pipeline.mechanisms:
            # An entry that shares the sample of a stage runs as often as the stage.
            sharing_sample = {other.name for other in sample_readers(entry, self.pipeline.mechanisms)}
            stage = next((stage for stage in self.stages if stage.entry.name in sharing_sample), None)
            if stage is None:  # training does not perform the entry
                if with_rest:
                    yield entry
            elif amounts[stage.entry.name]:
                yield stage.entry_with(entry, amounts[stage.entry.name])


def plan_of(path: str, data: bytes | None = None) -> TrainingPlan:
    """Return the plan of a file. If the file says "calibrate", the noise is computed from the budget.

    Args:
        data: Content to use in place of the file's content; None to read the file. Relative paths and messages refer to `path` in both
            cases.

    Raises:
        InputError: The file cannot be read, or training cannot perform it.
        CannotCertify: No accountant can bound the cost of the file.
    """
    from dpcli.analysis.calibrate_file import solved_pipeline

    data = read_bytes(path) if data is None else data
    train = read_train(data, path)
    pipeline = solved_pipeline(data, path)
    if pipeline.privacy.dataset_size is None:
        raise InputError(f"{path}: privacy.dataset_size: declare the number of records, which determines the divisor of the sum")
    _require_units(pipeline, train, path)
    account = priced_file(path, pipeline).account
    audit = read_settings(data, path)
    return TrainingPlan(
        path=path,
        pipeline=pipeline,
        account=account,
        train=train,
        stages=tuple(_stages(pipeline, train, path)),
        canaries=audit.canaries or 0,
        canary=audit.canary,
        source=data,
    )


def _stages(pipeline: Pipeline, train: Train, path: str) -> Iterable[Stage]:
    """Yield the stages of all entries that training performs, in order."""
    step, dataset_size = 0, pipeline.privacy.dataset_size
    assert dataset_size is not None  # `plan_of` has checked it
    for entry in _performed_entries(pipeline, train, path):
        try:
            planned = list(stages(entry, dataset_size, step))
        except InputError as problem:
            raise InputError(f"{path}: {problem}") from None
        yield from planned
        step = planned[-1].stop


def _performed_entries(pipeline: Pipeline, train: Train, path: str) -> list[Entry]:
    """Return the entries that training performs, in order. Raises InputError if they are ambiguous or cannot be performed."""
    by_name = {entry.name: entry for entry in pipeline.mechanisms if is_trainable(entry.spec)}
    if train.mechanism is None:
        names = tuple(by_name)
        are_clear = len(names) == 1  # the order of several entries would be a guess
    else:
        names = (train.mechanism,) if isinstance(train.mechanism, str) else train.mechanism
        are_clear = bool(names) and len(set(names)) == len(names) and set(names) <= set(by_name)
    if not are_clear:
        raise InputError(
            f"{path}: train.mechanism: expected the name of the entry with Gaussian noise that a step performs, or several names in order "
            f"(a schedule), found {first_names(names)} of {first_names(by_name)}"
        )
    for name in names:
        _require_performable(by_name[name], f'{path}: mechanism["{name}"]')
        _require_own_sample(by_name[name], names, pipeline, path)
        contributions = pipeline.privacy.max_contributions or 1
        # `takes_turns`: Poisson samples are drawn from groups of the records that take turns.
        if contributions > 1 and by_name[name].spec.takes_turns and by_name[name].sampling is not None:
            raise InputError(
                f'{path}: mechanism["{name}"].sampling: expected no sampling with max_contributions = {contributions}, found one: the '
                "price is for all records of a unit in one group, but training divides records among groups; set train.records_per_unit"
            )
    entries = [by_name[name] for name in names]
    require_last_iterate(entries, train, pipeline, path)
    return entries


def require_last_iterate(entries: list[Entry], train: Train, pipeline: Pipeline, path: str) -> None:
    """Raise InputError if the model is for last-iterate (BOUNDED) and the entry is not, or training would break a premise of the entry."""
    last_iterates = [entry for entry in entries if entry.spec.final_only]
    if last_iterates and len(entries) > 1:
        raise InputError(
            f"{path}: train.mechanism: expected no other entry with last-iterate, found {first_names(entry.name for entry in entries)}"
        )
    for entry in last_iterates:
        require_premises(entry, train, pipeline, path)
    if not last_iterates and train.model == BOUNDED:
        raise InputError(
            f'{path}: train.model: expected an entry of type last-iterate with {BOUNDED}, found type "{entries[0].type}"; the model for it '
            "is logistic"
        )


def _require_performable(entry: Entry, place: str) -> None:
    """Raise InputError if training cannot perform an entry as the file declares it."""
    if entry.spec.noise_multiplier is None:  # type: ignore[attr-defined]
        raise InputError(
            f"{place}: expected noise_multiplier, the noise relative to the clipping norm, found sigma with a separate sensitivity"
        )
    if entry.partition is not None:
        raise InputError(f"{place}: expected no partition, found one: training runs on all of the data")


def _require_own_sample(entry: Entry, names: tuple[str, ...], pipeline: Pipeline, path: str) -> None:
    """Raise InputError if two entries of a schedule share their samples.

    Entries outside the schedule may share them. Such entries are charged, but training does not perform them.
    """
    sharing_sample = [other.name for other in sample_readers(entry, pipeline.mechanisms) if other is not entry]
    scheduled = [name for name in sharing_sample if name in names]
    if scheduled:
        raise InputError(
            f'{path}: mechanism["{entry.name}"].sample: expected a sample that no other entry of the schedule uses, found the sample of '
            f'"{scheduled[0]}": each entry of a schedule draws its own samples'
        )


def _require_units(pipeline: Pipeline, train: Train, path: str) -> None:
    """Raise InputError if training does not bound the number of records of a unit as the file declares."""
    contributions = pipeline.privacy.max_contributions or 1
    if contributions > 1 and train.units is None:
        raise InputError(
            f"{path}: train.units: name the column of each record's owner, which max_contributions = {contributions} needs"
        )
    if contributions > 1 and train.records_per_unit is not None:
        raise InputError(
            f"{path}: privacy.max_contributions: expected 1 with train.records_per_unit, found {contributions}: a unit's records are drawn "
            "together and clipped as one, which is one contribution"
        )
