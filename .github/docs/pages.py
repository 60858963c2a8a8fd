"""The pages of the documentation site, made from README, the manual, the examples and the source; mkdocs calls the functions named on_.

Without mkdocs, `pages()` returns the Markdown of every page: tests/project/test_site.py reads it.
"""

from __future__ import annotations

import functools
import io
import posixpath
import re
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import dpcli  # noqa: E402
from dpcli.document.formats.troff import ManualSection, literal_text  # noqa: E402
from dpcli.explain import topics  # noqa: E402
from dpcli.explain.commands import man  # noqa: E402
from dpcli.explain.lists import GENERATED  # noqa: E402

REPOSITORY = "https://github.com/OWNER/dpcli"


class Task(NamedTuple):
    """A section of the manual that answers what somebody searches for: the name of its page, title, what it does, and where it stands.

    section: its heading; empty for what stands before all headings. extra: the optional dependencies of its commands.
    """

    name: str
    title: str
    summary: str
    page: str
    section: str
    extra: str = ""


TASKS = (
    Task(
        "opacus-epsilon",
        "Epsilon of an Opacus run",
        "Read what Opacus, TensorFlow Privacy, JAX Privacy or dp-accounting keep of a run, and get a bound that holds.",
        "tutorial",
        "from and to other libraries",
    ),
    Task(
        "sigma-for-epsilon",
        "Sigma for epsilon = 3",
        "Find the smallest noise multiplier, or the most steps, for a target epsilon.",
        "tutorial",
        "solve for the noise",
    ),
    Task(
        "stop-a-pull-request",
        "Stop a pull request that overspends",
        "Run the gate in GitHub Actions, GitLab CI or before a commit; its exit code is the verdict.",
        "gate",
        "in ci",
    ),
    Task(
        "publish-a-table",
        "Publish a table with error intervals",
        "Ask counts, sums, means and quantiles of a private table; each answer says how far it may be off.",
        "release",
        "a first release",
    ),
    Task(
        "what-epsilon-means",
        "What epsilon = 3 means to an attacker",
        "Turn epsilon and delta into hit rates, odds and a trade-off curve.",
        "tutorial",
        "what the number means",
    ),
    Task(
        "user-level-privacy",
        "Protect users who own several records",
        "Declare the unit of privacy and how much one unit contributes.",
        "tutorial",
        "one person, several records",
    ),
    Task(
        "budget-of-a-dataset",
        "Keep the privacy budget of a dataset",
        "Open a ledger, charge each run to it, and deny what does not fit.",
        "ledger",
        "open it, and spend",
    ),
    Task(
        "train-a-model",
        "Train a model with differential privacy",
        "Plan a run, see what one of its steps computes, train, and charge a ledger.",
        "training",
        "a first run",
        "train",
    ),
    Task(
        "epsilon-of-a-run-under-way",
        "Epsilon of a run that is under way",
        "Price the steps that are done, from numbers, an Opacus checkpoint or a loop; what holds if it stops early.",
        "training",
        "a run that is under way",
    ),
    Task(
        "compose-releases",
        "Compose several releases",
        "Price trainings, counts and other releases of the same data together.",
        "tutorial",
        "many mechanisms",
    ),
    Task(
        "share-a-budget",
        "Share a budget among a team",
        "Let a person or a team spend no more than a share of a dataset's budget.",
        "ledger",
        "quotas",
    ),
    Task(
        "private-predictions",
        "Private predictions from an ensemble of teachers",
        "Label public records by the noisy votes of teachers (PATE), and train a student on the labels.",
        "private-prediction",
        "votes of teachers",
        "train",
    ),
    Task(
        "own-training-loop",
        "Make a PyTorch training loop private",
        "DP-SGD in a loop of your own, with the sampling, the noise and the statement that the file declares.",
        "training",
        "your own loop",
        "train",
    ),
    Task(
        "audit-a-run",
        "Audit a training run",
        "Attack a program with canaries, and compare what leaks with what it claims.",
        "training",
        "does it leak more than it claims?",
    ),
    Task(
        "disclosure-statement",
        "Write a privacy statement",
        "The sentences that a reader needs beside an epsilon, and what the file does not state.",
        "tutorial",
        "a statement for a reader",
    ),
    Task(
        "prove-an-epsilon",
        "Prove an epsilon",
        "Write a certificate that a small program of rational arithmetic checks by itself.",
        "certify",
        "",
        "proof",
    ),
    Task(
        "accuracy-against-epsilon",
        "Choose epsilon by accuracy",
        "Train at several epsilons, and see what each costs in accuracy.",
        "training",
        "accuracy against epsilon",
        "train",
    ),
)
EXPLANATIONS = tuple(name for name in topics.WRITTEN if name != "tutorial")
SPELLED = {"ci": "CI", "python": "Python"}
FENCED = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```$", re.M | re.S)


def pages() -> dict[str, str]:
    """Return the Markdown of every page, by its place in the site."""
    made = {"index.md": linked(_text("README.md"), "README.md"), "tutorial.md": _topic("tutorial")}
    made |= {f"how-to/{task.name}.md": _task(task) for task in TASKS}
    made |= {f"explanation/{name}.md": _topic(name) for name in EXPLANATIONS}
    made |= {f"reference/{name}.md": text for name, text in _manual().items()}
    tasks = (f"- [{task.title}]({task.name}.md): {task.summary}\n" for task in TASKS)
    made["how-to/index.md"] = "".join(("# How to\n\n[Install dpcli](../index.md) first.\n\n", *tasks))
    made["how-to/index.md"] += (
        "- [Recipes](recipes.md): Use dpcli in VS Code, DVC, Hydra, as a GitLab component, and a ledger over SSH.\n"
    )
    made["how-to/recipes.md"] = _text(".github/docs/recipes.md")
    made["reference/python.md"] = _python()
    made["reference/json.md"] = _documents()
    made["reference/examples.md"] = _examples()
    made["project/changes.md"] = linked(_text(".github/CHANGELOG.md"), ".github/CHANGELOG.md")
    made["project/contributing.md"] = linked(_text(".github/CONTRIBUTING.md"), ".github/CONTRIBUTING.md")
    made["reference/values.md"] = linked(_text("tests/vectors/reference/README.md"), "tests/vectors/reference/README.md")
    made["project/comparison.md"] = _text(".github/docs/comparison.md")
    made["project/release-comparison.md"] = _text(".github/docs/release-comparison.md")
    made["project/security.md"] = linked(_text(".github/SECURITY.md"), ".github/SECURITY.md")
    return {place: _referring(_with_examples(text, place), place) for place, text in made.items()}


SOURCES = {
    "README.md": "index.md",
    ".github/CHANGELOG.md": "project/changes.md",
    ".github/CONTRIBUTING.md": "project/contributing.md",
    ".github/SECURITY.md": "project/security.md",
    "tests/vectors/reference/README.md": "reference/values.md",
    "man/dpcli-glossary.7": "reference/glossary.md",
    "man/dpcli.1": "reference/dpcli.md",
    "man/dpcli-pipeline.5": "reference/pipeline.md",
    "man/dpcli-policy.5": "reference/policy.md",
    "dpcli/explain/tutorial.md": "tutorial.md",
    **{f"dpcli/explain/{name}.md": f"explanation/{name}.md" for name in EXPLANATIONS},
}


def navigation() -> list[Any]:
    """Return the table of contents."""
    commands = sorted(f"reference/{name}.md" for name in _manual() if name.startswith("commands/"))
    files = [f"reference/{name}.md" for name in ("pipeline", "policy", "schedule")]
    return [
        {"Start": "index.md"},
        {"Tutorial": "tutorial.md"},
        {"How to": ["how-to/index.md", *({task.title: f"how-to/{task.name}.md"} for task in TASKS), "how-to/recipes.md"]},
        {
            "Reference": [
                {"Overview": "reference/dpcli.md"},
                {"Commands": commands},
                {"Files": files},
                {"Python": "reference/python.md"},
                {"JSON": "reference/json.md"},
                {"Examples": "reference/examples.md"},
                {"Reference values": "reference/values.md"},
                {"Glossary": "reference/glossary.md"},
            ]
        },
        {"Explanation": [f"explanation/{name}.md" for name in EXPLANATIONS]},
        {
            "Project": [
                "project/comparison.md",
                "project/release-comparison.md",
                "project/changes.md",
                "project/contributing.md",
                "project/security.md",
                {"Repository": REPOSITORY},
            ]
        },
    ]


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def linked(text: str, source: str) -> str:
    """Return the text of a file of the project with its relative links as those of its page: to pages, else to the repository."""
    page = SOURCES[source]

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[1].partition("#")
        if re.match(r"\w+:", found[1]) or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = _relative(SOURCES[path], page) if path in SOURCES else f"{REPOSITORY}/blob/HEAD/{path}"
        return f"]({there}{'#' + anchor if anchor else ''})"

    return _readable(re.sub(r"\]\(([^)\s]+)\)", link, text))


def _relative(place: str, page: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(page) or ".")


def _outside_code(text: str, change: Any) -> str:
    """Return the text with `change` made to what stands outside of fenced blocks."""
    parts, start = [], 0
    for block in FENCED.finditer(text):
        parts += [change(text[start : block.start()]), block[0]]
        start = block.end()
    return "".join((*parts, change(text[start:])))


def _readable(text: str) -> str:
    """Return Markdown as this site's reader takes it: names of files as titles of listings, and a blank line before each list."""
    text = re.sub(r"^```(\w+) (\S+)$", r'```\1 title="\2"', text, flags=re.M)
    return _outside_code(
        text, lambda prose: re.sub(r"^(?![-*] |\d+\. |  |#|\n)(.+)\n(?=([-*]|\d+\.) )", r"\1\n\n", prose, flags=re.M)
    )


