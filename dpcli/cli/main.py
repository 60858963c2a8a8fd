"""The entry point of the command line. It loads the called command, and turns every error into one message and an exit code.

Errors of dpcli have exit codes of their own; errors of Click and of the operating system have 2, and an interruption 130. Any other
exception is a bug in dpcli, with the exit code 70, and -vv prints its trace. `_report` writes most errors into the reports that were asked
for. Only what every command needs is imported here: each further import is paid for by all.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from dpcli.base.errors import DpcliError
from dpcli.base.registry import COMMANDS
from dpcli.cli.completion import VARIABLE, register
from dpcli.cli.groups import LazyGroup, with_number, with_suggestion
from dpcli.cli.options import global_options
from dpcli.cli.printing import complain, discard, message_of, open_closed_streams, show, standard_error


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: dpcli init > pipeline.toml; dpcli account pipeline.toml",
)
@global_options
def cli() -> None:
    """Account for the privacy loss of a differentially private pipeline, calibrate its noise, and gate its budget.

    Exit codes: 0 pass, 1 refused by a gate or a budget, 2 input error, 3 cannot certify, 4 the ledger is missing, locked or damaged, 70 a
    bug in dpcli, 130 interrupted.

    The options may stand before or after the command.
    """


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        arguments: Arguments without the name of the program; None for those of the process.
    """
    try:
        code = main(sys.argv[1:] if arguments is None else arguments)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has finished, and its exit code must not change
    except KeyboardInterrupt:  # after the command and before the call above
        code = 130
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Flush the streams and end the process.

    With torch.distributed, threads may wait for other processes and would abort an orderly exit. The process then ends at once.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(ValueError, AttributeError):  # the stream is closed or missing
            try:
                stream.flush()
            except OSError:  # such as a full disk; Python would flush again at exit and change the exit code
                discard(number)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str]) -> int:
    """Run the command line and return its exit code, as listed in the help of `cli`.

    Results go to standard output, messages to standard error.
    """
    open_closed_streams()
    if VARIABLE in os.environ:  # a shell asks for completions of a command line
        register()
    try:
        # Not standalone: Click returns the result of the command and raises its errors, instead of ending the process.
        result: Any = cli.main(arguments, prog_name="dpcli", standalone_mode=False)
        show("")  # flushes standard output, so that its errors are met here
    except DpcliError as error:
        complain(message_of(error))
        _report(error, arguments)
        return error.exit_code
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            error = with_suggestion(error)
        elif isinstance(error, click.BadParameter):
            error = with_number(error)
        with standard_error():
            error.show()
        _report(error, arguments)
        return 2
    except OSError as error:
        complain(f"{error.filename or 'output'}: {error.strerror}")
        return 2
    except (click.Abort, KeyboardInterrupt) as error:
        remains = str(error.__cause__ or error)  # description of the state that the interrupted command leaves
        complain(f"interrupted: {remains}" if remains else "interrupted")
        return 130
    except (Exception, RecursionError) as error:
        return _internal(error, arguments)
    return result if isinstance(result, int) else 0


def _report(error: BaseException, arguments: list[str]) -> None:
    """Write the error into the reports that the command line asks for, if the command has not done so itself.

    A failure here is not shown, because the error itself has been shown.
    """
    with suppress(Exception):
        from dpcli.cli.unreported import report_unreported

        report_unreported(error, arguments)


def _internal(error: BaseException, arguments: list[str]) -> int:
    """Print a message about a bug in dpcli and, if -v is given twice, the trace of the error. Return the exit code 70."""
    complain(f"internal error ({type(error).__name__}: {error}): no number was printed; please report it (trace: dpcli -vv ...)")
    _report(error, arguments)
    if sum(map(_verbosity, arguments)) >= 2:
        import traceback

        with standard_error():
            click.echo("".join(traceback.format_exception(error)), nl=False, err=True)
    return 70


def _verbosity(word: str) -> int:
    """Return how often a word of the command line contains -v: 2 for "-vv" and "-qvv", 1 for "--verbose"."""
    is_short = re.fullmatch("-[qv]+", word) is not None
    return word.count("v") if is_short else int(word == "--verbose")
