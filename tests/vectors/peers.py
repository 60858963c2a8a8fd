"""Writes peers/NAME.json: budgets and configurations as another library makes them, with the numbers that it gives itself.

python tests/vectors/peers.py NAME > tests/vectors/peers/NAME.json
    # NAME: tf_privacy, jax_privacy, opendp, tumult, where tensorflow-privacy 0.9, jax-privacy 2.0 and keras, opendp 0.16,
    # or tmlt.analytics 0.21 is installed
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

SIZES = [(60_000, 256), (50_000, 500), (1_000, 10), (100_000, 64), (4_096, 128)]


def tf_privacy() -> Iterator[dict[str, Any]]:
    """Return flags of compute_dp_sgd_privacy, with the epsilons of its PLD and RDP accountants under both samplings."""
    vars(sys)["skip_tf_privacy_import"] = True  # it needs tensorflow for its optimizers alone
    from tensorflow_privacy.privacy.analysis import compute_dp_sgd_privacy_lib as lib

    draws = [(noise, epochs) for noise, epochs in ((1.12, 60), (0.8, 0.5), (2.0, 10), (4.0, 3.25))]
    for place, ((size, batch), (noise, epochs)) in enumerate((s, d) for s in SIZES for d in draws):
        micro = place % 3 == 2
        flags = [f"--N={size}", f"--batch_size={batch}", f"--noise_multiplier={noise}", f"--epochs={epochs}", "--delta=1e-5"]
        flags += [] if micro else ["--noused_microbatching"]
        epsilon = {}
        for kind in lib.AccountantType:
            asked = (epochs, noise, 1e-5, micro)
            poisson = lib._compute_dp_sgd_example_privacy(*asked, batch / size, kind)
            epsilon[kind.value] = {"poisson": poisson, "shuffle": lib._compute_dp_sgd_example_privacy(*asked, None, kind)}
        yield {"flags": flags, "epsilon": epsilon}


def jax_privacy() -> Iterator[dict[str, Any]]:
    """Return fields of DPKerasConfig, with the epsilon of its own accountant at the stated batch size."""
    from jax_privacy import keras_api
    from jax_privacy.accounting import analysis

    for place, ((size, batch), (noise, steps)) in enumerate(
        (s, d) for s in SIZES for d in ((1.1, 1000), (0.9, 40), (2.5, 300), (5.0, 2000))
    ):
        accumulated = 1 + place % 2 * 3
        config = keras_api.DPKerasConfig(
            epsilon=100.0,
            delta=1e-5,
            clipping_norm=1.0,
            batch_size=batch,
            gradient_accumulation_steps=accumulated,
            train_steps=steps,
            train_size=size,
            noise_multiplier=noise,
            poisson_sampling_in_fit=place % 3 == 0,
        )
        asked = analysis.DpParams(
            noise_multipliers=noise, batch_size=config.effective_batch_size, num_samples=size, delta=config.delta
        )
        yield {"config": dataclasses.asdict(config), "epsilon": config._accountant.compute_epsilon(steps, asked)}


def opendp() -> Iterator[dict[str, Any]]:
    """Return accountants of Contexts as opendp serialises them, with the loss that they state at d_in."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    units = [
        dp.unit_of(contributions=1),
        dp.unit_of(contributions=3),
        dp.unit_of(contributions=2, ordered=True),
        dp.unit_of(changes=1),
        dp.unit_of(changes=4, ordered=True),
    ]
    losses = [
        (dp.loss_of(epsilon=1.0), {"split_evenly_over": 3}),
        (dp.loss_of(epsilon=0.5, delta=1e-9), {"split_by_weights": [1, 3]}),
        (dp.loss_of(rho=0.2), {"split_evenly_over": 7}),
        (dp.loss_of(epsilon=0.3, delta=1e-8), {}),
    ]
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    for unit in units:
        for (measure, loss), split in losses:
            found = dp.Context.compositor([1.0, 2.0], privacy_unit=unit, privacy_loss=(measure, loss), domain=domain, **split)
            mapped = found.accountant.map(found.d_in) if found.d_out is None else found.d_out
            yield {
                "accountant": json.loads(dp.serialize(found.accountant)),
                "loss": mapped,
                "measure": str(found.accountant.output_measure),
            }


def tumult() -> Iterator[dict[str, Any]]:
    """Return budgets and protected changes by the names of their classes and fields."""
    from tmlt.analytics.privacy_budget import ApproxDPBudget, PureDPBudget, RhoZCDPBudget
    from tmlt.analytics.protected_change import AddMaxRows, AddOneRow, AddRowsWithID

    budgets = [PureDPBudget(1), PureDPBudget(0.1), ApproxDPBudget(1, 1e-6), ApproxDPBudget(0.7, 0), RhoZCDPBudget(0.5)]
    protected = [
        ({"a": AddOneRow()}, 1),
        ({"a": AddMaxRows(3), "b": AddOneRow()}, 4),
        ({"a": AddRowsWithID("user"), "b": AddRowsWithID("person")}, 1),
        ({"a": AddRowsWithID("user", "users"), "b": AddRowsWithID("shop", "shops")}, 2),
    ]
    for budget in budgets:
        keys = {name.removeprefix("_"): getattr(budget, name.removeprefix("_")) for name in vars(budget)}
        for changes, contributions in protected:
            tables = {table: {"type": type(change).__name__, **dataclasses.asdict(change)} for table, change in changes.items()}
            session = {"privacy_budget": {"type": type(budget).__name__, **keys}, "protected_changes": tables}
            yield {"session": session, "contributions": contributions}


def main() -> None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    maker = {each.__name__: each for each in (tf_privacy, jax_privacy, opendp, tumult)}[sys.argv[1]]
    json.dump(list(maker()), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
