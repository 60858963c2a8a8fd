"""A small [prompt] file, and the module of its private texts and of a function that stands for a language model."""

from pathlib import Path

FILE = """format = 1
name = "stub"
[privacy]
unit = "user"
max_contributions = 2
adjacency = "add-remove"
releases = "outputs"
delta = 1e-6
[[mechanism]]
name = "votes"
type = "confident-gnmax"
queries = 30
answers = 25
threshold = 9.0
threshold_sigma = 3.0
sigma = 2.0
[prompt]
data = "stub:data"
queries = "stub:queries"
public = "stub:public"
labels = ["no", "yes"]
units = "user"
labeller = "stub:labeller"
template = "{text} ->"
separator = " | "
verbalizers = [" no", " yes"]
teachers = 16
demonstrations = 2
output = "out"
"""
# The words of a text are of one kind or the other; which kind is "yes" is known from demonstrations alone.
STUB = """
import random
KINDS = ("ash birch cedar elm".split(), "bream carp eel pike".split())
calls = []

def texts(seed, count):
    chance = random.Random(seed)
    kinds = [chance.randrange(2) for _ in range(count)]
    found = [f"{chance.choice(KINDS[kind])} {chance.choice(KINDS[kind])} {n}" for n, kind in enumerate(kinds)]
    return found, ["yes no".split()[kind] for kind in kinds]

def data():
    found, labels = texts(1, 400)
    return [f"{text} secret{n}" for n, text in enumerate(found)], labels, [n // 2 for n in range(400)]

def queries():
    return texts(2, 40)[0]

def public():
    return texts(3, 50)

def kind(text):
    return int(text.split()[0] in KINDS[1])

def labeller(prompt):
    calls.append(prompt)
    *shown, asked = prompt.split(" | ")
    scores = [0.0, 0.1]
    for one in shown:
        text, label = one.split(" -> ")
        said = ("no", "yes").index(label)
        scores[said if kind(text) == kind(asked) else 1 - said] += 1.0
    return scores
"""


def written(folder: Path) -> str:
    """Write the module into the folder, and return the text of the pipeline file."""
    (folder / "stub.py").write_text(STUB)
    return FILE
