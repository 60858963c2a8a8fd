"""The grammar of ledger entries: which fields each kind of entry has, and which values each field takes.

An *entry* is a line of a ledger, and its *kind* says what it does: "spend" charges a run, "amend" changes the cap (dpcli.ledger.state).
`wrong_entry` checks an entry before it is written. A PostgreSQL database makes the same checks in SQL, from the JSON that `rules` returns.
The reader of entries (dpcli.ledger.state) is more lenient, so that it can read every entry that the rules accept.

A table maps the names of fields to the types of their values. WORDS describes each type, and `is_a` checks a value. Each type has a
function in this module (TYPES) and one in SQL (dpcli.is_a). Both functions are tested on the same values.

The names of fields and types, the texts in WORDS and the keys of `rules` are parts of the SQL definitions, whose hash every ledger in a
database records. To change one of them is to publish a new version of the definitions, which every database has to install. So types
keep names that are no longer the best: the comments in WORDS tell similar ones apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from dpcli.ledger.amounts import DIGITS
from dpcli.ledger.blocks.block_kinds import known_kinds
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import STAMP
from dpcli.ledger.filters.declared_set import MOST_RUNS, declared_caps
from dpcli.ledger.governance.proposals import MOST_DAYS_OPEN
from dpcli.ledger.plugin import MOST_IN_WINDOW

if TYPE_CHECKING:
    from dpcli.ledger.filters.filter import Filter

# Limits of size keep a hostile entry small. They are far above what dpcli writes.
LONGEST_TEXT, LONGEST_NAME = 20_000, 200  # largest numbers of characters of a text or reason, and of a name or key
LONGEST_ENTRY = 65_536  # largest number of bytes of an entry in its canonical form, which is ASCII
LONGEST_COPIED = 4_000_000  # the same for an entry that is copied from another place, which an earlier version may have written
LONGEST_AMOUNT = 40  # largest number of characters of an amount; dpcli writes at most 27
LONGEST_DELTA = 30  # largest number of characters of a delta; the shortest spelling of a double has at most 23
SMALLEST_AMOUNT, LARGEST_AMOUNT = Decimal("1E-330"), Decimal("1E+310")  # a little more than the range of doubles; 0 is allowed too
USUAL_RATE = 10_000  # entries without a cost that a login may append in a day, unless an entry "rate" says otherwise
MOST_COUNT = 10**18  # fits in a 64-bit integer of a database
HOLDERS = ("person", "team")  # a quota limits one of these
MODES = ("adaptive", "declared")  # runs are chosen one after the other, or all are declared at the opening
# Regular expressions that Python and PostgreSQL read alike. "portion" and "amount" are decimals, as texts.
PATTERNS = {
    "hash": "^[0-9a-f]{64}$",
    "stamp": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$",
    "portion": "^(0|1|0[.][0-9]{1,6})$",
    "amount": "^[0-9]{1,40}([.][0-9]{1,40})?(E[+-]?[0-9]{1,3})?$",
}
# Ranges of code points that no key, name or reason may contain: control characters, invisible characters, surrogates and private use.
INVISIBLE = (
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xD800, 0xF8FF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF), (0x110BD, 0x110BD),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0x10FFFF),
)  # fmt: skip
SPACES = ((0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000))

# The tables. A field whose type ends in "?" is optional. WORDS describes the types. COMMON has the fields of every entry, and ENTRIES the
# further fields of each kind.
COMMON = {
    "ledger": "count",  # version of the format of entries
    "dataset": "name",
    "seq": "count",  # number of the entry in the chain of its dataset
    "previous": "hash",  # hash of the entry before
    "kind": "name",
    "who": "name",  # the person who signs the entry
    "when": "stamp",
    "dpcli": "text",  # the version of dpcli that wrote the entry
}
CHARGE = {
    "key": "name",  # name of the run
    "pipeline": "pipeline",
    "delta": "delta",  # the delta at which the run is described
    "cost": "amounts",
    "detail": "text?",  # how the cost was computed, in words
    "why": "text?",
    "window": "window?",  # the blocks that the run reads, if the dataset is cut into blocks
    "made": "stamp?",  # when and by whom an imported run was made, before the ledger was opened
    "maker": "name?",
    "corrects": "name?",  # the key of the run whose price this charge completes
}
# The fields that an approval adds in a two-person ledger: the number of the proposal, and the reason of the approval.
APPROVED = {"proposal": "count?", "approval": "said?"}
# A quota limits a person or a team to a share of the cap. "alert_at" is the share of this limit from which on a warning is shown.
QUOTA = {"of": "holder", "name": "name", "members": "people", "share": "portion", "alert_at": "portion", "why": "said"}
ENTRIES = {
    "open": {"terms": "terms", "caps": "amounts"},
    "moved": {"to": "said", "copy": "hash?", "why": "text?", **APPROVED},
    "copied": {"from": "said", "schema": "hash", "version": "count", "why": "text?"},
    "spend": CHARGE,
    "reserve": {**CHARGE, "expires": "stamp?"},  # after this time the reservation cannot be voided
    "start": {"key": "name", "why": "text?"},
    "commit": {"key": "name", "why": "text?"},
    "count": {"key": "name", "of": "name", "count": "count"},  # how many answers "of" this name a run has been granted
    "void": {"key": "name", "why": "said", **APPROVED},
    # "unseen" states that nobody who decides on the cap had seen an output.
    "amend": {"epsilon": "positive", "caps": "amounts", "why": "said", "approver": "said", "unseen": "yes?", **APPROVED},
    "retire": {"window": "window", "why": "said"},
    "upgrade": {"schema": "hash", "version": "count"},  # hash and version number of the new definitions
    "propose": {"asks": "asks", "expires": "stamp"},
    "refuse": {"proposal": "count", "why": "said"},
    "quota": {**QUOTA, **APPROVED},
    "rate": {"per_day": "runs", "why": "said", **APPROVED},
    "acknowledge": {"finding": "said", "why": "said", **APPROVED},
}
# The entries that can be proposed, without the fields that the approval adds.
ASKS = {
    "amend": {"kind": "name", "epsilon": "positive", "caps": "amounts", "why": "said"},
    "void": {"kind": "name", "key": "name", "why": "said"},
    "quota": {"kind": "name", **QUOTA},
    "moved": {"kind": "name", "to": "said", "why": "said"},
    "acknowledge": {"kind": "name", "finding": "said", "why": "said"},
    "rate": {"kind": "name", "per_day": "runs", "why": "said"},
}
# The terms of an opening entry. `LedgerTerms` (dpcli.ledger.terms) describes them.
TERMS = {
    "unit": "name",
    "adjacency": "adjacency",
    "epsilon": "positive",
    "delta": "share",
    "mode": "mode",
    "filter": "filter?",
    "parameters": "parameters?",
    "dataset_size": "count?",
    "declared": "declared?",
    "certified": "certified?",
    "fingerprint": "name?",
    "schema": "hash",
    "team": "name?",
    "version": "count?",
    "blocks": "blocks?",
    "two_person": "yes?",
    "ceiling": "positive?",
}
# Parts of the terms: how the dataset is cut into blocks (`BlockFamily`), the declared runs, and their certified epsilon.
BLOCKS = {"by": "by", "column": "name", "max_blocks": "runs", "names": "window?", "count": "runs?"}
DECLARED = {"pipeline": "pipeline", "runs": "runs"}
CERTIFIED = {"epsilon": "bound", "accountant": "name"}
# The descriptions of the types in messages, after "expected". The order of the types is a part of the SQL definitions.
WORDS = {
    # Texts: "text" may be empty, "said" needs a visible character, and "name" is a short "said".
    "text": f"at most {LONGEST_TEXT} visible characters",
    "said": "a reason in visible characters",
    "name": f"at most {LONGEST_NAME} visible characters",
    "hash": "64 hexadecimal digits",
    "stamp": "a time as 2030-12-31T23:59:59Z",
    # Numbers written as texts, so that no reader rounds them. A third one, "portion", is below.
    "delta": "the shortest spelling of a number in [0, 1)",  # the delta of a charge
    "amounts": f"decimal numbers >= 0 of at most {DIGITS} digits, by name",  # costs and caps
    # JSON integers: "count" reaches MOST_COUNT.
    "count": "a whole number > 0",
    "runs": f"a whole number from 1 to {MOST_RUNS}",
    # JSON numbers, integers or doubles.
    "positive": "a number > 0",  # an epsilon that caps a ledger
    "bound": "a number >= 0",  # the epsilon of declared runs
    "share": "a number in [0, 1)",  # the delta of a ledger, despite its name
    "adjacency": "a known adjacency",
    "mode": "a known mode",
    "filter": "a known filter",
    "parameters": "numbers by name",
    "pipeline": "the privacy and the mechanisms of a pipeline",
    "declared": "pipelines and how often each is run",
    "certified": "an epsilon and an accountant",
    "terms": "the terms of a ledger",
    "by": "a known kind of blocks",
    "blocks": "what the blocks of a dataset are",
    "window": f"1 to {MOST_IN_WINDOW} names of blocks, each once and in order",
    "yes": "true, or nothing at all",
    "holder": "person or team",
    "people": f"1 to {MOST_IN_WINDOW} names, each once and in order",
    "portion": "a decimal from 0 to 1 with at most 6 digits after the point",  # a quota, and the share of it at which to warn
    "asks": "what may be proposed",
}


def rules() -> dict[str, Any]:
    """Return all rules as JSON values. The SQL definitions look the rules up by these keys, so that no key can be renamed."""
    return {
        "patterns": PATTERNS,
        "words": WORDS,
        "longest": LONGEST_TEXT,  # characters of a text
        "name": LONGEST_NAME,  # characters of a name
        "entry": LONGEST_ENTRY,  # bytes of an entry
        "copied": LONGEST_COPIED,  # bytes of an entry that is copied; not the entry "copied"
        "unseen": [list(pair) for pair in INVISIBLE],  # not the field "unseen" of an amendment
        "spaces": [list(pair) for pair in SPACES],
        "common": COMMON,
        "entries": ENTRIES,
        "asks": ASKS,
        "rate": USUAL_RATE,
        "open": MOST_DAYS_OPEN,  # days for which a proposal may be open; not the entry "open"
        "holders": list(HOLDERS),
        "terms": TERMS,
        "declared": DECLARED,
        "certified": CERTIFIED,
        "blocks": BLOCKS,
        "kinds": dict(known_kinds()),  # kinds of blocks, each with the term that it needs
        "window": MOST_IN_WINDOW,  # blocks of a window
        "adjacencies": _adjacencies(),
        "modes": list(MODES),
        "filters": {name: _filter_rules(rule) for name, rule in _filters().items()},
    }


def _filter_rules(rule: type[Filter]) -> dict[str, Any]:
    """Return the rules of a filter: its amounts, the ranges of its parameters, and whether a unit may lie in several blocks."""
    return {"currency": list(rule.currency), "ranges": rule.ranges, "groups": rule.group_power is not None}


def wrong_entry(content: Mapping[str, Any]) -> str | None:
    """Return the first fault in the content of an entry, as a text "expected ..."; None if the content keeps the grammar.

    The length of the whole entry (LONGEST_ENTRY) is checked by the caller. Whether a charge fits depends on the state of the ledger.
    """
    kind = content.get("kind")
    if type(kind) is not str or kind not in ENTRIES:
        return "expected a known kind of entry"
    wrong = _wrong_table({**COMMON, **ENTRIES[kind]}, content)
    if wrong is not None:
        return wrong
    if kind == "open":
        return _wrong_opening(content["terms"], content["caps"])
    quota = content if kind == "quota" else content.get("asks", {})  # a proposal may ask for a quota
    if quota.get("of") == "person" and quota["members"] != [quota["name"]]:
        return "expected one member of a person's quota"
    return None


def wrong_size(body: str) -> str | None:
    """Return a text "expected ..." if the canonical text of an entry is too long; None if it is not."""
    if len(body) <= LONGEST_ENTRY:
        return None
    return (
        f"expected an entry of at most {LONGEST_ENTRY:,} bytes (64 KB) in its canonical form, found {len(body):,}: shorten the reason, or "
        "divide the run's mechanisms or blocks among several entries, each under its own key"
    )


def visible_text(text: str) -> str:
    """Return a text in the form that entries accept: invisible characters are replaced, and the text is cut to `LONGEST_TEXT`."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)[:LONGEST_TEXT]


