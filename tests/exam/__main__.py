"""What the exam examines, and by what: python -m tests.exam [TYPE ...]"""

from __future__ import annotations

import sys

from dpcli.base.registry import MECHANISMS
from tests.exam.coverage import LEGEND, table

for line in (*table(sys.argv[1:] or MECHANISMS), "", *LEGEND):
    print(line, flush=True)  # noqa: T201
