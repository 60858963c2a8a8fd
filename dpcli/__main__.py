"""python -m dpcli"""

from dpcli.cli.main import run

run()
