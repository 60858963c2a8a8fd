"""An analyst's notebook: ten questions about a table in memory. `python examples/ten_questions.py`, from the folder of the project."""

# ruff: noqa: T201

# %% The table. A pandas or polars DataFrame serves as well; state the types of its columns, as here.
from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

import dpcli

EXAMPLES = Path(__file__).parent
TYPES = {"patient": "VARCHAR", "state": "VARCHAR", "age": "BIGINT", "reason": "VARCHAR", "cost": "DOUBLE"}
visits = duckdb.read_csv(str(EXAMPLES / "visits.csv"), columns=TYPES)

# %% What it costs, and how far off the answers will be. No data are read.
plan = dpcli.plan_release(EXAMPLES / "ten-questions.toml")
print(plan)
for name, error in plan.expected_errors.items():
    print(f"  {name}: {error}")

# %% The answers. With ledger="ledger.db", the release is charged to the dataset, which all releases of the same data share.
folder = Path(tempfile.mkdtemp())
answers = dpcli.release(visits, EXAMPLES / "ten-questions.toml", out=folder / "answers")
print(answers)
answers.frame()  # a notebook shows it as a table, with an interval for each answer

# %% Asked again, the same answers are given, and nothing is charged.
again = dpcli.release(visits, EXAMPLES / "ten-questions.toml", out=folder / "answers")
assert again.answers == answers.answers and not again.fresh

# %% Everything from here on is computed from noisy answers, and costs nothing.
(patients,) = answers.rows("patients")
print(f"1. {patients['value']} patients ({patients['lower']:.0f} to {patients['upper']:.0f})")

# %%
by_state = {row["state"]: row["value"] for row in answers.rows("visits")}
print(f"2. visits by state: {by_state}")

# %%
print(f"3. reasons that enough patients have: {[row['reason'] for row in answers.rows('reasons')]}")

# %% A share has no measure of its own, and no interval: two counts have one each.
(seniors,) = answers.rows("visits-of-seniors")
share = seniors["value"] / sum(by_state.values())
print(f"4. {100 * share:.0f} % of the visits are of people from 65 on")

# %%
print("5. spent:", {row["state"]: round(row["value"]) for row in answers.rows("spent")})
print("6. mean cost:", {row["state"]: round(row["value"], 1) for row in answers.rows("mean-cost")})

# %%
quartiles = [row["value"] for row in answers.rows("quartiles")]
print(f"7. a quarter of the visits cost at most {quartiles[0]}, half {quartiles[1]}, three quarters {quartiles[2]}")

# %%
print("8. visits by age:", [row["value"] for row in answers.rows("ages")])

# %%
(reason,) = answers.rows("common-reason")
print(f"9. the most common reason: {reason['value'] or 'too close to tell'}")

# %%
(vaccinations,) = answers.rows("cost-of-vaccinations")
low, high = vaccinations["lower"], vaccinations["upper"]
print(f"10. a vaccination costs {vaccinations['value']:.2f} on average ({low:.2f} to {high:.2f})")

# %% The statement that goes with the answers.
print(answers.statement.partition("\n\n")[0])
