"""A training run that is killed at random moments: python -m tests.benchmarks.kills [KILLS]

Prints the steps taken, the noise drawn, what was charged, and that no noise was drawn twice.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.train.killed import STEPS, lived, require_kept


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        life = lived(Path(folder), kills, seed=1)
        require_kept(life, Path(folder))
    result = life.result
    print(  # noqa: T201
        f"{kills} kills, {life.resumed} resumptions: {result['steps']} of {STEPS} steps done, {len(life.drawn)} draws of noise, "
        f"{len(set(life.drawn))} of them different, {STEPS} + {result['repeated']} steps charged, "
        f"epsilon {result['result']['epsilon_upper']:.4f}"
    )


if __name__ == "__main__":
    main()
