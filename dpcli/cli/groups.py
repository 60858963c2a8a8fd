"""Command groups that import a command when it is called, and suggest a command or a flag for an unknown word.

A `LazyGroup` has a table of its commands with their short help, so that --help imports none of them. main.py makes one of all commands, and
commands such as `dpcli budget` are groups themselves. An option that takes one value may be given only once (`prepare`): Click would
silently take the last one, which is dangerous for caps. Suggestions come from tables of other tools' words (SYNONYMS, ADVICE) and from
spelling; a wrong number is explained, never repaired.
"""

from __future__ import annotations

import copy
import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

# The message of click about an option that expects a number.
NOT_A_NUMBER = re.compile(r"'(.*)' is not a valid (integer|float)")
# A comma before groups of three digits, and a comma in place of a decimal point; three digits after it could be either.
THOUSANDS, DECIMAL_COMMA = re.compile(r"\d{1,3}(?:,\d{3})+"), re.compile(r"\d+,(?:\d{1,2}|\d{4,})")
MOST_DIGITS = 20  # largest number of digits of a number that a message suggests; arbitrary
MOST_LISTED = 8  # largest number of commands that a message lists; arbitrary
Commands = Mapping[str, tuple[str, str]]  # name -> ("module:object", short help)

# Flags to suggest for an unknown flag, with their meanings. The first flag that the command has is suggested.
SYNONYMS = {
    "--sigma": (("--noise-multiplier", "the standard deviation over the sensitivity"),),
    "--noise": (("--noise-multiplier", "the standard deviation over the sensitivity"),),
    "--epsilon": (("--target-epsilon", "the epsilon to meet"), ("--max-epsilon", "the cap on epsilon")),
    "--target-epsilon": (("--max-epsilon", "the cap on epsilon"),),
    "--rho": (("--target-rho", "the rho to meet, in zCDP"), ("--max-rho", "the cap on rho, in zCDP")),
    "--mu": (("--target-mu", "the mu to meet, in Gaussian DP"),),
    "--q": (("--sampling-rate", "the probability of each record"),),
    "--sample-rate": (("--sampling-rate", "the probability of each record"),),
}
# Advice about flags that a command does not have. ADVICE lists it by command and flag.
ADVICE_ON_NOISE = "this command solves for the noise; dpcli account --noise-multiplier NOISE computes the cost of given noise"
ADVICE_ON_EPSILON = "dpcli calibrate-sigma --target-epsilon EPSILON solves for the noise that meets a target"
ADVICE_ON_SAMPLING = (
    "the flags describe Poisson sampling; for another scheme write a file with --write FILE and change scheme in its sampling table"
)
ADVICE_ON_LAPLACE = (
    "with flags, only Gaussian noise is solved for; for Laplace noise: dpcli account --laplace --noise-multiplier 1 --delta 0 "
    "--write FILE, then dpcli calibrate-sigma FILE --target-epsilon EPSILON"
)
ADVICE_ON_RHO = (
    "the cap is an epsilon at a delta; --filter zcdp adds up rhos, up to the largest rho that this epsilon allows; for the epsilon of a "
    'rho: dpcli account FILE, with type = "zcdp" and rho in FILE'
)
ADVICE_ON_CONTRIBUTIONS = "state max_contributions in [privacy] of the file of each run; --unit names the owner of the records"
ADVICE = {
    ("account", "--rho"): 'state it in a file: type = "zcdp" with rho; dpcli calibrate-sigma --target-rho RHO solves for the noise',
    ("account", "--sampling"): ADVICE_ON_SAMPLING,
    ("account", "--target-epsilon"): ADVICE_ON_EPSILON,
    ("budget init", "--max-contributions"): ADVICE_ON_CONTRIBUTIONS,
    ("budget init", "--rho"): ADVICE_ON_RHO,
    ("calibrate-sigma", "--laplace"): ADVICE_ON_LAPLACE,
    ("calibrate-sigma", "--noise"): ADVICE_ON_NOISE,
    ("calibrate-sigma", "--noise-multiplier"): ADVICE_ON_NOISE,
    ("calibrate-sigma", "--sampling"): ADVICE_ON_SAMPLING,
    ("calibrate-sigma", "--sigma"): ADVICE_ON_NOISE,
}
# Purpose of a command, and other words that users try for it.
SYNONYMS_OF_COMMANDS = {
    "account": ("the cost of noise", ("accountant", "composition", "compute", "cost", "delta", "epsilon", "eps", "price", "rho")),
    "calibrate-sigma": ("the noise for an epsilon", ("noise", "noise-multiplier", "sigma", "solve")),
    "explain": ("the meaning of a word", ("define", "glossary", "what")),
    "lint": ("known failures of a file", ("check", "validate", "verify")),
    "report": ("a disclosure statement", ("disclose", "disclosure", "statement")),
}


