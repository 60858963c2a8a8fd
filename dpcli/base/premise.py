"""Premises of a guarantee besides its theorem: stated by each class, printed by `dpcli explain threats`."""

from __future__ import annotations

from typing import NamedTuple

AUTHOR = "the author of the file"


class Premise(NamedTuple):
    """A premise of a guarantee.

    holds: a sentence that must be true. owner: the commands that enforce it, or the person whose word is taken. test: FILE::FUNCTION of the
    test that breaks it on purpose, and sees the bound exceeded or the breach refused.
    """

    holds: str
    owner: str
    test: str

    def __str__(self) -> str:
        return f"{self.holds} Seen to by {self.owner}. Shown by {self.test}."


Premises = tuple[Premise, ...]


def of_mechanism(holds: str, test: str, commands: str = "") -> Premise:
    """Return a premise of a mechanism, which these commands enforce, and elsewhere the author of the file."""
    return Premise(holds, _owner(commands), f"tests/premises/test_mechanisms.py::{test}")


def of_sampling(holds: str, test: str, commands: str = "train") -> Premise:
    """Return a premise of a sampling scheme, which these commands enforce, and elsewhere the author of the file."""
    return Premise(holds, _owner(commands), f"tests/premises/test_sampling.py::{test}")


def moves(holds: str, commands: str = "") -> Premise:
    """Return a premise about the sensitivity of a release."""
    return of_mechanism(holds, "test_a_change_that_moves_more_than_is_stated_loses_more", commands)


def _owner(commands: str) -> str:
    return f"{commands}; elsewhere {AUTHOR}" if commands else AUTHOR


SECRET = of_mechanism(
    "Every release draws random numbers of its own, which nobody sees.",
    "test_who_knows_the_random_numbers_learns_more",
    "the command that draws: train, sweep and federated (Gaussian and correlated noise), release (whole numbers, choices, tests), pate and "
    "prompt (votes), pmixed and generate (tokens)",
)
NOISE = of_mechanism(
    "The noise has the law that is named; added in floating-point numbers, its last digits may tell what it was added to.",
    "test_noise_of_floating_point_numbers_shows_what_it_was_added_to",
    "train and federated, but for the last digits of Gaussian noise",
)
OWN_NOISE = of_mechanism("No two queries share noise.", "test_noise_that_two_queries_share_cancels", "release")
SCORES = (
    SECRET,
    moves(
        "No change moves a score by more than the sensitivity that was divided out, among candidates fixed beforehand.", "release"
    ),
    of_mechanism("The choice leaves without its score.", "test_a_choice_that_leaves_with_its_score_tells_the_data", "release"),
)
DRAWN = of_mechanism(
    "A token is drawn, and nothing else reads the models: no greedy choice, no top-k or top-p.",
    "test_the_likeliest_token_tells_the_models",
    "pmixed and generate",
)
STATED = of_mechanism(
    "The statement is true of this release, under the adjacency of the file, for one unit or for the record that stated_for names; under "
    "zero-out it covers whatever a blanked record reports.",
    "test_a_statement_that_is_not_true_is_exceeded",
)
ONCE = of_sampling("The data are read as often as is stated.", "test_one_pass_more_than_is_stated_costs_more", "train and release")
