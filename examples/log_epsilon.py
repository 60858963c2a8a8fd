"""What a private loop may log to MLflow or Weights & Biases, and from when on each number is true.

    with mlflow.start_run():
        result = take_logged_steps(private, mlflow.log_params, mlflow.log_metrics)

    with wandb.init(project="digits") as run:
        result = take_logged_steps(private, run.config.update, run.log)

Losses, gradients and accuracies on the private records are not logged: they are not private, and epsilon does not cover them.
"""

from __future__ import annotations

from collections.abc import Callable

import dpcli


def take_logged_steps(
    private: dpcli.Private, log_params: Callable[..., object], log_metrics: Callable[..., object], every: int = 50
) -> dpcli.PrivateResult:
    """Take all steps of a run of `dpcli.private`, and log what it guarantees.

    The guarantee is `planned_epsilon` from the first step to the last, wherever somebody stops. The curve `epsilon_if_planned_to_end_here`
    is for looking at: whoever stops at a point of it has not spent less.
    """
    log_params({"planned_epsilon": private.planned_epsilon, "delta": private.delta, "planned_steps": private.planned})
    for batch in private:
        private.step(batch)
        if private.taken % every == 0:
            log_metrics({"epsilon_if_planned_to_end_here": private.epsilon}, step=private.taken)
    result = private.finish()
    log_metrics({"epsilon": result.epsilon}, step=result.steps)
    return result
