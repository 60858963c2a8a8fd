"""The text of a comment (comments/comment_text.py), read by a Markdown parser: what stands in files and branches does nothing."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpcli.comments.comment_text import LIMIT, comment_text
from dpcli.document.document import Document, Finding, Table, visible
from dpcli.exam.subjects import SEED
from tests.command import dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE

MARK = "<!-- dpcli:gate -->"
DETAILS = re.compile(r"</?details>(<summary>[a-z ,]*</summary>)?")
HOSTILE = [
    "@everyone", "#1 and GH-2", "owner/name#3", "!4 ~label %milestone &5 $6", ":tada:", "https://evil.example/", "www.evil.example",
    "[x](https://evil.example)", "![x](https://evil.example/x.png)", "<img src=x onerror=y>", "<!-- dpcli:gate -->", "--> x", "</details>",
    "`", "``", "`a` <b>", "\\`", "\\", "a\\|b", "|", "| a | b |", "\n/approve\n/merge", "\r\n# title", "\n---\n", "$`x`$", "$$x$$", "**b**",
    "~~x~~", "&lt;b&gt;", "&#64;all", "\u202eabc", "\u200b", "\ud800", "\x1b[31m", "\u2028- x", "[^1]: x", "[a]: https://evil.example",
    " ", "", "\t", "mailto:a@b.example", "```\n", "- [ ] x", "::include{file=x}", "deadbeefdeadbeef",
]  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join))


def document(texts: list[str]) -> Document:
    """A text in every place that a file can fill."""
    findings = tuple(Finding(f"{text}.toml", text, "warning", text, 3, 1, text, text) for text in texts)
    rows = tuple((text, text, text) for text in texts)
    tables = (Table("files", ("", "file", "before"), rows, frozenset({2})), Table("conditions", ("a", "b", "c"), rows))
    return Document("gate: FAIL (1 fail)", {}, tables=tables, notes=tuple(texts), findings=findings)


def parsed(text: str) -> list[Token]:
    """Every token, those within lines too."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [each for token in tokens for each in (token, *(token.children or ()))]


STRUCTURE = {"html_block", "html_inline", "inline", "code_inline", "text", "strong", "paragraph", "heading", "softbreak"} | {
    *("table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item")
}


@given(st.lists(texts, min_size=1, max_size=4))
def test_text_of_files_is_text(given_texts: list[str]) -> None:
    text = comment_text(document(given_texts), MARK)
    tokens = parsed(text)
    assert {token.type.removesuffix("_open").removesuffix("_close") for token in tokens} <= STRUCTURE
    html = [token.content for token in tokens if token.type in ("html_block", "html_inline")]
    assert html[0] == f"{MARK}\n"
    assert all(DETAILS.fullmatch(one.strip()) for one in html[1:]), html
    own = "".join(token.content for token in tokens if token.type == "text")
    assert re.fullmatch(r"[a-zA-Z0-9 ():,.+-]*", own), own
    shown = [token.content for token in tokens if token.type == "code_inline"]
    for each in given_texts:
        assert not each.strip() or sum(one.strip() == escaped(each).strip() for one in shown) >= 6, each
    assert text.count("\n| ") == text.count(" |\n")  # no line was torn


def escaped(text: str) -> str:
    return visible(text).replace("`", "\\x60").replace("|", "\\x7c")


def counted(text: str, sizes: dict[str, int]) -> dict[str, int]:
    """By section: rows that are shown, and those that are said to be left out; their sum is what there is."""
    found = {}
    for title in sizes:
        section = re.split(r"\n\n(?:### |<details>)", text.partition(f"{title}")[2])[0]
        rows = len(re.findall(r"^(?:\| (?!-)|- )", section, re.M)) - (1 if "| ---" in section else 0)
        more = re.search(r"^and ([\d,]+) more$", section, re.M)
        found[title] = max(rows, 0) + (int(more[1].replace(",", "")) if more else 0)
    return found


@pytest.mark.sampled(3)
@pytest.mark.sampled(8, 1)
@pytest.mark.parametrize(
    ("count", "size"),
    [
        *((count, size) for count in (1, 30, 400, 5_000) for size in (1, 50) if (count, size) != (5_000, 50)),
        (30, 5_000),
        *(pytest.param(*large, marks=pytest.mark.long) for large in ((5_000, 50), (1, 5_000), (400, 5_000), (5_000, 5_000))),
    ],
)
def test_a_comment_is_never_too_long_and_counts_what_it_leaves_out(count: int, size: int) -> None:
    draw = random.Random(f"{SEED} {count} {size}")
    given_texts = ["".join(draw.choices("ab@#`|\\😀\u202e é", k=draw.randint(1, size))) + "x" for _ in range(count)]
    text = comment_text(document(given_texts), MARK)
    assert len(text.encode()) <= LIMIT, SEED
    sizes = {"### files": count, "### findings": count, "<summary>conditions": count, "### notes": count}
    if any(title == "### notes" and title not in text for title in sizes):
        sizes = {title: number for title, number in sizes.items() if title != "### notes"}
    assert counted(text, sizes) == sizes, SEED
    assert text.count("<details>") == text.count("</details>") == 1


def test_errors_come_before_what_is_left_out() -> None:
    findings = [Finding("a.toml", "gate/x", "note", "n" * 900) for _ in range(500)] + [
        Finding("b.toml", "gate/budget", "error", "no")
    ]
    table = Table("files", ("", "file"), tuple(("pass", f"{number}.toml") for number in range(9_000)))
    text = comment_text(Document("gate: FAIL", {}, tables=(table,), findings=tuple(findings)), MARK)
    assert "- error `b.toml` `gate/budget`: `no`" in text


def test_what_a_reviewer_needs_is_there(repository: Path) -> None:
    """Verdict, file, before, now, cap, change; which unit and adjacency; what to do; and what it was compared with."""
    git(repository, "branch", "ba`se")
    (repository / "train.toml").write_text(GATE.replace("= 400.0\n", "= 300.0\n"))
    said = dpcli("comment", "github", "train.toml", "--base-ref", "ba`se", "--dry-run", folder=repository).out
    row = next(line for line in said.splitlines() if line.startswith("| `FAIL` | `train.toml` |"))
    _, _, before, now, change, cap, delta = (cell.strip() for cell in row.strip("|").split("|"))
    assert (before, cap, delta) == ("1.374", "3.0", "1e-08") or (before, cap, delta) == ("1.3740", "3.0", "1e-08")
    assert float(now) - float(before) == pytest.approx(float(change), abs=3e-4)
    assert "- error `train.toml:" in said and "would pass`" in said
    assert "- `epsilon per user, add-remove, rounded up`" in said
    assert "- `compared with ba\\x60se`" in said


def test_a_file_that_fails_comes_first(repository: Path) -> None:
    for number in range(3):
        (repository / f"a{number}.toml").write_text(GATE.replace("ads-ranking", f"a{number}"))
    (repository / "z.toml").write_text("x")
    files = [f"a{number}.toml" for number in range(3)] + ["z.toml"]
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    (repository / "z.toml").write_text(GATE.replace("= 5_000", "= 200_000"))
    git(repository, "rm", "-q", "--cached", "z.toml")
    git(repository, "commit", "-qm", "without")
    said = dpcli("comment", "github", *files, "--base-ref", "main", "--dry-run", folder=repository).out
    assert re.findall(r"^\| `(\w+)` \| `(\w+)\.toml`", said, re.M) == [("FAIL", "z"), *(("pass", f"a{n}") for n in range(3))]
