"""Tests of formats that are streamed: the pieces make up the text of the whole document, which is not kept in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.lazy import load
from dpcli.base.registry import FORMATS
from dpcli.document.document import Check, Document, Finding, Passage, Table, Walked
from dpcli.document.formats import table as table_format
from dpcli.document.formats.facts import is_for_screen, stream_function

STREAMED = [name for name in FORMATS if stream_function(name) is not None]
CELLS = st.lists(st.sampled_from(["a", "bb", "日本語", "é̂x", "x" * 30, "1e-05", "y" * 90, "", "\x1b[0m", "a|b"]), max_size=4).map(
    " ".join
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Of words short and long, wide and invisible."""
    count = draw(st.integers(1, 5))
    rows = tuple(draw(st.lists(st.tuples(*[CELLS] * count), max_size=12)))
    numeric, flagged = draw(st.frozensets(st.integers(0, count - 1))), draw(st.frozensets(st.integers(0, 12)))
    columns = tuple(draw(st.lists(st.text("c ", min_size=1, max_size=20), min_size=count, max_size=count)))
    return Table(
        draw(st.sampled_from(["", "title"])), columns, rows, numeric, ("foot",), frozenset(i for i in flagged if i < len(rows))
    )


VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | CELLS, lambda part: st.lists(part) | st.dictionaries(CELLS, part), max_leaves=9
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    return Document(
        draw(CELLS),
        draw(st.dictionaries(CELLS, VALUES, min_size=1)),
        tables=tuple(draw(st.lists(tables(), max_size=2))),
        records=draw(st.lists(st.dictionaries(CELLS, VALUES, min_size=1), max_size=3)),
        findings=draw(st.sampled_from([(), (Finding("a.toml", "DP101", "error", "said", 3),)])),
        checks=(Check("one", True),),
        passages=draw(st.sampled_from([(), (Passage("of", ("words",), ("points",)),)])),
        marker=draw(st.sampled_from(["", "dpcli"])),
        title=draw(st.sampled_from(["", "title"])),
        notes=draw(st.sampled_from([(), ("a note",)])),
        log=draw(st.sampled_from([(), ("a line", "another")])),
    )


def test_every_format_that_a_log_is_read_in_streams() -> None:
    assert {"text", "table", "json", "jsonl", "csv", "markdown"} <= set(STREAMED)


@pytest.mark.sampled(0, 4)
@pytest.mark.parametrize("name", STREAMED)
@given(document=documents())
def test_the_pieces_make_up_the_whole(name: str, document: Document) -> None:
    stream = stream_function(name)
    assert stream is not None
    assert "".join(stream(document)) == load(FORMATS[name])(document)


@pytest.mark.long
@given(document=documents(), width=st.sampled_from([40, 84, 110, 200]), color=st.booleans(), part=st.integers(1, 5))
def test_a_table_set_in_parts_is_the_table(document: Document, width: int, color: bool, part: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_format, "PART", 10**9)
        whole = table_format.render(document, width, color)
        patched.setattr(table_format, "PART", part)
        assert table_format.render(document, width, color) == whole


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize("name", STREAMED)
def test_a_long_document_is_not_held(name: str) -> None:
    """Five times as many rows take no more memory than the first."""
    stream = stream_function(name)
    assert stream is not None

    def peak(count: int) -> int:
        def records() -> Iterator[dict[str, str]]:
            return ({"entry": f"{i % 10}", "body": "words of it " * 9} for i in range(count))

        rows = Walked(count, lambda: (tuple(record.values()) for record in records()))
        lines = Walked(count, lambda: (record["body"] for record in records()))
        whole = Walked(count, records)
        found = Document(
            "log", {"entries": whole}, tables=(Table("entries", ("a", "b"), rows),), records=whole, log=lines, long=True
        )
        for _ in stream(Document("warm", {"a": 1})):
            pass
        tracemalloc.start()
        assert sum(len(piece) for piece in stream(found, **({"width": 400} if is_for_screen(name) else {}))) > 100 * count
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top

    peak(300)
    assert peak(1500) < 1.5 * peak(300) + 9_000


def test_a_walk_is_a_sequence() -> None:
    found = Walked(5, lambda: iter("abcde"))
    assert (list(found), len(found), found[1], found[-1], list(found[-2:])) == (list("abcde"), 5, "b", "e", ["d", "e"])
    with pytest.raises(IndexError):
        found[5]
