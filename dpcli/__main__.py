"""Entry point of `python -m dpcli`."""

from dpcli.cli.start import run

run()
