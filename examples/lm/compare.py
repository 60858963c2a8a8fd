"""What privacy costs: the perplexity of one held-out text under three models. python examples/lm/compare.py, a few minutes on two cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from language_model import fit
from torch import Tensor
from transformers import GPT2LMHeadModel

from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.run.training_run import Report, train
from dpcli.train.tasks.causal_lm import build

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lm.toml")


def main() -> None:
    plan = plan_of(FILE)
    public = build(plan.train, FILE)
    rows = [("public text", "0", public.measure())]
    sys.stderr.write(f"training on {public.count:,} private records, under privacy ...\n")
    private = train(plan, report=progress(plan))
    rows.append(("private text too, under privacy", f"{private.epsilon:.4g}", private.metrics))
    sys.stderr.write("\nand without privacy, as many steps ...\n")
    assert isinstance(public.model, GPT2LMHeadModel) and isinstance(public.records, Tensor)
    fit(public.model, public.records, plan.steps, round(plan.stages[0].expected_batch), plan.train.learning_rate)
    rows.append(("private text too, without privacy", "infinite", public.measure()))
    sys.stdout.write(f"{'trained on':<36}{'epsilon':>10}{'perplexity per byte':>22}\n")
    for name, epsilon, metrics in rows:
        sys.stdout.write(f"{name:<36}{epsilon:>10}{metrics['perplexity']:>22.3f}\n")


def progress(plan: TrainingPlan) -> Report:
    def report(step: int, metrics: Mapping[str, float] | None) -> None:
        measured = f", perplexity {metrics['perplexity']:.3f}\n" if metrics else ""
        sys.stderr.write(f"\r  step {step:,} of {plan.steps:,} {measured}")

    return report


if __name__ == "__main__":
    main()
