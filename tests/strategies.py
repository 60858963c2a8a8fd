"""Pipelines for tests: `dp_sgd` builds one from given numbers, and `pipelines` is a hypothesis strategy that draws random ones.

An *entry* is one mechanism with its number of steps. `noisy` draws entries whose cost follows from noise, with or without Poisson sampling;
`stated` draws other types, most of which state their cost.
"""

from __future__ import annotations

from hypothesis import strategies as st

from dpcli.exam.subjects import entry, pipeline
from dpcli.file.pipeline.model import Entry, Pipeline


def dp_sgd(noise: float, rate: float | None, steps: int, delta: float = 1e-5, adjacency: str = "add-remove") -> Pipeline:
    """Return the pipeline of DP-SGD: `steps` Gaussians with Poisson sampling, or without sampling if `rate` is None."""
    return pipeline(entry("gaussian", steps=steps, rate=rate, noise_multiplier=noise), adjacency=adjacency, delta=delta)


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    """Return a strategy for log-uniform numbers from 10^low to 10^high, with six digits."""
    return st.floats(low, high).map(lambda x: float(f"{10.0**x:.6g}"))


counts = st.sampled_from([1, 1, 2, 3, 10, 100])
deltas = log_uniform(-12.0, -1.0)
rates = st.one_of(st.none(), log_uniform(-4.0, -0.05))

noisy = st.one_of(
    st.builds(lambda nm, n, q: entry("gaussian", steps=n, rate=q, noise_multiplier=nm), log_uniform(-0.3, 1.5), counts, rates),
    st.builds(lambda nm, n, q: entry("laplace", steps=n, rate=q, noise_multiplier=nm), log_uniform(-0.3, 2.0), counts, rates),
)
stated = st.one_of(
    st.builds(lambda e, n, q: entry("pure-dp", steps=n, rate=q, epsilon=e), log_uniform(-3.0, 0.5), counts, rates),
    st.builds(
        lambda e, d, n: entry("approx-dp", steps=n, epsilon=e, delta=d), log_uniform(-3.0, 0.5), log_uniform(-12.0, -7.0), counts
    ),
    st.builds(lambda e, n: entry("exponential", steps=n, epsilon=e), log_uniform(-3.0, 0.5), counts),
    st.builds(lambda r, n: entry("zcdp", steps=n, rho=r), log_uniform(-4.0, 0.0), counts),
    st.builds(lambda s, n: entry("discrete-laplace", steps=n, scale=s, sensitivity=2), log_uniform(0.0, 2.0), counts),
    st.builds(lambda s, n: entry("discrete-gaussian", steps=n, sigma=s, sensitivity=1), log_uniform(-0.3, 2.0), counts),
    st.builds(
        lambda v, n: entry("rdp", steps=n, orders=(2.0, 4.0, 16.0), values=(v, 2 * v, 8 * v)), log_uniform(-4.0, 0.0), counts
    ),
)
entries = st.one_of(noisy, stated)


@st.composite
def pipelines(draw: st.DrawFn, entries: st.SearchStrategy[Entry] = entries, most: int = 3) -> Pipeline:
    """Draw a pipeline under add-remove with one to `most` entries."""
    return pipeline(*draw(st.lists(entries, min_size=1, max_size=most)), delta=draw(deltas))
