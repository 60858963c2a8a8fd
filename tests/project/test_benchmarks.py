"""The benchmarks' own arithmetic; how fast is for the benchmarks to say."""

from __future__ import annotations

from collections import Counter

from tests.benchmarks import durations

LOG = """
============================= slowest durations ==============================
1.50s call     tests/gate/test_a.py::test_one[x-1]
0.25s setup    tests/gate/test_a.py::test_one[y y]
0.50s teardown tests/lint/test_b.py::test_two
"""


def test_durations_are_added_up_by_function_and_folder() -> None:
    log = durations.durations(LOG)
    assert log == {("tests/gate/test_a.py", "test_one"): 1.75, ("tests/lint/test_b.py", "test_two"): 0.5}
    half = {key: value / 2.0 for key, value in log.items()}
    lines = durations.table([log, Counter(half)], lambda key: key[0].rpartition("/")[0], 10)
    assert [line.split() for line in lines] == [["1.8", "0.9", "tests/gate"], ["0.5", "0.2", "tests/lint"], ["2.2", "1.1", "all"]]
    assert len(durations.table([log], "::".join, 1)) == 2
