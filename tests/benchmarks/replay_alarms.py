"""How often the replay's statistics call noise wrong: right noise at most as often as stated, each planted fault nearly always.

python -m tests.benchmarks.replay_alarms [AUDITS]
"""

from __future__ import annotations

import sys

from tests.audit.noises import RIGHT, WRONG, refuted, table

SHAPES = ((5, 20, 606), (5, 40, 606), (5, 20, 1), (5, 1, 606), (1, 1, 606), (1, 1, 1), (2, 60, 18), (5, 8, 60))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(audits: int) -> None:
    say("| right noise | runs x steps x numbers | audits | called wrong |\n| --- | --- | --- | --- |")
    for shape in SHAPES:
        count = sum(bool(refuted(table(RIGHT["as declared"], seed, *shape))) for seed in range(audits))
        say(f"| as declared | {shape[0]} x {shape[1]} x {shape[2]} | {audits} | {100.0 * count / audits:.1f} % |")
    for name in list(RIGHT)[1:]:
        count = sum(bool(refuted(table(RIGHT[name], seed))) for seed in range(audits))
        say(f"| {name} | 5 x 20 x 606 | {audits} | {100.0 * count / audits:.1f} % |")
    tries = max(1, audits // 20)
    say("\n| wrong noise | the check about it | found by it | found by any |\n| --- | --- | --- | --- |")
    for name, (noise, check) in WRONG.items():
        found = [refuted(table(noise, seed)) for seed in range(tries)]
        own, some = sum(check in one for one in found), sum(bool(one) for one in found)
        say(f"| {name} | {check} | {own} of {tries} | {some} of {tries} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