def is_a(type_name: str, value: Any) -> bool:
    """Return whether a value is of a type such as "name". WORDS describes the types; another type raises KeyError."""
    return TYPES[type_name](value)


def _wrong_table(fields: Mapping[str, str], table: Mapping[str, Any]) -> str | None:
    """Return the first fault of a table, as a text "expected ..."; None if there is none.

    A fault is an unknown field, a missing field, or a value of another type.

    Args:
        fields: The type of each field, with "?" at its end if the field is optional.
        table: The values to check.
    """
    unknown = sorted(set(table) - set(fields))  # sorted, as in SQL: the first fault does not depend on the order of the fields
    if unknown:
        return f"expected no {unknown[0]}"
    for name, spelling in sorted(fields.items()):
        type_name, is_optional = spelling.rstrip("?"), spelling.endswith("?")
        is_right = is_a(type_name, table[name]) if name in table else is_optional
        if not is_right:
            return f"expected {name}: {WORDS[type_name]}"
    return None


def _is_table(fields: Mapping[str, str], value: Any) -> bool:
    return type(value) is dict and _wrong_table(fields, value) is None


def _wrong_opening(terms: Mapping[str, Any], caps: Mapping[str, str]) -> str | None:
    """Return the first contradiction between the parts of an opening entry, as a text "expected ..."; None if there is none."""
    if terms.get("ceiling", terms["epsilon"]) < terms["epsilon"]:
        return "expected a ceiling that is no lower than the cap"
    if terms["delta"] * float(terms.get("dataset_size", 1)) >= 1.0:
        return "expected a delta below 1/dataset_size"
    return _wrong_declared(terms, caps) if terms["mode"] == "declared" else _wrong_adaptive(terms, caps)


