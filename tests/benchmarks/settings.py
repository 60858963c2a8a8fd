"""What the accountants are compared on: compositions of Gaussian noise on Poisson samples, from one step to 10^9."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

Phase = tuple[float, float, int]  # sampling rate, noise multiplier, steps


@dataclass(frozen=True, slots=True)
class Setting:
    """One question: epsilon (nats) at `delta` of all `phases` together.

    reference: epsilon good to 1e-9 relative, from 30-digit arithmetic, where it is known.
    """

    name: str
    phases: tuple[Phase, ...]
    delta: float
    replaces: bool = False
    reference: float | None = None

    @property
    def digest(self) -> str:
        """Tells two questions of the same name apart."""
        return f"{zlib.crc32(repr((self.phases, self.delta, self.replaces)).encode()):08x}"

    @property
    def text(self) -> str:
        """The question in a few words."""
        rate, noise, steps = self.phases[0]
        first = f"q {rate:.4g}, sigma {noise:g}, {steps:g} steps"
        more = f", ... {len(self.phases)} phases" if len(self.phases) > 1 else ""
        return f"{first}{more}, delta {self.delta:g}{', replace-one' if self.replaces else ''}"


MNIST = (256 / 60000, 1.1, 14040)

# The first value of each is epsilon, checked against 30-digit arithmetic.
REFERENCES = (
    Setting("mnist", (MNIST,), 1e-5, reference=2.3795545188),
    Setting("mnist replace-one", (MNIST,), 1e-5, True, 4.2174858115),
    Setting("cifar", ((4096 / 50000, 3.0, 2500),), 1e-5, reference=6.5788958506),
    Setting("lora", ((256 / 920344, 0.6, 71900),), 1e-6, reference=2.0398365142),
    Setting("million steps", ((1e-4, 0.8, 10**6),), 1e-7, reference=0.9127034976),
    Setting("little noise", ((0.01, 0.5, 10000),), 1e-5, reference=43.3664898605),
    Setting("delta 1e-12", ((0.001, 1.0, 10000),), 1e-12, reference=1.1844838022),
    Setting("delta 1e-30", ((0.001, 1.0, 10000),), 1e-30, reference=5.1537675837),
    Setting("much noise", ((0.01, 4.0, 10000),), 1e-5, reference=0.9468668006),
    Setting("gaussians", ((1.0, 20.0, 100),), 1e-5, reference=1.9930914044),
    Setting("ten steps", ((0.1, 1.0, 10),), 1e-5, reference=2.8545189280),
    Setting("mixed", ((0.01, 1.0, 1000), (0.02, 2.0, 500), (1.0, 30.0, 3)), 1e-6, reference=2.3938704130),
)

# (sampling rate, noise multiplier, steps, delta)
SINGLE: tuple[tuple[float, float, int, float], ...] = (
    (1e-6, 0.3, 10**6, 1e-6),
    (1e-6, 0.5, 10**9, 1e-9),
    (1e-6, 1.0, 10**9, 1e-9),
    (1e-5, 0.6, 10**7, 1e-8),
    (1e-5, 0.5, 10**5, 1e-5),
    (1e-4, 0.5, 10**4, 1e-6),
    (1e-4, 1.0, 10**8, 1e-7),
    (1e-3, 0.3, 100, 1e-5),
    (1e-3, 0.7, 10**5, 1e-6),
    (1e-3, 2.0, 10**6, 1e-8),
    (1e-3, 10.0, 10**7, 1e-6),
    (0.01, 0.8, 1, 1e-5),
    (0.01, 0.7, 100, 1e-5),
    (0.01, 1.0, 1000, 1e-5),
    (0.01, 2.0, 10**5, 1e-5),
    (0.01, 10.0, 10**6, 1e-6),
    (0.01, 100.0, 10**9, 1e-5),
    (0.01, 1.5, 5000, 1e-20),
    (0.02, 1.2, 3000, 1e-3),
    (0.05, 0.3, 10, 1e-3),
    (0.05, 1.5, 1000, 1e-15),
    (0.1, 0.5, 5, 1e-5),
    (0.1, 5.0, 10**4, 1e-6),
    (0.1, 50.0, 10**6, 1e-6),
    (0.5, 1.0, 10, 1e-3),
    (0.5, 4.0, 200, 1e-5),
    (0.5, 30.0, 10**4, 1e-10),
    (0.9, 2.0, 50, 1e-6),
    (1.0, 0.3, 1, 1e-5),
    (1.0, 1.0, 1, 1e-5),
    (1.0, 5.0, 10, 1e-30),
    (1.0, 100.0, 10**5, 1e-6),
)
# One big loss decides: the others are far from it (weak), or hardly there (few).
WEAK = tuple(
    Setting(f"{q:g} {s:g} {n:g} {d:g}", ((q, s, n),), d)
    for q, s, n, d in (
        (1e-7, 0.7, 10**5, 1e-10),
        (1e-7, 0.7, 10**6, 1e-10),
        (1e-6, 0.8, 10**4, 1e-9),
        (1e-8, 0.5, 10**9, 1e-10),
        (1e-7, 0.5, 10**8, 1e-10),
        (1e-5, 0.6, 1000, 1e-7),
        (1e-5, 0.8, 100, 1e-8),
        (1e-4, 1.0, 20, 1e-6),
        (1e-3, 1.0, 2, 1e-6),
        (1e-3, 1.0, 3, 1e-6),
        (1e-3, 1.0, 4, 1e-6),
        (1e-3, 1.0, 10, 1e-6),
        (1e-5, 0.8, 2, 1e-8),
    )
)
REPLACED: tuple[tuple[float, float, int, float], ...] = (
    (1e-5, 0.7, 10**6, 1e-7),
    (0.001, 0.8, 10**4, 1e-8),
    (0.01, 1.0, 1000, 1e-5),
    (0.1, 2.0, 100, 1e-12),
    (1.0, 20.0, 100, 1e-5),
)


def schedule(count: int) -> tuple[Phase, ...]:
    """Noise that falls from 4 to 1 while the rate rises from 0.1 % to 1 %, over `count` phases."""
    share = [i / max(count - 1, 1) for i in range(count)]
    return tuple((0.001 + 0.009 * s, round(4.0 - 3.0 * s, 9), 2000 // count) for s in share)


SETTINGS = (
    *REFERENCES,
    *(Setting(f"{q:g} {s:g} {n:g} {d:g}", ((q, s, n),), d) for q, s, n, d in SINGLE),
    *WEAK,
    *(Setting(f"{q:g} {s:g} {n:g} {d:g} replace-one", ((q, s, n),), d, True) for q, s, n, d in REPLACED),
    *(Setting(f"{count} phases", schedule(count), 1e-6) for count in (2, 5, 10, 20, 48, 100, 200)),
    Setting("5 phases replace-one", schedule(5), 1e-6, True),
    Setting("far apart", ((1e-6, 0.5, 10**8), (0.01, 1.0, 1000), (1.0, 30.0, 3)), 1e-8),
)
SMALL = (
    Setting("warm-up", ((0.01, 2.0, 10),), 1e-5),
    Setting("warm-up replace-one", ((0.01, 2.0, 10),), 1e-5, True),
    Setting("warm-up phases", ((0.01, 2.0, 10), (1.0, 9.0, 1)), 1e-5),
)
