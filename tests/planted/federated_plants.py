"""Bugs to plant in federated learning: each would charge less than a server and its clients do, or release noise that nobody paid for."""

from __future__ import annotations

F = "federated/"

FEDERATED_PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "clients: noise of those who work with the server",
        F + "settings.py",
        "self.min_clients - self.dishonest if",
        "self.min_clients if",
    ),
    (
        "clients: noise grows with their number",
        F + "noise.py",
        "Fraction(stated) ** 2 * table.honest",
        "Fraction(stated) ** 2 * table.honest**2",
    ),
    ("clients: a share of the noise rounded down", F + "noise.py", "< Fraction(charged) ** 2", "< 0"),
    ("clients: shares of correlated noise", F + "noise.py", "if table.observed and isinstance", "if False and isinstance"),
    ("clients: amplified against the server", F + "judged.py", "if table.observed and scheme.amplified:", "if False:"),
    (
        "clients: presence hidden from the server",
        F + "judged.py",
        '    if table.observed:\n        yield (\n            ("privacy"',
        '    if False:\n        yield (\n            ("privacy"',
    ),
    ("clients: absent ones draw in others", F + "judged.py", "elif scheme_of(table).displaces:", "elif False:"),
    ("clients: another scheme than the server's", F + "judged.py", "elif scheme.scheme != table.sampling:", "elif False:"),
    (
        "clients: amplified draws that depend on earlier ones",
        F + "judged.py",
        "        for key in KEPT:\n            if getattr",
        "        for key in ():\n            if getattr",
    ),
    ("clients: more rounds than steps", F + "judged.py", "if not least <= steps <= rounds:", "if steps > rounds:"),
    ("clients: another share of them", F + "judged.py", "and stated != charged:", "and False:"),
    ("clients: another population", F + "judged.py", "and table.population != privacy.dataset_size:", "and False:"),
    ("clients: a part of another entry", F + "judged.py", "if owner is not None:", "if False:"),
    ("clients: participations of a run not counted", F + "judged.py", "if spec.max_participations < kept.most:", "if False:"),
    ("clients: how far apart not compared", F + "judged.py", "if kept.most > 1 and spec.min_separation > kept.apart:", "if False:"),
    ("clients: passes that a window cuts", F + "participation.py", "else 1 + ceil(", "else ceil("),
    (
        "clients: shuffled passes far apart",
        F + "participation.py",
        "if issubclass(scheme, Cyclic) else apart",
        "if True else apart",
    ),
    (
        "clients: solved noise not judged",
        F + "plan.py",
        "for key, expected, found in disagreements(table, pipeline.privacy, pipeline.mechanisms):",
        "for key, expected, found in ():",
    ),
    ("rounds: one charge for two", F + "rounds.py", "self._left = count if", "self._left = 2 * count if"),
    ("rounds: a repeated charge is taken", F + "rounds.py", "if not receipt.repeated:", "if True:"),
    (
        "rounds: an unheard charge is asked for again",
        F + "rounds.py",
        "self._charges += 1  # whatever becomes of it, a number is asked for once\n"
        "                key = charge_key(self.key, self._charges, self.chunk)",
        "key = charge_key(self.key, self._charges + 1, self.chunk)",
    ),
    ("rounds: a fork goes on with what its parent paid", F + "rounds.py", "if self._process != os.getpid():", "if False:"),
    (
        "rounds: what else the file releases is free",
        F + "rounds.py",
        "self._earlier, self._beside = self._charges * self.chunk, not self._charges",
        "self._earlier, self._beside = self._charges * self.chunk, False",
    ),
    (
        "rounds: all are paid for by the first",
        F + "rounds.py",
        "if self._paid < self.plan.paid_by else self.planned",
        "if False else self.planned",
    ),
    ("rounds: beyond the plan", F + "rounds.py", "if self.taken >= self.planned:", "if False:"),
    ("rounds: released twice", F + "round.py", "if self._released or", "if False or"),
    ("rounds: released in a fork", F + "round.py", "or self._process != os.getpid():", "or False:"),
    ("rounds: updates of anybody", F + "round.py", "if stranger is not None:", "if False:"),
    ("rounds: not clipped", F + "server.py", "total += clipped(vector, clip)", "total += vector"),
    ("rounds: NaN passes", F + "server.py", "return np.zeros_like(update)", "return update"),
    (
        "rounds: noise not scaled by the clipping norm",
        F + "server.py",
        "nextafter(noise * clip, inf)",
        "nextafter(noise * clip**2, inf)",
    ),
    ("rounds: a client may be drawn beyond its cap", F + "server.py", "if kept is not None or isinstance", "if isinstance"),
    ("rounds: clients draw the noise, and the server adds it again", F + "server.py", "if plan.table.observed:", "if False:"),
)