def _referring(text: str, page: str) -> str:
    """Return a page in which names of pages of the manual, such as dpcli-gate(7), are links, and flags have a class of their own."""

    def reference(found: re.Match[str]) -> str:
        place = _place(found[1], found[2])
        return f"[{found[0]}]({_relative(place, page)})" if place and place != page else found[0]

    def marked(prose: str) -> str:
        return re.sub(r"`--[\w-]+`", r"\g<0>{ .flag }", re.sub(r"(?<![\[\w`-])(dpcli[\w-]*)\(([157])\)(?![\]`])", reference, prose))

    return _outside_code(text, marked)


def _with_examples(text: str, page: str) -> str:
    """Return a page that has commands on files of examples/ with a link to these files below its first paragraph."""
    is_written = page.startswith(("how-to/", "explanation/", "tutorial"))  # the start of the site stands in a clone
    if not is_written or not re.search(r"^(?:\$ )?dpcli .*examples/", text, re.M):
        return text
    title, first, rest = text.split("\n\n", 2)
    where = f"Unpack [examples.zip]({_relative('examples.zip', page)}) where you run the commands: it has the files of `examples/`."
    return "\n\n".join((title, first, where, rest))


def _place(name: str, number: str) -> str | None:
    """Return the page of the site that has a page of the manual; None if there is none."""
    word = name.removeprefix("dpcli").removeprefix("-")
    if number == "7":
        return {"tutorial": "tutorial.md", "glossary": "reference/glossary.md"}.get(word, f"explanation/{word}.md")
    if number == "5":
        return f"reference/{word}.md"
    if not word:
        return "reference/dpcli.md"
    places = [f"reference/commands/{one}.md" for one in man.COMMANDS if word == one or word.startswith(f"{one}-")]
    return max(places, key=len, default=None)


