"""Detection of names that look alike, that mix scripts, or that have unusual characters.

A dataset under two names that look alike would have two budgets, and people could approve their own waivers under such a name. So datasets,
samples and other names are compared by their *skeleton*, which is equal for names that look alike. Source: Unicode Technical Standard 39,
Unicode Security Mechanisms, section 4 (skeletons of confusable strings). The table here covers the Cyrillic, Greek and Armenian letters
that have the shape of a Latin letter, and the digits that can be mistaken for letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

# Last code point in the tables of `letters`, by which PostgreSQL compares names: without a rule it would miss that two names look alike.
# Beyond it are CJK ideographs, for which there is no rule here, and characters that are not letters.
LAST_LETTER = 0x1FFFF
_BLANK = frozenset("\u115f\u1160\u2800\U0001d159")  # Unicode calls them letters or symbols, but they are invisible
_UNSEEN_CATEGORIES = ("Mn", "Me", "Cf", "Cc")  # accents, enclosing marks, and characters for formats and for control
# Each letter of the first text has the shape of the letter in the same place of the second text.
_CYRILLIC = (
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d",
    "abekmhopctyxsijdqw",
)
_FURTHER_CYRILLIC_AND_PHONETIC = ("\u04cf\u04bb\u0433\u043f\u0475\u04af\u0261\u0269\u0131\u0251", "lhrnvygiia")
_GREEK = (
    "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u03c7\u03c9\u03b6",
    "abyenikuvopotuxwz",
)
_ARMENIAN = ("\u0585\u057d\u0578\u0570\u0581\u0584\u0566", "ounhgfq")
_ASCII = ("01|i", "olll")
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2212_ "  # and blanks between words
_CONFUSABLES: Mapping[int, Any] = {
    **str.maketrans(*_CYRILLIC),
    **str.maketrans(*_FURTHER_CYRILLIC_AND_PHONETIC),
    **str.maketrans(*_GREEK),
    **str.maketrans(*_ARMENIAN),
    **str.maketrans(*_ASCII),
    **str.maketrans(dict.fromkeys(_HYPHENS, "-")),
}

_SCRIPTS = (
    "ARABIC ARMENIAN BENGALI BOPOMOFO CJK COMBINING CYRILLIC DEVANAGARI ETHIOPIC GEORGIAN GREEK GUJARATI GURMUKHI HANGUL HEBREW HIRAGANA "
    "IDEOGRAPHIC KANNADA KATAKANA KATAKANA-HIRAGANA KHMER LAO LATIN MALAYALAM MYANMAR ORIYA SINHALA TAMIL TELUGU THAANA THAI TIBETAN"
)
_RECOMMENDED = frozenset(_SCRIPTS.split())
# East Asian scripts, and the first word of the Unicode name of the micro sign, by which `_script` takes it for a script of its own.
_USUAL_WITH_LATIN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "MICRO"})
# The Unicode name of a small capital, or of a letter with a stroke or a hook, contains its base letter.
_VARIANT = re.compile("LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL |SCRIPT |INSULAR |LONG )?([A-Z])(?: WITH .*)?")


def skeleton(name: str) -> str:
    """Return the skeleton of a name. Names that look alike have equal skeletons.

    Compatibility forms, case, accents, outer spaces and invisible characters are removed. Each confusable letter is replaced by the Latin
    letter that it resembles.
    """
    lowered = unicodedata.normalize("NFKD", name).casefold()
    plain = "".join(c for c in lowered if c not in _BLANK and unicodedata.category(c) not in _UNSEEN_CATEGORIES)
    base = unicodedata.normalize("NFKD", "".join(map(_base_letter, plain)))
    words = " ".join(base.split())
    shaped = words.translate(_CONFUSABLES).translate(_CONFUSABLES)  # twice: a letter may resemble an i, which resembles an l
    return shaped.replace("rn", "m").replace("vv", "w")  # two letters that together look like another one


@cache
def letters() -> dict[str, list[tuple[int, int]]]:
    """Return the rules of `skeleton` as tables of code points, for a function in PostgreSQL that receives names in NFKD form.

    Returns:
        "letters" has pairs of a character and the character that replaces it. "gone" has ranges of characters that skeletons omit. A
        character that is replaced by two (\u00df) is in neither.
    """
    replacements = [(ord(" "), ord(skeleton("_")))]  # a space between words; outer spaces are removed
    removed: list[tuple[int, int]] = []
    for code in (*range(0x21, 0xD800), *range(0xE000, LAST_LETTER + 1)):  # without surrogates, which are not characters
        folded = skeleton(chr(code)) if unicodedata.is_normalized("NFKD", chr(code)) else chr(code)  # others do not occur in NFKD
        if not folded and removed and removed[-1][1] == code - 1:  # the character after the last range extends it
            removed[-1] = (removed[-1][0], code)
        elif not folded and not chr(code).isspace():
            removed.append((code, code))
        elif len(folded) == 1 and folded != chr(code):
            replacements.append((code, ord(folded)))
    return {"letters": replacements, "gone": removed}


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Return the scripts of a name that mixes Latin letters with others; an empty tuple if it does not.

    Source: Unicode Technical Standard 39, section 5.1 (mixed-script detection). East Asian scripts do not count, because they are
    commonly mixed with Latin letters.
    """
    scripts = sorted({_script(c) for c in name if c.isalpha()} - _USUAL_WITH_LATIN)
    return tuple(scripts) if "LATIN" in scripts and len(scripts) > 1 else ()


def _script(c: str) -> str:
    """Return the script of a letter, which is the first word of its Unicode name."""
    return unicodedata.name(c, "?").partition(" ")[0]


def unusual_characters(name: str) -> tuple[str, ...]:
    """Return the characters of a name that are neither ASCII nor letters of a modern script, and so might imitate other letters.

    Source: Unicode Standard Annex 31, Unicode Identifiers and Syntax, table 5 (recommended scripts).
    """
    return tuple(dict.fromkeys(c for c in name if not (c.isascii() or _is_usual(c))))


def _is_usual(c: str) -> bool:
    """Return whether a character is a letter of a modern script, or a mark on one."""
    category, script = unicodedata.category(c), _script(c)
    # Lu and Ll are letters with case; a Latin letter without case is a phonetic sign, such as a click. L are all letters, and M marks.
    is_letter = category in ("Lu", "Ll") if script == "LATIN" else category[0] in "LM"
    return script in _RECOMMENDED and is_letter


def _base_letter(c: str) -> str:
    """Return the letter that a small capital, or a letter with a stroke or hook, varies; any other character unchanged."""
    match = None if c.isascii() else _VARIANT.fullmatch(unicodedata.name(c, ""))
    return c if match is None else match[1].lower()
