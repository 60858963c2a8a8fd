"""Tables of private data in each format that commands read, and pipeline files of commands that read such a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sweep.samples import HEAD

Row = dict[str, Any]
BAG = """
import torch
def bag():
    return torch.nn.Sequential(torch.nn.Embedding(256, 6), torch.nn.Linear(6, 256))

def gpt2():
    import transformers
    sizes = dict(n_layer=1, n_head=1, n_embd=8, vocab_size=256, n_positions=32, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
"""


def as_csv(rows: Sequence[Row], where: Path) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with where.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *([row.get(name) for name in names] for row in rows)])


def as_jsonl(rows: Sequence[Row], where: Path) -> None:
    where.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def as_parquet(rows: Sequence[Row], where: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), where)


WRITERS: Mapping[str, Callable[[Sequence[Row], Path], None]] = {".csv": as_csv, ".jsonl": as_jsonl, ".parquet": as_parquet}


def learnt(plan: Any) -> Any:
    from dpcli.random.streams import insecure_seed
    from dpcli.train.tasks.learning import learning

    found = learning(plan.train, plan.path, insecure_seed(1).initialisation, plan.rows)
    leaves = found.records if isinstance(found.records, tuple) else (found.records,)
    return [leaf.tolist() for leaf in leaves], None if found.units is None else found.units.tolist()


def fine_tuning(plan: Any) -> Any:
    from dpcli.predict.pmixed.shard_models import private_texts, shard_texts

    return shard_texts(plan, private_texts(plan))


def writing(plan: Any) -> Any:
    from dpcli.predict.decode.text_writer import context_batches, frame_of
    from dpcli.predict.models.model_loading import language_model

    generate = plan.generate
    model, vocabulary = language_model(generate.model, generate.tokenizer, plan.path, "generate")
    return context_batches(
        generate, plan.path, plan.pipeline.privacy, frame_of(generate, model, vocabulary), vocabulary, model.vocabulary, plan.rows
    )


def table_of(task: str, **keys: Any) -> str:
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    return (
        HEAD
        + f'[train]\ntask = "{task}"\ndata = "rows.csv"\nlearning_rate = 0.1\nclipping = {{ norm = 1.0 }}\noutput = "out"\n{lines}'
    )
