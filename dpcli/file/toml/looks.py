"""Confusable names: skeletons that are equal for names that look alike, and names of mixed or unusual scripts.

Source: Unicode Technical Standard 39, Unicode Security Mechanisms, section 4 (skeletons of confusable strings); the letters here are
those of Cyrillic, Greek and Armenian that have the shape of a Latin one, and the digits that are taken for letters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

LAST = 0x1FFFF  # code point beyond which no script has letters
_BLANK = frozenset("\u115f\u1160\u2800\U0001d159")  # letters and symbols by their category, and nothing on the screen
_ALIKE = str.maketrans(
    {
        **dict(
            zip(
                "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d",
                "abekmhopctyxsijdqw",
                strict=True,
            )
        ),
        **dict(zip("\u04cf\u04bb\u0433\u043f\u0475\u04af\u0261\u0269\u0131\u0251", "lhrnvygiia", strict=True)),
        **dict(
            zip(
                "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u03c7\u03c9\u03b6",
                "abyeniKuvopotuxwz".lower(),
                strict=True,
            )
        ),
        **dict(zip("\u0585\u057d\u0578\u0570\u0581\u0584\u0566", "ounhgfq", strict=True)),
        **dict(zip("01|", "oll", strict=True)),
        "i": "l",
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "_": "-",
        " ": "-",
    }
)


def looks(name: str) -> str:
    """Return the skeleton of a name: compatibility forms, case, accents, outer spaces and invisible characters go, confusables are one."""
    folded = unicodedata.normalize("NFKD", name).casefold()
    plain = "".join(c for c in folded if c not in _BLANK and unicodedata.category(c) not in ("Mn", "Me", "Cf", "Cc"))
    once = " ".join(unicodedata.normalize("NFKD", "".join(map(_letter, plain))).split())
    shaped = once.translate(_ALIKE).translate(_ALIKE)
    return shaped.replace("rn", "m").replace("vv", "w")


@cache
def letters() -> dict[str, list[tuple[int, int]]]:
    """Return `looks` as tables of code points of NFKD forms, for PostgreSQL.

    letters: (character, the one it is taken for). gone: ranges of characters that skeletons leave out. A character that becomes two
    (\u00df) is in neither.
    """
    result = [(ord(" "), ord(looks("_")))]  # between words; at the ends it is gone
    gone: list[tuple[int, int]] = []
    for code in (*range(0x21, 0xD800), *range(0xE000, LAST + 1)):
        seen = looks(chr(code)) if unicodedata.is_normalized("NFKD", chr(code)) else chr(code)
        if not seen and gone and gone[-1][1] == code - 1:
            gone[-1] = (gone[-1][0], code)
        elif not seen and not chr(code).isspace():
            gone.append((code, code))
        elif len(seen) == 1 and seen != chr(code):
            result.append((code, ord(seen)))
    return {"letters": result, "gone": gone}


def mixed(name: str) -> tuple[str, ...]:
    """Return the scripts of a name's letters where it mixes Latin letters with others; none where it does not.

    Source: Unicode Technical Standard 39, section 5.1 (mixed-script detection); East Asian scripts stand beside Latin letters as a rule.
    """
    result = sorted({unicodedata.name(c, "?").partition(" ")[0] for c in name if c.isalpha()} - _BESIDE_LATIN)
    return tuple(result) if "LATIN" in result and len(result) > 1 else ()


def strange(name: str) -> tuple[str, ...]:
    """Return the characters of a name that are neither ASCII nor letters of a script in use today, as they may pass for others.

    Source: Unicode Standard Annex 31, Unicode Identifiers and Syntax, table 5 (recommended scripts).
    """
    return tuple(dict.fromkeys(c for c in name if not (c.isascii() or _usual(c))))


def _usual(c: str) -> bool:
    category, script = unicodedata.category(c), unicodedata.name(c, "?").partition(" ")[0]
    letter = (
        category in ("Lu", "Ll") if script == "LATIN" else category[0] in "LM"
    )  # without case, a Latin letter is a click or a tone
    return script in _RECOMMENDED and letter


_RECOMMENDED = frozenset(
    {
        *(
            "ARABIC",
            "ARMENIAN",
            "BENGALI",
            "BOPOMOFO",
            "CJK",
            "COMBINING",
            "CYRILLIC",
            "DEVANAGARI",
            "ETHIOPIC",
            "GEORGIAN",
            "GREEK",
        ),
        *(
            "GUJARATI",
            "GURMUKHI",
            "HANGUL",
            "HEBREW",
            "HIRAGANA",
            "IDEOGRAPHIC",
            "KANNADA",
            "KATAKANA",
            "KATAKANA-HIRAGANA",
            "KHMER",
        ),
        *("LAO", "LATIN", "MALAYALAM", "MYANMAR", "ORIYA", "SINHALA", "TAMIL", "TELUGU", "THAANA", "THAI", "TIBETAN"),
    }
)
_BESIDE_LATIN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "MICRO"})
# A letter with a stroke, a hook or the like, and a small capital: which letter it is, its name says.
_VARIANT = re.compile("LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL |SCRIPT |INSULAR |LONG )?([A-Z])(?: WITH .*)?")


def _letter(c: str) -> str:
    match = None if c.isascii() else _VARIANT.fullmatch(unicodedata.name(c, ""))
    return c if match is None else match[1].lower()
