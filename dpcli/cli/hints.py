"""Hints for a flag or a command that does not exist: the spelling or the command that has it."""

from __future__ import annotations

import click

# The flags that it may be, in this order, of those that the command has; with what each means.
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
SOLVED = "the noise is what this command solves for; what some noise costs: dpcli account --noise-multiplier NOISE"
SOLVES = "dpcli calibrate-sigma --target-epsilon EPSILON solves for the noise that meets it"
STATES = "these flags state Poisson sampling: keep them with --write FILE, then change scheme in the file's sampling table"
LAPLACE = (
    "from flags Gaussian noise alone is solved for; for Laplace noise: dpcli account --laplace --noise-multiplier 1 --delta 0 "
    "--write FILE, then dpcli calibrate-sigma FILE --target-epsilon EPSILON"
)
RHO = (
    "the cap is an epsilon at a delta; --filter zcdp adds up rhos, up to the largest that this epsilon allows; what a rho costs: "
    'dpcli account FILE, with type = "zcdp" and rho in FILE'
)
RECORDS = "state max_contributions in [privacy] of each run's file; --unit says whose records these are"
# What is said of a flag by the command that has none of that meaning.
ELSEWHERE = {
    ("account", "--rho"): 'state it in a file: type = "zcdp" with rho; dpcli calibrate-sigma --target-rho RHO solves for the noise',
    ("account", "--sampling"): STATES,
    ("account", "--target-epsilon"): SOLVES,
    ("budget init", "--max-contributions"): RECORDS,
    ("budget init", "--rho"): RHO,
    ("calibrate-sigma", "--laplace"): LAPLACE,
    ("calibrate-sigma", "--noise"): SOLVED,
    ("calibrate-sigma", "--noise-multiplier"): SOLVED,
    ("calibrate-sigma", "--sampling"): STATES,
    ("calibrate-sigma", "--sigma"): SOLVED,
}
# Words that somebody types for a command, and what it does.
COMMANDS = {
    "account": ("what noise costs", ("accountant", "composition", "compute", "cost", "delta", "epsilon", "eps", "price", "rho")),
    "calibrate-sigma": ("the noise for an epsilon", ("noise", "noise-multiplier", "sigma", "solve")),
    "explain": ("what a word means", ("define", "glossary", "what")),
    "lint": ("known failures of a file", ("check", "validate", "verify")),
    "report": ("what to disclose", ("disclose", "disclosure", "statement")),
}


def hinted(error: click.NoSuchOption) -> click.UsageError:
    """The same error, with what to write instead; as it was where there is nothing better to say than click does."""
    words = _hint(error.option_name, error.ctx)
    return click.UsageError(f"no such option '{error.option_name}'; {words}", error.ctx) if words else error


def _hint(flag: str, context: click.Context | None) -> str:
    if context is None:
        return ""
    own = {name for one in context.command.params for name in one.opts}
    meant = next((f"did you mean {name} ({meaning})?" for name, meaning in SYNONYMS.get(flag, ()) if name in own), "")
    return meant or ELSEWHERE.get((context.command_path.partition(" ")[2], flag), "")


def command_for(word: str) -> tuple[str, str] | None:
    """The command that somebody means by a word, and what it does; None where no other word is known for one."""
    low = word.lower().lstrip("-").replace("_", "-")
    return next(((name, does) for name, (does, words) in COMMANDS.items() if low in words), None)
