"""Small pipeline files with a [sweep] table, and the parts of which they consist."""

from __future__ import annotations

HEAD = """format = 1
name = "tiny"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_437
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 10
sampling = { scheme = "none" }
"""
TUNE = """[[mechanism]]
name = "tune"
type = "repeat-and-select"
mechanism = "sgd"
trials = { distribution = "geometric", mean = 2 }
"""
TRAIN = """[train]
task = "classification"
data = "digits"
model = "logistic"
learning_rate = 1.0
clipping = { norm = 1.0 }
public = "held-out"
"""
CUSTOM = """[train]
task = "custom"
data = "own:data"
model = "own:model"
loss = "own:loss"
metric = "own:metric"
learning_rate = 1.0
clipping = { norm = 1.0 }
public = "own:public"
"""
SWEEP = """[sweep]
epsilon = [1.0, 8.0]
tuning = "public"
repeats = 2
"""
SEARCH = """[sweep]
epsilon = [3.0]
tuning = "repeat-and-select"
"""
GRID = """[sweep.grid]
"train.learning_rate" = [0.25, 1.0]
"""
PUBLIC = HEAD + TRAIN + SWEEP
SAMPLED = PUBLIC.replace('{ scheme = "none" }', '{ scheme = "poisson", batch_size = 64 }')
PRIVATE = HEAD + TUNE + TRAIN + SEARCH + GRID
