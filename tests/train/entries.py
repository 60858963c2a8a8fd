"""Parts of training files, from which tests compose files: heads, [[mechanism]] entries, [train] tables, and a module with user records."""

from __future__ import annotations

HEAD = """
format = 1
name = "staged"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_000
delta = 1e-5
releases = "final-model"
"""
WARM = """
[[mechanism]]
name = "warm"
type = "gaussian"
noise_multiplier = 3.0
steps = 15
sampling = { scheme = "poisson", rate = 0.1 }
"""
MAIN = """
[[mechanism]]
name = "main"
type = "gaussian"
noise_multiplier = 2.0
steps = 20
sampling = { scheme = "poisson", batch_size = 50 }
"""
HISTOGRAM = """
[[mechanism]]
name = "histogram"
type = "laplace"
scale = 10.0
sensitivity = 1.0
"""
TREE = """
[[mechanism]]
name = "tree"
type = "tree-aggregation"
noise_multiplier = 5.0
iterations = 16
max_participations = 2
steps = 3
"""
SIZE = HEAD.replace("1_000", "1_437")
TRAIN = """
[train]
task = "classification"
data = "digits"
model = "logistic"
learning_rate = 1.0
clipping = { norm = 1.0 }
public = "held-out"
checkpoint_every = 10
"""
BANDED = TREE.replace("tree-aggregation", "banded-toeplitz").replace('name = "tree"', 'name = "banded"\nbands = 4')
MATRIX = TREE.replace("tree-aggregation", "banded-matrix").replace(
    'name = "tree"', 'name = "matrix"\nbands = 3\nmin_separation = 8'
)
TURNS = MATRIX.replace("max_participations = 2", 'max_participations = 2\nsampling = { scheme = "poisson", batch_size = 50 }')
BUFFERED = TREE.replace("tree-aggregation", "buffered-toeplitz").replace(
    'name = "tree"', 'name = "buffered"\nbuf_decay = [0.9, 0.5]\noutput_scale = [0.2, 0.3]'
)
SHUFFLE = MAIN.replace("steps = 20", "epochs = 3").replace('"poisson"', '"shuffle"')
BALLS = SHUFFLE.replace('"shuffle"', '"balls-in-bins"')
FULL = MAIN.replace('{ scheme = "poisson", batch_size = 50 }', '{ scheme = "none" }')
CUT = MAIN.replace("batch_size = 50", "batch_size = 50, max_batch_size = 60")
USERS = """
import numpy as np
def load():
    chance = np.random.default_rng(0)
    return chance.random((90, 4)), chance.integers(0, 3, 90), np.repeat(np.arange(30), 3)
def public():
    return load()[:2]
"""
UNITS = """
[train]
task = "classification"
data = "users:load"
public = "users:public"
classes = 3
units = "user"
learning_rate = 0.5
clipping = { norm = 0.5 }
"""
PER_UNIT = SIZE.replace('"example"', '"user"\nmax_contributions = 1').replace("1_437", "30")
PER_RECORD = SIZE.replace('"example"', '"user"\nmax_contributions = 2').replace("1_437", "90")
