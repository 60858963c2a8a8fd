"""The premises on which a guarantee rests besides its theorem, such as "No two queries share noise".

A theorem about a mechanism is only as good as what the program around it does. So each class of a mechanism, sampling scheme, *filter* (a
rule by which a ledger adds up runs) or table states its premises next to its theorem, as its attribute `premises`: the sentence that must
be true, who ensures it, and which test breaks it on purpose, to show that it matters. `dpcli explain threats` prints them all
(explain/lists.py). The constants below are premises that several classes share.
"""

from __future__ import annotations

from typing import NamedTuple

AUTHOR = "the author of the file"


class Premise(NamedTuple):
    """A premise of a guarantee.

    Attributes:
        holds: Sentence that must be true.
        owner: Commands that enforce the premise, or the person who vouches for it.
        test: FILE::FUNCTION of a test that violates the premise on purpose. Either the bound is then exceeded, or dpcli refuses.
    """

    holds: str
    owner: str
    test: str

    def __str__(self) -> str:
        return f"{self.holds} Ensured by {self.owner}. Tested by {self.test}."


Premises = tuple[Premise, ...]


def of_mechanism(holds: str, test: str, commands: str = "") -> Premise:
    """Return a premise of a mechanism. The given commands enforce it, and the author of the file vouches for it elsewhere.

    Args:
        holds: Sentence that must be true.
        test: Name of a function in tests/premises/test_mechanisms.py.
        commands: Commands that enforce the premise; "" if none does.
    """
    return Premise(holds, _owner(commands), f"tests/premises/test_mechanisms.py::{test}")


def of_sampling(holds: str, test: str, commands: str = "train") -> Premise:
    """Return a premise of a sampling scheme, as `of_mechanism` does. `test` names a function in tests/premises/test_sampling.py."""
    return Premise(holds, _owner(commands), f"tests/premises/test_sampling.py::{test}")


def moves(holds: str, commands: str = "") -> Premise:
    """Return the premise that a neighbouring dataset moves a release by at most the sensitivity of its mechanism, as `holds` words it."""
    return of_mechanism(holds, "test_a_change_that_moves_more_than_is_stated_loses_more", commands)


def _owner(commands: str) -> str:
    return f"{commands}; elsewhere {AUTHOR}" if commands else AUTHOR


SECRET = of_mechanism(
    "Every release draws its own random numbers, and nobody sees them.",
    "test_who_knows_the_random_numbers_learns_more",
    "the command that draws: train, sweep and federated (Gaussian and correlated noise), release (whole numbers, choices, tests), pate and "
    "prompt (votes), pmixed and generate (tokens)",
)
NOISE = of_mechanism(
    "The noise has the named distribution. If it is added in floating-point numbers, its last digits may reveal the value without noise.",
    "test_noise_of_floating_point_numbers_shows_what_it_was_added_to",
    "train and federated, which round each noisy sum to a grid on which every value has many draws of noise",
)
OWN_NOISE = of_mechanism("No two queries share noise.", "test_noise_that_two_queries_share_cancels", "release")
# The premises of a mechanism that chooses one of several candidates by a score, such as the exponential mechanism.
SCORES = (
    SECRET,
    moves(
        "The candidates are fixed beforehand, and no change of a record changes a score by more than the sensitivity that epsilon assumes.",
        "release",
    ),
    of_mechanism("The choice is released without its score.", "test_a_choice_that_leaves_with_its_score_tells_the_data", "release"),
)
# The premise of a prediction that draws tokens from language models.
DRAWN = of_mechanism(
    "A token is drawn at random, without greedy choice, top-k or top-p, and nothing else reads the models.",
    "test_the_likeliest_token_tells_the_models",
    "pmixed and generate",
)
# The premise of a mechanism of which the file states only a guarantee, such as an epsilon.
STATED = of_mechanism(
    "The statement is true for this release under the adjacency of the file, for one unit or for the record that stated_for names. Under "
    "zero-out, it covers every report of a blanked record.",
    "test_a_statement_that_is_not_true_is_exceeded",
)
ONCE = of_sampling(
    "The data are read as often as the file states.", "test_one_pass_more_than_is_stated_costs_more", "train and release"
)
