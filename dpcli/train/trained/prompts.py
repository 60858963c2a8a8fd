"""Texts that a model is asked about: as they are given, or from what a user names."""

from __future__ import annotations

import os
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.train.plan.settings_language import CausalLm, Language
from dpcli.train.tasks.lm_texts import texts_of
from dpcli.train.trained.answers import ModelInput


def prompts_of(asked: ModelInput, train: Language) -> list[str]:
    """Those of --prompt, then DATA's: lines of a .txt file, the text column of .csv, .jsonl and .parquet, or a function's."""
    if asked.source is None:
        return list(asked.prompts)
    source = os.path.abspath(asked.source) if os.path.isfile(asked.source) else asked.source
    unlabelled = CausalLm(
        task="causal-lm", data=source, model=train.model, clipping=train.clipping, learning_rate=1.0, text=train.text
    )
    found = texts_of(source, replace(unlabelled, context=train.context), asked.source).texts
    if not all(isinstance(text, str) for text in found):
        raise InputError(f"{asked.source}: expected texts, found something else")
    return [*asked.prompts, *map(str, found)]