def _wrong_declared(terms: Mapping[str, Any], caps: Mapping[str, str]) -> str | None:
    """Return the first contradiction in the terms of declared mode. Their caps state how often each declared run may be made."""
    if "blocks" in terms or "ceiling" in terms:
        return "expected adaptive mode with blocks or a ceiling"
    has_runs = {"declared", "certified"} <= set(terms)
    if not has_runs or terms["certified"]["epsilon"] > terms["epsilon"]:
        return "expected declared runs within the cap"
    return None if caps == declared_caps(terms["declared"]) else "expected the caps of the declared runs"


def _wrong_adaptive(terms: Mapping[str, Any], caps: Mapping[str, str]) -> str | None:
    """Return the first contradiction in the terms of adaptive mode. Their caps are in the currency of the filter."""
    rule = _filters().get(terms.get("filter", ""))
    if "blocks" in terms and rule is not None:
        if "dataset_size" in terms:  # each window of blocks has its own size
            return "expected no dataset_size with blocks"
        reason = BlockFamily(**terms["blocks"]).missing_proof(rule, terms["adjacency"], terms["delta"])
        if reason is not None:
            return reason
    if rule is None or set(caps) != set(rule.currency):
        return "expected a filter with the caps of its currency"
    parameters = terms.get("parameters", {})
    if set(parameters) != set(rule.ranges):
        return "expected the parameters of the filter"
    in_range = all(low <= parameters[name] <= high for name, (low, high) in rule.ranges.items())
    return None if in_range else "expected the parameters of the filter"


