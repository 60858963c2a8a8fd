"""The command `dpcli man`, which writes the manual pages, so that they say what the program itself says.

Pages of section 1 come from the help of commands, those of section 5 from the classes that read files, and those of section 7 from the
Markdown in dpcli/explain (topics.py). A page consists of sections (`ManualSection`), each with paragraphs and *terms*, which are pairs of a
term and its description; document/formats/troff.py turns them into the language of man. The pages in man/ of the repository are written by
this command, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

import click

from dpcli import __version__
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import COMMANDS, FILES
from dpcli.cli.groups import Commands, LazyGroup
from dpcli.cli.main import cli
from dpcli.document.formats.troff import ManualSection, literal, page
from dpcli.explain.lists import EXIT_CODES, GENERATED
from dpcli.explain.topics import TOPICS, topic, with_command
from dpcli.file.keys.annotations import keys_of
from dpcli.file.keys.tables import Members
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.key_places import tables
from dpcli.gate.policy import KEYS
from dpcli.lint.catalogue import ELSEWHERE, LEDGER_RULES, codes, rule

ABOUT_ACCOUNTANTS = "Upper bounds; the headline is the smallest sound bound that applies."
ABOUT_FILTERS = (
    "Privacy filters that add up the runs of a ledger (dpcli budget). A run may be chosen from the outputs of earlier runs."
)
ABOUT_RULES = "Rules that dpcli lint and dpcli gate check. dpcli explain CODE explains a rule."
ABOUT_FAILURES = "Failures that a test, the ledger or the run itself has to detect. dpcli explain CODE explains a failure."


@click.command(short_help="Write the manual pages.")
@click.argument("directory")
def command(directory: str) -> None:
    """Write the manual pages into DIRECTORY: dpcli.1, one page for each command, dpcli-pipeline.5, dpcli-policy.5 and dpcli-schedule.5,
    and the pages of section 7 (dpcli-tutorial.7 and others)."""
    import os

    from dpcli.cli.document_files import write

    if not directory:
        raise InputError("DIRECTORY: expected a folder, found an empty name; . is the current folder")
    result = pages()
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be created: {error.strerror}") from None
    for name, text in result.items():
        write(f"{directory}/{name}", text)
    click.echo(f"wrote {len(result)} pages to {directory}", err=True)


def pages() -> dict[str, str]:
    """Return the text of every page, by its file name."""
    files = {"pipeline": _pipeline_page, "policy": _policy_page, "schedule": _schedule_page}
    result = {"dpcli.1": _main_page()} | {f"dpcli-{name}.5": made() for name, made in files.items()}
    context = _context()
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        result |= _command_pages(f"dpcli {name}", command, context)
    return result | {f"dpcli-{name}.7": _topic_page(name) for name in TOPICS}


def _topic_page(name: str) -> str:
    result = topic(name)
    return page(f"dpcli-{name}", 7, result.title, result.sections, __version__)


def _main_page() -> str:
    commands = tuple((f"dpcli {name}", f"{text} See dpcli-{name}(1).") for name, (_, text) in sorted(COMMANDS.items()))
    rules = tuple((code, rule(code).title) for code in codes())
    failures = tuple((code, load(target).title) for code, target in {**ELSEWHERE, **LEDGER_RULES}.items())
    description = (*_paragraphs(cli.help or ""), "The file format is in dpcli-pipeline(5).")
    pages_of_files = ("dpcli-pipeline(5)", "dpcli-policy(5)", "dpcli-schedule(5)")
    sections = (
        ManualSection("synopsis", ("dpcli [options] command [arguments]",)),
        ManualSection("description", description),
        ManualSection("options", terms=_options(cli, _context())),
        ManualSection("commands", terms=commands),
        ManualSection("accountants", (ABOUT_ACCOUNTANTS,), GENERATED["accountants"]()),
        ManualSection("filters", (ABOUT_FILTERS,), GENERATED["filters"]()),
        ManualSection("formats", terms=GENERATED["formats"]()),
        ManualSection("rules", (ABOUT_RULES,), rules),
        ManualSection("failures that no file reveals", (ABOUT_FAILURES,), failures),
        ManualSection("exit status", terms=EXIT_CODES),
        ManualSection("see also", (", ".join((*pages_of_files, *_topic_names(TOPICS))),)),
    )
    return page("dpcli", 1, "account for the privacy loss of differentially private pipelines", sections, __version__)


def _context() -> click.Context:
    """Return the context of a running program, which names the help option."""
    return click.Context(cli, info_name="dpcli", **cli.context_settings)


def _command_pages(words: str, command: click.Command, parent: click.Context) -> dict[str, str]:
    """Return the pages of a command and its subcommands. `words` is the command as it is typed."""
    _, _, name_of_command = words.rpartition(" ")
    context = click.Context(command, parent=parent, info_name=name_of_command)
    command._help_option = None  # click caches the help option of the first context, whose names may differ
    table = command.table if isinstance(command, LazyGroup) else {}
    result = {f"{_page_name(words)}.1": _command_page(words, command, context, table)}
    for name in table:
        subcommand = command.get_command(context, name) if isinstance(command, LazyGroup) else None
        assert subcommand is not None
        result |= _command_pages(f"{words} {name}", subcommand, context)
    return result


def _command_page(words: str, command: click.Command, context: click.Context, table: Commands) -> str:
    usage = " ".join((words, *command.collect_usage_pieces(context)))
    sections = [ManualSection("synopsis", (usage,)), ManualSection("description", _paragraphs(command.help or ""))]
    if table:
        terms = [(f"{words} {name}", f"{text} See {_page_name(words)}-{name}(1).") for name, (_, text) in table.items()]
        sections.append(ManualSection("commands", terms=tuple(terms)))
    references = ", ".join(("dpcli(1)", "dpcli-pipeline(5)", *_topic_names(with_command(words))))
    sections += [
        ManualSection("options", terms=_options(command, context)),
        ManualSection("exit status", terms=EXIT_CODES),
        ManualSection("see also", (references,)),
    ]
    return page(_page_name(words), 1, (command.short_help or "").rstrip(".").lower(), sections, __version__)


def _topic_names(topics: Sequence[str]) -> Iterator[str]:
    return (f"dpcli-{name}(7)" for name in topics)


def _page_name(words: str) -> str:
    return words.replace(" ", "-")


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(block for block in text.split("\n\n") if block.strip())


def _options(command: click.Command, context: click.Context) -> tuple[tuple[str, str], ...]:
    options = (parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option))
    records = (option.get_help_record(context) for option in options)
    return tuple(record for record in records if record is not None)


def _pipeline_page() -> str:
    about = "A TOML file that describes one pipeline: the protected unit, the mechanisms, their sampling and the budget."
    sections = (
        ManualSection("description", (about,)),
        ManualSection("example", (literal(_example()),)),
        *_tables(TOP),
        ManualSection("see also", ("dpcli(1), dpcli-account(1), dpcli-lint(1), dpcli-schema(1)",)),
    )
    return page("dpcli-pipeline", 5, "the pipeline file, format 1", sections, __version__)


def _policy_page() -> str:
    from dpcli.gate import policy

    sections = (*_sections_of_docstring(policy), *_tables(KEYS), ManualSection("see also", ("dpcli-gate(1), dpcli-pipeline(5)",)))
    return page("dpcli-policy", 5, "the policy file of dpcli gate, format 1", sections, __version__)


def _schedule_page() -> str:
    from dpcli.ledger.planning import schedule

    also = ManualSection("see also", ("dpcli-budget-plan(1), dpcli-ledger(7), dpcli-pipeline(5)",))
    keys_of_schedule, _ = FILES["schedule"]  # the targets of the keys and of the reader
    sections = (*_sections_of_docstring(schedule), *_tables(load(keys_of_schedule)), also)
    return page("dpcli-schedule", 5, "the schedule of dpcli budget plan, format 1", sections, __version__)


def _sections_of_docstring(module: ModuleType) -> tuple[ManualSection, ManualSection]:
    """Return the description, which is the first and the last paragraph of a docstring, and the indented example between them."""
    first_paragraph, _, example_and_last = (module.__doc__ or "").partition("\n\n")
    indented_example, _, last_paragraph = example_and_last.rpartition("\n\n")
    example = "\n".join(line.removeprefix("    ") for line in indented_example.split("\n"))
    return (
        ManualSection("description", (first_paragraph.removesuffix(" For example:"), last_paragraph.strip())),
        ManualSection("example", (literal(example),)),
    )


def _example() -> str:
    from dpcli.templates import read_template

    return read_template("dp-sgd")


def _tables(top: Members) -> tuple[ManualSection, ...]:
    """Return a section for each table of a file with these keys at its top level."""
    return tuple(ManualSection(place.title, _paragraphs(place.doc), _keys(place.members)) for place in tables(top))


def _keys(members: Members) -> tuple[tuple[str, str], ...]:
    return tuple((key.name, f"{key.doc} ({key.takes}; {key.default}).") for key in keys_of(members))
