"""Whether audits tell right programs from wrong ones: alarms about random right ones, planted faults, and faults as small as was said.

python -m tests.benchmarks.audit_power [PROGRAMS [AUDITS]]

Every program is a real training run of the digits: its replay, and an audit of it by gradients in its sums. Seeds are fresh.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, chdir
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from dpcli.audit.decide import Audit
from dpcli.audit.replay import Pair, ReplayCheck, checks
from dpcli.train.plan.plan import plan_of
from dpcli.train.replay import program
from dpcli.train.tasks import array_files as arrays
from tests.train.bugs import BUGS, drawn_twice_as_often, noise_by_batch
from tests.train.canaries import AUDIT, ENTRIES, OFTEN_SEEN, SIZE, audited, factor_of, less_noise
from tests.train.entries import TRAIN
from tests.train.followed import following_once

REPLAYS = 2
STYLES = ("flat", "automatic", "per-layer")
OPTIMIZERS = ("", "momentum = 0.9\n", 'optimizer = "adam"\n')
Plant = Callable[[pytest.MonkeyPatch], None]
ROBBED: dict[str, Plant] = {
    "noise/20": lambda patch: less_noise(20.0, patch),
    "noise over the batch size": lambda patch: less_noise(630.0, patch),
    "noise by the records drawn": noise_by_batch,
    "records drawn twice as often": drawn_twice_as_often,
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def written(entry: str, train: str) -> str:
    Path("audited.toml").write_text(SIZE + entry + train + AUDIT)
    return "audited.toml"


def any_right(chance: np.random.Generator) -> str:
    """A random right program of few steps."""
    entry = ENTRIES[list(ENTRIES)[int(chance.integers(len(ENTRIES) - 1))]]
    entry = entry.replace("steps = 20", f"steps = {chance.integers(2, 16)}").replace("epochs = 3", "epochs = 1")
    entry = entry.replace("rate = 0.3", f"rate = {chance.uniform(0.05, 0.5):.3f}").replace("batch_size = 50", "batch_size = 250")
    train = TRAIN.replace("norm = 1.0", f'norm = {chance.uniform(0.1, 3.0):.3f}, style = "{chance.choice(STYLES)}"')
    train = train.replace("learning_rate = 1.0", f"{chance.choice(OPTIMIZERS)}learning_rate = {chance.uniform(0.01, 1.0):.3f}")
    return written(entry, train)


def replayed(path: str, seed: int, replays: int = REPLAYS) -> list[ReplayCheck]:
    """The checks that fail."""
    found = program.replays(path)
    pairs = [Pair(*found.replay(index, np.random.default_rng([seed, index]))) for index in range(replays)]
    return [check for check in checks(pairs, found.declared) if not check.passed]


def by_gradients(path: str, seed: int) -> Audit:
    return audited(plan_of(path), seed)


def right_programs(count: int, seed: int) -> None:
    alarms = {"replay": 0, "gradients": 0}
    for number in range(count):
        path = any_right(np.random.default_rng([seed, number]))
        wrong = replayed(path, seed + number)
        alarms["replay"] += bool(wrong)
        alarms["gradients"] += by_gradients(path, seed + number).violated
        for check in wrong:
            say(f"program {number} of seed {seed}: {check.name}: {check.message}")
        if (number + 1) % 10 == 0 or number + 1 == count:
            said = ", ".join(f"{name} {100.0 * k / (number + 1):.1f} %" for name, k in alarms.items())
            say(f"right programs: {number + 1} audited by each, called wrong by {said}")


def planted(seed: int) -> None:
    say("| planted | by a replay | by gradients |\n| --- | --- | --- |")
    for name, (plant, check, entry) in BUGS.items():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            found = [one.name for one in replayed(written(entry, TRAIN), seed, 6)]
        with pytest.MonkeyPatch.context() as patch:
            ROBBED.get(name, lambda patch: None)(patch)
            other = str(by_gradients(written(OFTEN_SEEN, TRAIN), seed).violated) if name in ROBBED else "-"
        say(f"| {name} | {check in found} ({', '.join(found) or 'nothing'}) | {other} |")


def as_small_as_said(audits: int, seed: int) -> None:
    """Of gradients: noise / x and half of that loss, x as the audit says."""
    path = written(OFTEN_SEEN, TRAIN)
    said = factor_of(by_gradients(path, seed))
    for factor in (said, 0.5 * (1.0 + said)):
        with pytest.MonkeyPatch.context() as patch:
            less_noise(factor, patch)
            found = sum(by_gradients(path, seed + k).violated for k in range(audits))
        say(f"gradients: said noise/{said:g} with 90 %; noise/{factor:.3g} found in {found} of {audits}")


def main(programs: int, audits: int) -> None:
    torch.set_num_threads(1)
    seed = secrets.randbits(31)
    with ExitStack() as held:
        held.enter_context(chdir(held.enter_context(tempfile.TemporaryDirectory())))
        held.enter_context(mock.patch.object(arrays, "digits", cache(arrays.digits)))
        held.enter_context(following_once())
        planted(seed)
        as_small_as_said(audits, seed)
        right_programs(programs, seed)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*(given + [200, 20][len(given) :]))
