"""Sensitivity of a matrix mechanism's encoded stream if a record takes part in several steps (L2 norm, per unit contribution).

A matrix mechanism adds correlated noise to a stream of sums: it releases B (C x + z) for factors B (decoder) and C (encoder), with
independent noise z. Its privacy depends on how far one record moves C x, which is the sensitivity here. Binary trees, whose nodes are sums
over 2^l steps, and Toeplitz encoders are covered.

A participation pattern has at most k steps, and any two of them are at least b apart. All entries of the encoder are non-negative, so the
worst contributions are all equal and add up (Choquette-Choo et al. 2022, arXiv:2211.06530).

The worst pattern in a binary tree is found by an exact search. The squared sensitivity is the sum, over the complete nodes, of the squared
number of participations within the node. Once a node's participations are placed, the later nodes depend on them through one number only:
the wait, which is the number of steps after the node's end before the next participation is allowed. So the search works with pairs of a
sum of squares and a wait. For each node, each first step in it that is allowed, and each number of participations, it keeps only the best
pairs: those for which no other pair has a larger sum without a longer wait.
"""

from __future__ import annotations

import functools
import math

from dpcli.numerics.arrays import Array, np

# Speed and accuracy: largest product of participations and trees for which the worst pattern is searched for, and not just bounded.
SEARCHED = 100

Pairs = tuple[tuple[int, int], ...]  # pairs of a sum of squares and a wait, both increasing


def most_squares(trees: tuple[int, ...], separation: int, participations: int) -> int:
    """Return the largest sum over the complete nodes of squared counts, for at most `participations` steps at least `separation` apart.

    trees: the number of steps of each tree, one after the other.
    """
    alone = separation.bit_length() - 1  # a node of 2^alone <= separation steps contains at most one participation

    @functools.cache
    def node(level: int, free: int, count: int) -> Pairs:
        """Return the best pairs for a complete node of 2^level steps with `count` participations; none if so many do not fit.

        free: the first step of the node that is allowed. The sums include all nodes below this one.
        """
        size = 2**level
        if count == 0:
            return ((0, max(free - size, 0)),)
        if count > max(-((free - size) // separation), 0):
            return ()
        if level <= alone:  # one participation is in one node of each level, best at the first step that is allowed
            return ((level + 1, free + separation - size),)
        most_in_half = -(-(size // 2) // separation)
        return _best(
            [
                (left_sum + right_sum + count * count, wait)
                for in_left in range(max(0, count - most_in_half), min(count, most_in_half) + 1)
                for left_sum, wait_in_right in node(level - 1, free, in_left)
                for right_sum, wait in node(level - 1, wait_in_right, count - in_left)
            ]
        )

    # The largest complete nodes of all trees, one after the other: a tree of n steps has one for each binary digit 1 of n.
    # best_by_used: the best pairs up to the node so far, by the number of participations that were used.
    best_by_used: dict[int, Pairs] = {0: ((0, 0),)}
    for level in (level for steps in trees for level in reversed(range(steps.bit_length())) if steps >> level & 1):
        longer: dict[int, list[tuple[int, int]]] = {}
        for used, best in best_by_used.items():
            for count in range(min(participations - used, math.ceil(2**level / separation)) + 1):
                for total, free in best:
                    pairs = node(level, free, count)
                    longer.setdefault(used + count, []).extend((total + in_node, wait) for in_node, wait in pairs)
        best_by_used = {used: _best(pairs) for used, pairs in longer.items()}
    largest_sums = [largest for best in best_by_used.values() for largest, _ in best[-1:]]
    return max(largest_sums)


def _best(pairs: list[tuple[int, int]]) -> Pairs:
    """Return the best of some pairs."""
    best: list[tuple[int, int]] = []
    for total, wait in sorted(pairs, key=lambda pair: (pair[1], -pair[0])):
        if not best or total > best[-1][0]:
            best.append((total, wait))
    return tuple(best)


def toeplitz_sensitivity(coefficients: Array, steps: int, separation: int, participations: int) -> float:
    """Return the sensitivity of the lower triangular Toeplitz encoder whose first column is `coefficients`, rounded up.

    Args:
        coefficients: the first column up to its last nonzero entry, non-negative and non-increasing.
        steps: the number n of steps, which is the size of the encoder.
        separation: the least distance b between two participations of a record, in steps.
        participations: the largest number k of participations of a record.

    The sensitivity is the norm of the sum of columns 0, b, 2b, ..., because the worst pattern is the densest one from the start. The inner
    product of columns i < j is sum_s c_s c_{s+j-i} over s < n - j, which falls with j and with j - i, and participation l is at step l b
    at the earliest (Kalinin & Lampert 2024, arXiv:2405.13763, Theorem 2; McMahan et al. 2024, arXiv:2408.08868).
    """
    b = min(separation, steps)
    rows = math.ceil(steps / b)
    column = np.zeros(rows * b)
    column[: min(steps, len(coefficients))] = coefficients[:steps]
    largest = float(column.max()) or 1.0  # this factor is taken out, because squares overflow or vanish long before the norm does
    column /= largest
    # Row i of the first column, cut into rows of b entries, is added to row i + l by column l b. So the sum of columns 0, b, 2b, ... is a
    # running sum over the rows, of the last `participations` rows only.
    total = np.cumsum(column.reshape(rows, b), axis=0)
    if participations < rows:
        total[participations:] -= total[:-participations].copy()
    squares = np.square(total.reshape(-1)[:steps])
    return math.sqrt(float(squares.sum())) * largest * (1.0 + 1e-12)


def exact_in_tree(trees: tuple[int, ...], separation: int, participations: int) -> bool:
    """Return whether `tree_sensitivity` is exact, so that some participation pattern reaches it, and not just an upper bound."""
    return len(trees) * min(participations, math.ceil(sum(trees) / separation)) <= SEARCHED


def tree_sensitivity(trees: tuple[int, ...], separation: int, participations: int) -> float:
    """Return the sensitivity of binary trees whose complete nodes are released with noise, rounded up: the root of `tree_squares`."""
    return math.sqrt(tree_squares(trees, separation, participations)) * (1.0 + 1e-15)


def tree_squares(trees: tuple[int, ...], separation: int, participations: int) -> int:
    """Return the largest sum over the complete nodes of binary trees of squared counts of participations, or an upper bound on it.

    trees: the number of steps of each tree, one after the other.

    For one participation the sum is the number of levels with a complete node (Kairouz et al. 2021, arXiv:2103.00039), in the tree that has
    the most. Up to SEARCHED participations of one tree, or products of participations and trees, it is found by search.

    Beyond, it is bounded level by level. A node of 2^l leaves contains at most m = min(k, ceil(2^l / b)) of the k participations. A sum of
    squares of counts that are at most m and add up to k is largest if as many counts as possible equal m.
    """
    most, longest = min(participations, math.ceil(sum(trees) / separation)), max(trees)
    if most == 1:
        return longest.bit_length()
    if exact_in_tree(trees, separation, participations):
        return most_squares(trees, separation, most)
    total = 0
    for level in range(longest.bit_length()):
        size = 2**level
        most_in_node = min(most, math.ceil(size / separation))
        in_level = min(most, sum(steps // size for steps in trees) * most_in_node)  # participations within complete nodes
        total += in_level // most_in_node * most_in_node**2 + (in_level % most_in_node) ** 2
    return total
