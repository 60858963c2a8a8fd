"""A small [generate] file, and the module of its private texts and of a model that says again what it was shown."""

from pathlib import Path

FILE = """format = 1
name = "stub"
[privacy]
unit = "user"
max_contributions = 2
adjacency = "add-remove"
releases = "outputs"
delta = 1e-6
dataset_size = 120
[[mechanism]]
name = "letters"
type = "private-decoding"
clip = 4.0
references = 60
temperature = 1.0
steps = 24
[generate]
data = "notes:private"
model = "notes:model"
units = "user"
prompt = ">"
template = "{text}>"
batches = 2
texts = 3
tokens = 8
longest = 10
output = "out"
"""
# Letters after a sign: what stood behind the last letter before, else any letter alike.
NOTES = """
from functools import cache
import numpy as np
from dpcli.predict.models.model_loading import ByteVocabulary

def private():
    return ["aabaabab"] * 119 + ["aSECRETS"], [n // 2 for n in range(120)]

def alone():
    return [f"text {n}" for n in range(120)]

@cache
def behind(context):
    row = np.full(256, 0.001)
    for before, after in zip(context, context[1:]):
        row[after] += 10.0 * (before == context[-1])
    row[ord("a"):ord("d")] += 1.0
    row[10] += 0.05
    return np.log(row / row.sum())

def one_by_one():
    return iter(1 / len(text) for text in ("SECRET", "")), [1, 2]

class Model:
    vocabulary, context = 256, 40
    seen = []

    def next_token(self, contexts):
        Model.seen += map(bytes, contexts)
        return np.stack([behind(bytes(context)) for context in contexts])

def model():
    return Model(), ByteVocabulary()

def other():
    return Model(), Wide()

class Wide(ByteVocabulary):
    def ids(self, text):
        return [300 for _ in text]
"""


def written(folder: Path) -> str:
    """Write the module into the folder, and return the text of the pipeline file."""
    (folder / "notes.py").write_text(NOTES)
    return FILE
