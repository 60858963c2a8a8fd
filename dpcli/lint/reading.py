"""DP001 to DP005: what makes a file unreadable. The reader decides them; here are their words."""

from __future__ import annotations

from dpcli.lint.rule import HEAD, TRAIN, RuleInfo, edited

SYNTAX = RuleInfo(
    code="DP001",
    severity="error",
    waivable=False,
    title="not a TOML file",
    what="The file is not valid TOML 1.0, not UTF-8, too large, or nested too deeply.",
    why="A file that two readers may understand in two ways cannot carry a guarantee.",
    fix="Correct the place that the line and column point to; save the file as UTF-8 without a byte-order mark.",
    source="TOML 1.0.0, https://toml.io/en/v1.0.0",
    bad=edited(HEAD, 'unit = "example"', 'unit = "example') + TRAIN,
    good=HEAD + TRAIN,
)

UNKNOWN_KEY = RuleInfo(
    code="DP002",
    severity="error",
    waivable=False,
    title="unknown key",
    what="The file has a key that no part of the format knows; look-alike letters and control characters are shown escaped.",
    why="A misspelt key would silently leave its default in force, and the default may claim more privacy than was meant.",
    fix="Use the suggested spelling, or remove the key.",
    source="NIST SP 800-226 (2025), on privacy hazards of implementations",
    bad=edited(HEAD, "unit =", "unti =") + TRAIN,
    good=HEAD + TRAIN,
)

WRONG_TYPE = RuleInfo(
    code="DP003",
    severity="error",
    waivable=False,
    title="wrong type",
    what="A value has another type than its key: text or true/false in place of a number, a fraction in place of a count.",
    why="Converting it would be a guess, and a guessed parameter gives a guessed epsilon.",
    fix="Write numbers without quotes and counts without a decimal point.",
    source="TOML 1.0.0, https://toml.io/en/v1.0.0",
    bad=HEAD + edited(TRAIN, "= 1.1", '= "1.1"'),
    good=HEAD + TRAIN,
)

OUT_OF_RANGE = RuleInfo(
    code="DP004",
    severity="error",
    waivable=False,
    title="value out of range",
    what="A number is outside the range of its key, or is nan, inf, or too large for a float.",
    why="Formulas fed with nan can answer 0, the best guarantee there is: published accountants return epsilon = 0 for "
    "a noise of nan.",
    fix="Give a finite value in the range that the message states.",
    source="observed in two published accountants: noise = nan yields epsilon = 0",
    bad=HEAD + edited(TRAIN, "= 1.1", "= nan"),
    good=HEAD + TRAIN,
)

INCONSISTENT = RuleInfo(
    code="DP005",
    severity="error",
    waivable=False,
    title="keys that contradict one another",
    what="Keys that say the same thing differ (rate against batch_size / dataset_size, steps against epochs), or one "
    "that another needs is missing.",
    why="The accountant would use one of the two and the training the other, so that the printed epsilon belongs to no run.",
    fix="State each quantity once, in the form that the program uses.",
    source="Opacus issue 813, https://github.com/pytorch/opacus/issues/813",
    bad=HEAD + edited(TRAIN, "batch_size = 256", "batch_size = 256, rate = 0.5"),
    good=HEAD + TRAIN,
)
