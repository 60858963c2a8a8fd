"""The benchmarks' own arithmetic; how fast is for the benchmarks to say."""

from __future__ import annotations

from collections import Counter

from tests.benchmarks import durations
from tests.benchmarks.release_speed import with_section

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


def test_a_section_of_a_page_is_replaced_where_it_stands() -> None:
    page = "# Page\n\n## One\n\nold\n\n## Two\n\nkept\n"
    new = "## One\n\nnew \\1\n"
    replaced = with_section(page, "## One", new)
    assert replaced == page.replace("old", "new \\1") == with_section(replaced, "## One", new)
    added = with_section(page, "## Three", "## Three\n\nthree\n")
    assert added == f"{page}\n## Three\n\nthree\n" == with_section(added, "## Three", "## Three\n\nthree\n")