def _adjacencies() -> list[str]:
    from dpcli.mechanisms.neighbours import Adjacency

    return [adjacency.value for adjacency in Adjacency]


def _filters() -> dict[str, Any]:
    """Return the class of each privacy filter, by name."""
    from dpcli.base.lazy import load
    from dpcli.ledger.plugin import FILTERS

    return {name: load(target) for name, target in FILTERS.items()}


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST_TEXT and not _INVISIBLE.search(value)


def _is_reason(value: Any) -> bool:
    return _is_text(value) and bool(_VISIBLE.search(value))


def _is_stamp(value: Any) -> bool:
    if not _matches("stamp", value):
        return False
    try:
        datetime.strptime(value, STAMP)
    except ValueError:  # for example the 30th of February
        return False
    return True


def _is_delta(value: Any) -> bool:
    # float() alone would accept spaces, signs and underscores.
    if type(value) is not str or len(value) > LONGEST_DELTA or not re.fullmatch("[0-9][0-9.e-]*", value):
        return False
    try:
        return repr(float(value)) == value and 0.0 <= float(value) < 1.0
    except ValueError:
        return False


def _is_amount(value: Any) -> bool:
    if not _matches("amount", value) or len(value) > LONGEST_AMOUNT:
        return False
    number = Decimal(value)
    digits = value.partition("E")[0].replace(".", "").lstrip("0")
    return len(digits) <= DIGITS and (number == 0 or SMALLEST_AMOUNT <= number <= LARGEST_AMOUNT)