def _heading(text: str) -> str:
    """Return a heading of the manual with a capital at its beginning, unless it shows a key of a file."""
    if "=" in text:
        return text
    words = [SPELLED.get(word, word) for word in text.split()]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def _topic(name: str) -> str:
    """Return a page of section 7, with the lists that it asks for."""
    text = _readable(topics.source(name))
    return _with_headings(topics.LIST.sub(lambda found: _terms(GENERATED[found[1]]()), text))


def _with_headings(text: str) -> str:
    """Return the text of a page of the manual with a capital at the beginning of each heading."""
    pattern = re.compile(r"^(#+) (.*)$", re.M)
    return _outside_code(text, lambda prose: pattern.sub(lambda line: f"{line[1]} {_heading(line[2])}", prose))


def section(page: str, title: str) -> str:
    """Return a section of a page of the manual, without its heading; of "", what stands before all. Raises ValueError if there is none."""
    if not title:
        return topics.source(page).partition("\n")[2].partition("\n## ")[0]
    (body,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", topics.source(page), re.M | re.S)
    return str(body)


def _task(task: Task) -> str:
    whole = "tutorial.md" if task.page == "tutorial" else f"explanation/{task.page}.md"
    place = _relative(whole, f"how-to/{task.name}.md")
    anchor = re.sub(r"[^\w]+", "-", task.section.lower()).strip("-")
    source = f"[{_heading(topics.topic(task.page).title)}]({place}{f'#{anchor}' if anchor else ''})"
    part = "a section" if task.section else "the beginning"
    body = _with_headings(_readable(section(task.page, task.section)))
    needs = f"\nIt needs `pip install 'dpcli[{task.extra}]'`.\n" if task.extra else ""
    return f"# {task.title}\n\n{task.summary}\n{needs}{body}\nThis is {part} of {source}.\n"


def _plain(text: str) -> str:
    """Return a paragraph of text as Markdown that shows it as it is; what stands between backticks is code."""
    body = literal_text(text)
    if body is not None:
        return f"```text\n{body.rstrip()}\n```"
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[\]\\|#])", r"\\\1", part) for part in parts)


def _terms(terms: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{term}`: {_plain(definition)}\n" for term, definition in terms)


REPEATED = {"exit status", "see also"}  # of every command; the page of dpcli itself has them


@functools.cache
def _manual() -> dict[str, str]:
    """Return the pages of sections 1 and 5, and the glossary; those of a command and of its subcommands are one page."""

    def markdown(name: str, number: int, short: str, sections: Sequence[ManualSection], version: str) -> str:
        is_part = _place(name, "1") != f"reference/commands/{name.removeprefix('dpcli-')}.md" and number == 1 and name != "dpcli"
        level = "##" if is_part else "#"
        word = name.removeprefix("dpcli-").capitalize()
        title = {1: _command_words(name), 5: f"{word} file", 7: word}[number]
        lines = [f"{level} {title}", _plain(_heading(short)) + "."]
        for one in sections:
            if number == 1 and name != "dpcli" and one.title in REPEATED:
                continue
            if one.title and one.title not in ("description", "synopsis"):
                lines.append(f"{level}# {_plain(_heading(one.title))}")
            lines += [f"```text\n{text}\n```" if one.title == "synopsis" else _plain(text) for text in one.paragraphs]
            lines.append(_terms(one.terms))
        return "\n\n".join(line for line in lines if line) + "\n"

    with mock.patch.object(man, "page", markdown):
        written = man.pages()
    made: dict[str, str] = {}
    for name, text in written.items():
        page, _, number = name.rpartition(".")
        place = _place(page, number)
        if place and (number != "7" or page == "dpcli-glossary"):
            place = place.removeprefix("reference/").removesuffix(".md")
            made[place] = f"{made[place]}\n{text}" if place in made else text
    return made


def _command_words(name: str) -> str:
    """Return a command as it is typed, of the name of its page."""
    word = name.removeprefix("dpcli-")
    top = max((one for one in man.COMMANDS if word == one or word.startswith(f"{one}-")), key=len, default="")
    return f"dpcli {top} {word.removeprefix(top).removeprefix('-')}".rstrip() if top else name


def _python() -> str:
    homes = dict(re.findall(r'^    "(\w+)": "([\w.:]+)"', _text("dpcli/__init__.py"), re.M))
    homes["release"] = "dpcli.release.table_release:release"
    names = sorted((name for name in dpcli.__all__ if name in homes), key=lambda name: (name[0].isupper(), name))
    about = "What `import dpcli` offers, and nothing else, is promised. Each name is imported when it is first used.\n"
    blocks = (
        f"::: {homes[name].replace(':', '.')}\n    options: {{ heading: dpcli.{name}, toc_label: {name}, heading_level: 2 }}\n"
        for name in names
    )
    return "\n".join(("# Python\n", about, *blocks))


def _documents() -> str:
    import json

    definitions = json.loads(_text(".github/docs/documents.json"))["$defs"]
    lines = [
        "# JSON",
        "What a command prints with `-f json` names its `schema`. Within a version, fields are added and never removed.",
        "[documents.json](../documents.json) is the JSON Schema (draft 2020-12) of them all; a definition is named like `account-v1`.",
    ]
    for name, node in definitions.items():
        fields = [f"`{field}`" if field in node["required"] else f"`{field}` (not always)" for field in node["properties"]]
        lines.append(f"## {name}\n\n{', '.join(fields)}")
    return "\n\n".join(lines) + "\n"


def _examples() -> str:
    lines = ["# Examples", f"The files of [examples]({REPOSITORY}/tree/HEAD/examples), each with what it shows."]
    for path in sorted((ROOT / "examples").glob("*.toml")):
        text = path.read_text("utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        lines += [f"## {path.name}", _plain(title), f"```toml\n{text.partition(chr(10))[2].strip()}\n```"]
    return "\n\n".join(lines) + "\n"


def _archive() -> bytes:
    """Return the files of examples/ as a zip file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((ROOT / "examples").rglob("*")):
            if path.suffix in (".toml", ".py", ".csv", ".ipynb", ".md") and "runs" not in path.parts:
                archive.writestr(zipfile.ZipInfo(path.relative_to(ROOT).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def on_config(config: Any) -> Any:
    """Give mkdocs the table of contents."""
    config.nav = navigation()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Give mkdocs the pages, the JSON Schema of the documents, and the examples."""
    from mkdocs.structure.files import File

    for place, text in pages().items():
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, "documents.json", content=_text(".github/docs/documents.json")))
    files.append(File.generated(config, "examples.zip", content=_archive()))
    return files