class LazyGroup(click.Group):
    """A group whose commands are listed in a table. A command is imported when it is called."""

    def __init__(self, *args: Any, table: Commands, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        from dpcli.base.lazy import load

        target, _short_help = self.table[cmd_name]
        command: click.Command = load(target)
        return prepare(command, ctx.find_root().command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-"):
            ctx.fail(f"no such command '{args[0]}'; {self._suggestion(args[0], ctx.command_path)}")
        return super().resolve_command(ctx, args)

    def _suggestion(self, word: str, path: str) -> str:
        """Return the end of the message about an unknown command.

        It suggests `account` for a file, a command for a word that means the same, or a command with a similar name. Otherwise it lists the
        commands, if there are few, or says how to list them.

        Args:
            word: The unknown command.
            path: The words before it, such as "dpcli".
        """
        import difflib

        if "account" in self.table and (word.endswith(".toml") or os.path.isfile(word)):
            return f"for the cost of a file: {path} account {shlex.quote(word)}"
        for command, (purpose, other_words) in SYNONYMS_OF_COMMANDS.items():
            if command in self.table and word.lower().lstrip("-").replace("_", "-") in other_words:
                return f"did you mean '{command}' ({purpose})?"
        if similar := difflib.get_close_matches(word, self.table, n=1):
            return f"did you mean '{similar[0]}'?"
        if len(self.table) <= MOST_LISTED:
            return f"commands: {', '.join(sorted(self.table))}"
        return f"{path} --help lists the commands"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(self.table.items())])


def prepare(command: click.Command, root: click.Command) -> click.Command:
    """Change a command so that it accepts the options of the root, and refuses an option that is given two values. Return the command.

    Click would take the last of two values without a message, which is dangerous for caps. Options that may be repeated, and flags without
    a value, are accepted as before. A command that was changed already stays as it is.
    """
    if "make_parser" not in vars(command):  # False after the assignment below
        add_global_options(command, root)
        command.make_parser = partial(_strict_parser, command.make_parser)  # type: ignore[method-assign]
    return command


def add_global_options(command: click.Command, root: click.Command) -> None:
    """Add to the command each option of the root that shares no name with its own options. Only the help of the root lists them."""
    flags = {name for parameter in command.params for name in parameter.opts}
    for option in root.params:
        if isinstance(option, click.Option) and flags.isdisjoint(option.opts):
            accepted = copy.copy(option)
            accepted.hidden = True
            command.params.append(accepted)


def _strict_parser(make: Callable[[click.Context], Any], context: click.Context) -> Any:
    """Return the parser that `make` makes (the method `make_parser` of the command), with options of one value that may be given only once.

    It reads two private attributes of click's parser, which click 8.1.7 to 8.5 have.
    """
    parser = make(context)
    # By identity, since an option is listed under each of its names, and must be changed once.
    options = {id(option): option for option in (*parser._long_opt.values(), *parser._short_opt.values())}
    for option in options.values():
        if option.action == "store":  # an option that takes one value, unlike "append" or a flag
            option.process = partial(_process_once, context, option.obj, option.dest, option.process)
    return parser


def _process_once(
    context: click.Context, option: click.Option, name: str, process: Callable[[Any, Any], None], value: Any, state: Any
) -> None:
    """Process an option as Click does. Raises UsageError if the option was given before."""
    if name in state.opts:
        flag = max(option.opts, key=len)
        raise click.UsageError(f"{flag}: expected it once, found it again: {state.opts[name]}, then {value}", context)
    process(value, state)


def with_suggestion(error: click.NoSuchOption) -> click.UsageError:
    """Return the error for an unknown option, with a suggestion if there is one."""
    hint = _hint(error.option_name, error.ctx)
    return click.UsageError(f"no such option '{error.option_name}'; {hint}", error.ctx) if hint else error


def with_number(error: click.BadParameter) -> click.BadParameter:
    """Return the error for an option that expects a number, with the number as it should be written, if the value shows what was meant."""
    match = NOT_A_NUMBER.match(error.message)
    number = _number_meant(value=match[1], kind=match[2]) if match else ""
    return click.BadParameter(f"{error.message} Write {number}.", error.ctx, error.param) if number else error


def _number_meant(value: str, kind: str) -> str:
    """Return the number that a text with a percent sign, commas or an exponent states, such as "1,000" -> "1000"; "" if unclear.

    `kind` is "integer" or "float", as Click names what it expected. As a float, "1,000" is unclear: one, or a thousand.
    """
    if kind == "float" and value.endswith("%"):
        return _digits(value[:-1], divisor=100)
    if kind == "float":
        return value.replace(",", ".") if DECIMAL_COMMA.fullmatch(value) else ""
    without_commas = value.replace(",", "") if THOUSANDS.fullmatch(value) else value
    result = _digits(without_commas, divisor=1)  # also of 1e3 or 100.0
    return result if result.isdecimal() else ""


def _digits(text: str, divisor: int) -> str:
    """Return a number over a power of ten, such as ("1.5", 100) -> "0.015"; "" if the text is no finite number of moderate size."""
    from decimal import Decimal, InvalidOperation

    try:
        number = Decimal(text) / divisor
    except InvalidOperation:
        return ""
    return f"{number.normalize():f}" if number.is_finite() and abs(number.adjusted()) < MOST_DIGITS else ""


def _hint(flag: str, context: click.Context | None) -> str:
    """Return a suggestion for an unknown flag of a command; "" if there is none, or if the command is unknown."""
    if context is None:
        return ""
    flags = {name for parameter in context.command.params for name in parameter.opts}
    for synonym, meaning in SYNONYMS.get(flag, ()):
        if synonym in flags:
            return f"did you mean {synonym} ({meaning})?"
    _dpcli, _, command = context.command_path.partition(" ")
    return ADVICE.get((command, flag), "")