def _is_number(value: Any) -> bool:
    if type(value) not in (int, float):  # isinstance would accept true, because a bool of Python is an int
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a double
        return False


def _is_count(value: Any, most: int = MOST_COUNT) -> bool:
    return type(value) is int and 1 <= value <= most


def _is_pipeline(value: Any) -> bool:
    """Check for a table with the [privacy] and the [[mechanism]] tables of a pipeline file. Their keys are not checked."""
    if type(value) is not dict or set(value) != {"privacy", "mechanism"} or type(value["privacy"]) is not dict:
        return False
    mechanisms = value["mechanism"]
    return type(mechanisms) is list and bool(mechanisms) and all(type(entry) is dict for entry in mechanisms)


def _is_list_of_names(value: Any) -> bool:
    """Check for a sorted list of 1 to MOST_IN_WINDOW different names: the blocks of a window, or the members of a quota."""
    if type(value) is not list or not 1 <= len(value) <= MOST_IN_WINDOW or not all(is_a("name", name) for name in value):
        return False
    return value == sorted(set(value))


def _is_declared(value: Any) -> bool:
    return type(value) is list and bool(value) and all(_is_table(DECLARED, item) for item in value)


def _is_asks(value: Any) -> bool:
    """Check for the content of an entry that can be proposed."""
    kind = value.get("kind") if type(value) is dict else None
    return type(kind) is str and kind in ASKS and _is_table(ASKS[kind], value)


def _is_dict_of(is_value: Callable[[Any], bool], value: Any) -> bool:
    return type(value) is dict and all(map(is_value, value.values()))


def _is_one_of(words: Collection[str], value: Any) -> bool:
    return type(value) is str and value in words


def _matches(pattern: str, value: Any) -> bool:
    """Check for a text of one of PATTERNS, as a whole. Their ^ and $ are for SQL; in Python $ would accept a line break at the end."""
    return type(value) is str and re.fullmatch(PATTERNS[pattern][1:-1], value) is not None


def _character_class(ranges: Sequence[tuple[int, int]]) -> str:
    """Return ranges of code points as they are written between [ and ] in a regular expression."""
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


_INVISIBLE = re.compile(f"[{_character_class(INVISIBLE)}]")
_VISIBLE = re.compile(f"[^{_character_class((*INVISIBLE, *SPACES))}]")
# The function that checks each type of WORDS.
TYPES: dict[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "said": _is_reason,
    "name": lambda value: _is_reason(value) and len(value) <= LONGEST_NAME,
    "hash": partial(_matches, "hash"),
    "stamp": _is_stamp,
    "delta": _is_delta,
    "amounts": lambda value: bool(value) and _is_dict_of(_is_amount, value),
    "count": _is_count,
    "runs": partial(_is_count, most=MOST_RUNS),
    "positive": lambda value: _is_number(value) and value > 0,
    "bound": lambda value: _is_number(value) and value >= 0,
    "share": lambda value: _is_number(value) and 0 <= value < 1,
    "adjacency": lambda value: _is_one_of(_adjacencies(), value),
    "mode": partial(_is_one_of, MODES),
    "filter": lambda value: _is_one_of(_filters(), value),
    "parameters": partial(_is_dict_of, _is_number),
    "pipeline": _is_pipeline,
    "declared": _is_declared,
    "certified": partial(_is_table, CERTIFIED),
    "by": lambda value: _is_one_of(known_kinds().keys(), value),
    "blocks": partial(_is_table, BLOCKS),
    "window": _is_list_of_names,
    "yes": lambda value: value is True,
    "holder": partial(_is_one_of, HOLDERS),
    "people": _is_list_of_names,
    "portion": partial(_matches, "portion"),
    "asks": _is_asks,
    "terms": partial(_is_table, TERMS),
}
