"""What a word means: `dpcli explain NAME` for rules, accountants, mechanism types, sampling schemes, terms and topics."""

from __future__ import annotations

import difflib

from dpcli.errors import InputError
from dpcli.explain.glossary import SYMBOLS, TERMS
from dpcli.explain.topics import TOPICS
from dpcli.explain.wrapped import filled
from dpcli.registry import ACCOUNTANTS, MEASURES, MECHANISMS, SAMPLING, STYLES, TASKS, load

COMPUTED = dict.fromkeys(("gaussian", "sigma", "classical-gaussian"), "dpcli.explain.gaussian_sigma:gaussian_sigma")  # numbers
KNOWN = "known: rules (DP101), accountants (rdp), mechanism types (gaussian), keys (steps), and terms, as dpcli explain glossary lists them"
SELECTING = (*MECHANISMS, *MEASURES, *SAMPLING, *TASKS, *STYLES)  # words that select the keys of a table


def explain(name: str) -> str:
    """The text for one word, from every table that has it. Raises InputError, with the nearest words, where there is none."""
    key = name.strip()
    key = SYMBOLS.get(key) or SYMBOLS.get(key.lower()) or key
    if key.upper().startswith("DP") and key[2:].isdigit():
        from dpcli.lint.explain import explain as explain_rule

        return explain_rule(key.upper())
    from dpcli.explain.file_keys import of_key, of_table, of_word, table_paths

    low, paths = key.strip("[]").lower(), table_paths()
    spellings = dict.fromkeys((key, low, low.replace(" ", "_"), low.replace("-", "_"), low.replace("_", "-").replace(" ", "-")))
    texts = (
        (ACCOUNTANTS, _accountant),
        (SELECTING, of_word),
        (TERMS, _term),
        (COMPUTED, _computed),
        (TOPICS, _topic),
        (paths, of_table),
    )
    found = [next((text(word) for word in spellings if word in known), None) for known, text in texts]
    if any(found):
        return "\n\n".join(text for text in found if text)
    if text := next((text for word in spellings if (text := of_key(word))), ""):
        return text
    close = difflib.get_close_matches(low, [*words(), *paths], 3)
    hint = f"did you mean {' or '.join(close)}" if close else KNOWN
    raise InputError(f"nothing to explain under '{key}'; {hint}")


def words() -> list[str]:
    """Everything that can be explained, the rules aside."""
    return list(dict.fromkeys(word for table in (ACCOUNTANTS, SELECTING, TERMS, TOPICS) for word in table))


def _term(name: str) -> str:
    return f"{name}\n\n{filled(TERMS[name])}"


def _computed(name: str) -> str:
    text: str = load(COMPUTED[name])()
    return text


def _topic(name: str) -> str:
    from dpcli.explain.plain import plain
    from dpcli.explain.topics import topic

    return plain(name, topic(name))


def _accountant(name: str) -> str:
    found = load(ACCOUNTANTS[name])
    module = __import__(ACCOUNTANTS[name].partition(":")[0], fromlist=["__doc__"])
    facts = [f"source: {found.source}", f"sound upper bound: {'yes' if found.sound else 'NO: never passes a gate'}"]
    facts.append(f"valid where later parameters depend on earlier outputs: {'yes' if found.adaptive else 'no'}")
    return "\n".join([f"{name}: {found.title}", "", filled(module.__doc__ or ""), "", *facts])
