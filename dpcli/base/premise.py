"""Premises of a privacy guarantee: the facts about data, program and noise that its theorem assumes.

Each mechanism and sampling class states its premises. `dpcli explain threats` prints them.
"""

from __future__ import annotations

from typing import NamedTuple

AUTHOR = "the author of the file"


class Premise(NamedTuple):
    """A premise of a guarantee.

    Attributes:
        holds: A sentence that must be true for the guarantee to hold.
        owner: The commands that enforce the premise, or the person who is trusted to ensure it.
        test: FILE::FUNCTION of a test that breaks the premise on purpose. It checks that the bound is then exceeded or the breach refused.
    """

    holds: str
    owner: str
    test: str

    def __str__(self) -> str:
        return f"{self.holds} Ensured by {self.owner}. Tested by {self.test}."


Premises = tuple[Premise, ...]


def of_mechanism(holds: str, test: str, commands: str = "") -> Premise:
    """Return a premise of a mechanism that these commands enforce. For other commands, the author of the file must ensure it."""
    return Premise(holds, _owner(commands), f"tests/premises/test_mechanisms.py::{test}")


def of_sampling(holds: str, test: str, commands: str = "train") -> Premise:
    """Return a premise of a sampling scheme that these commands enforce. For other commands, the author of the file must ensure it."""
    return Premise(holds, _owner(commands), f"tests/premises/test_sampling.py::{test}")


def moves(holds: str, commands: str = "") -> Premise:
    """Return a premise that a neighbouring dataset moves a release by at most its sensitivity."""
    return of_mechanism(holds, "test_a_change_that_moves_more_than_is_stated_loses_more", commands)


def _owner(commands: str) -> str:
    return f"{commands}; elsewhere {AUTHOR}" if commands else AUTHOR


SECRET = of_mechanism(
    "Every release draws fresh random numbers, which remain secret.",
    "test_who_knows_the_random_numbers_learns_more",
    "the command that draws: train, sweep and federated (Gaussian and correlated noise), release (whole numbers, choices, tests), pate and "
    "prompt (votes), pmixed and generate (tokens)",
)
NOISE = of_mechanism(
    "The noise has the named distribution. If it is added in floating-point arithmetic, its last digits may reveal the value it was added "
    "to.",
    "test_noise_of_floating_point_numbers_shows_what_it_was_added_to",
    "train and federated, except for the last digits of Gaussian noise",
)
OWN_NOISE = of_mechanism("No two queries share noise.", "test_noise_that_two_queries_share_cancels", "release")
SCORES = (
    SECRET,
    moves(
        "No change moves a score by more than the sensitivity that was divided out, among candidates fixed beforehand.", "release"
    ),
    of_mechanism("The choice is released without its score.", "test_a_choice_that_leaves_with_its_score_tells_the_data", "release"),
)
DRAWN = of_mechanism(
    "Each token is drawn at random, without greedy choice, top-k or top-p. Nothing else reads the models.",
    "test_the_likeliest_token_tells_the_models",
    "pmixed and generate",
)
STATED = of_mechanism(
    "The stated guarantee is true of this release, under the adjacency of the file, for one unit or for one record as stated_for says. "
    "Under zero-out it covers every report of a blanked record.",
    "test_a_statement_that_is_not_true_is_exceeded",
)
ONCE = of_sampling(
    "The data are read exactly as often as stated.", "test_one_pass_more_than_is_stated_costs_more", "train and release"
)
