"""dpcli pmixed on models that count: fitted, asked, counted, priced and measured. None of it needs torch."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcli
from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.file.keys.annotations import members_of
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.documents import pmixed as presented
from dpcli.predict.models.texts import OwnedTexts
from dpcli.predict.pmixed import ensemble_fit as fitting
from dpcli.predict.pmixed.ensemble_fit import FITTED, fit, model_file, token_counter
from dpcli.predict.pmixed.model_ensemble import answer_prompt, ensemble
from dpcli.predict.pmixed.pmixed_plan import Pmixed, PmixedPlan, plan_of
from dpcli.predict.pmixed.shard_models import private_texts, shard_texts
from dpcli.predict.prediction_session import AnswerLimit
from tests.command import Result
from tests.command import dpcli as run
from tests.predict.pmixed.pmixed_files import MODULE, written
from tests.predict.samples import working_folder

FEW = {"mechanism_shards": "3", "mechanism_radius": "0.1"}  # where the number of shards does not matter: each has processes


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the user's module."""
    return working_folder(tmp_path, monkeypatch, "small_texts")


def run_pmixed(folder: Path, *arguments: str, stdin: bytes = b"") -> Result:
    return run("pmixed", *arguments, stdin=stdin, folder=folder)


def books(folder: Path, epsilon: float = 10.0, order: float = 4.0) -> Any:
    terms = LedgerTerms("example", "add-remove", epsilon, 1e-5, filter="rdp", parameters={"order": order})
    return init(str(folder / "ledger.db"), "letters", terms)


def test_a_fit_answers_as_many_tokens_as_are_paid_for_and_no_more(place: Path) -> None:
    path = written(place, max_tokens="15")
    assert run_pmixed(place, "fit", str(path)).code == 0
    complete = plan_of(str(path)).tokens
    taken = 0
    for _ in range(complete):
        outcome = run_pmixed(place, "predict", str(path), "--prompt", "w1 w2", "-f", "json")
        answer = json.loads(outcome.out)
        assert answer["taken"] - taken == answer["tokens"] + (answer["ended_by"] == "the end of the text")
        taken = answer["taken"]
        if outcome.code:
            break
        assert set(answer["text"].split()) <= {*(f"w{k}" for k in range(12)), "<unk>"}
    assert (outcome.code, taken, answer["ended_by"]) == (1, complete, "no more tokens are paid for")
    assert "all 40 tokens are spent: more need a new fit and a new charge" in outcome.err
    again = run_pmixed(place, "predict", str(path), "--prompt", "w1")
    assert (again.code, again.out.strip()) == (1, "")


def test_the_prompt_may_come_from_standard_input(place: Path) -> None:
    path = written(place)
    run_pmixed(place, "fit", str(path))
    assert run_pmixed(place, "predict", str(path), stdin=b"w1 w2\n").code == 0
    assert "standard input: expected a prompt in UTF-8" in run_pmixed(place, "predict", str(path), stdin=b"\xff").err


class Counted:
    """A count that remembers when it was asked, of so many tokens."""

    def __init__(self, total: int) -> None:
        self.total, self.granted = total, 0

    def taken(self) -> int:
        return self.granted

    def take(self, count: int = 1) -> int:
        if self.granted + count > self.total:
            raise Denied("spent")
        self.granted += count
        return self.granted - count


def test_each_token_is_counted_before_anything_is_drawn(place: Path) -> None:
    plan = plan_of(str(written(place)))
    fit(plan)
    models, queries = ensemble(plan), Counted(5)

    class Watched:
        private = True

        def words(self, count: int) -> Any:
            seen.append(queries.granted)
            return np.frombuffer(np.random.default_rng(len(seen)).bytes(8 * count), np.uint64)

        def bulk(self) -> np.random.Generator:
            raise AssertionError

    seen: list[int] = []
    outcome = answer_prompt(models, queries, "w1", 8, Watched())
    assert seen[0] == 1 and seen == sorted(seen) and max(seen) == queries.granted
    assert outcome.refusal == "spent" or outcome.ended_by == "the end of the text"


@pytest.mark.parametrize("flags", [("--top-k", "5"), ("--top-p", "0.9"), ("--greedy",)])
def test_other_ways_of_drawing_are_refused_with_the_reason(place: Path, flags: tuple[str, ...]) -> None:
    outcome = run_pmixed(place, "predict", str(written(place)), "--prompt", "w1", *flags)
    assert outcome.code == 2
    assert f"{flags[0]} cannot be used here: a token is drawn from the whole average" in outcome.err


@pytest.mark.parametrize("key", ["top_k", "top_p", "greedy", "num_beams"])
def test_keys_for_other_ways_of_drawing_are_refused_with_the_reason(place: Path, key: str) -> None:
    outcome = run("lint", str(written(place, **{key: "5"})))
    assert outcome.code != 0
    assert f"found '{key}'; a token is drawn from the whole average of the projected models" in outcome.out


FAILING = """
class Failing(WordVocabulary):
    def ids(self, text):
        return None if text in news() + published() else super().ids(text)

def failing():
    return Failing(WORDS)
"""


def test_a_tokenizer_that_fails_on_public_text_is_no_bug_of_dpcli(place: Path) -> None:
    path = str(written(place, tokenizer='"small_texts:failing"'))
    (place / "small_texts.py").write_text(MODULE + FAILING)
    outcome = run_pmixed(place, "fit", path)
    assert outcome.code == 2 and "the tokenizer: raised TypeError" in outcome.err


def test_any_temperature_draws_a_token(place: Path) -> None:
    path = str(written(place, temperature="1e-320"))
    assert run_pmixed(place, "fit", path).code == 0
    assert run_pmixed(place, "predict", path, "--prompt", "w1").code == 0


PUBLISHED = "the published protocol is not a DP guarantee"


@pytest.mark.parametrize(
    "command",
    [("account",), ("gate",), ("report",), ("lint",), ("explain",), ("calibrate", "--solve", "steps"), ("plot", "rdp")],
    ids=lambda command: command[0],
)
def test_nobody_certifies_the_published_protocol(place: Path, command: tuple[str, ...]) -> None:
    outcome = run(*command, str(written(place, mode='"paper"')))
    assert outcome.code != 0 and PUBLISHED in outcome.out + outcome.err
    assert "epsilon <=" not in outcome.out


def test_no_ledger_is_charged_for_the_published_protocol(place: Path) -> None:
    path = written(place, mode='"paper"')
    with books(place) as ledger:
        before = len(ledger.entries())
    for words in (("spend", "ledger.db", str(path), "--key", "a"), ("reserve", "ledger.db", str(path), "--key", "a")):
        outcome = run("budget", *words, folder=place)
        assert outcome.code == 2 and PUBLISHED in outcome.err
    outcome = run_pmixed(place, "fit", str(path), "--ledger", "ledger.db")
    assert outcome.code == 2 and "which has no guarantee and so no cost to charge" in outcome.err
    with pytest.raises(InputError, match=PUBLISHED):
        dpcli.load(path)
    from dpcli.ledger.commands.budget import opened_ledger

    with opened_ledger("ledger.db", None) as ledger:
        assert len(ledger.entries()) == before


def test_the_published_protocol_runs_and_says_what_it_is(place: Path) -> None:
    path = written(place, mode='"paper"')
    assert PUBLISHED in run_pmixed(place, "fit", str(path)).out
    outcome = run_pmixed(place, "predict", str(path), "--prompt", "w1", "-f", "json")
    assert outcome.code == 0 and json.loads(outcome.out)["result"] is None and PUBLISHED in outcome.err
    priced = run_pmixed(place, "account", str(path))
    assert priced.code == 3 and "NOT A DP GUARANTEE" in priced.out and PUBLISHED in priced.err
    assert run_pmixed(place, "account", str(path), "--solve", "radius").code == 2


def test_a_claim_without_a_radius_is_refused_before_any_model_is_fitted(place: Path) -> None:
    path = written(place, mode='"paper"')
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 1.0"))
    outcome = run_pmixed(place, "fit", str(path))
    assert outcome.code == 3 and "at order 3 the conversion alone exceeds epsilon = 1" in outcome.err
    assert not (place / "runs").exists()


def test_a_paper_file_with_another_mistake_is_refused_for_that(place: Path) -> None:
    outcome = run_pmixed(place, "account", str(written(place, mode='"paper"', colour="3")))
    assert outcome.code == 2 and "pmixed.colour" in outcome.err


def test_all_tokens_are_charged_once_before_the_first_model(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted fit goes on without another charge, and makes no model again."""
    plan, ledger = plan_of(str(written(place, **FEW))), books(place)
    made: list[str] = []
    complete = fitting.replace_file

    def write(path: str, content: bytes, mode: int = 0o666) -> None:
        if path.endswith(".model"):
            if len(made) == 1:
                raise KeyboardInterrupt
            made.append(path)
            assert [run.status for run in ledger.state().runs.values()] == ["started"]
        complete(path, content, mode)

    monkeypatch.setattr(fitting, "replace_file", write)
    with pytest.raises(KeyboardInterrupt):
        fit(plan, ledger)
    with pytest.raises(InputError, match="found a session: continue it with --resume"):
        fit(plan, ledger)
    with pytest.raises(InputError, match="--resume: expected the --ledger that was charged for this session, found none"):
        fit(plan, resume=True)
    monkeypatch.setattr(fitting, "replace_file", complete)
    assert fit(plan, ledger, resume=True).resumed == 1
    assert [run.status for run in ledger.state().runs.values()] == ["committed"]
    with pytest.raises(InputError, match="already has fitted models: fitting again is another release"):
        fit(plan, ledger)
    with pytest.raises(InputError, match="expected a session in"):
        fit(plan_of(str(written(place, output='"other"', **FEW))), resume=True)


@pytest.mark.long
def test_what_the_ledger_or_the_budget_refuses_leaves_nothing(place: Path) -> None:
    plan, ledger = plan_of(str(written(place))), books(place, 0.1, 500.0)
    with pytest.raises(Denied):
        fit(plan, ledger)
    assert not ledger.state().runs and not list(Path(plan.folder).glob("*.model"))
    assert fit(plan).resumed == 0  # the folder is as new
    with pytest.raises(Denied, match="budget: expected at most epsilon 8"):
        fit(plan_of(str(written(place, mechanism_radius="3.0", output='"other"'))))


def test_a_file_that_changed_since_the_fit_is_refused(place: Path) -> None:
    fit(plan_of(str(written(place))))
    changes = {
        "mechanism_radius": "0.2",
        "mechanism_steps": "41",
        "mechanism_model_rate": "0.4",
        "projection": '"mix"',
        "salt": '"again"',
    }
    for key, value in changes.items():
        with pytest.raises(InputError, match=r"expected the file with which the models in .* were fitted"):
            ensemble(plan_of(str(written(place, **{key: value}))))


def test_a_changed_or_missing_model_is_refused(place: Path) -> None:
    plan = plan_of(str(written(place)))
    with pytest.raises(InputError, match="no fitted models"):
        ensemble(plan)
    fit(plan)
    Path(model_file(plan.folder, 2)).write_bytes(b"else")
    with pytest.raises(InputError, match="was changed after the fit"):
        ensemble(plan)
    Path(model_file(plan.folder, 2)).unlink()
    with pytest.raises(InputError, match="expected a fitted model: No such file"):
        ensemble(plan)
    Path(plan.folder, FITTED).write_text("{}")
    with pytest.raises(InputError, match="expected a file that dpcli pmixed fit wrote"):
        ensemble(plan)


def test_models_are_for_their_owner_alone(place: Path) -> None:
    plan = plan_of(str(written(place)))
    fit(plan)
    files = [
        *(Path(model_file(plan.folder, shard)) for shard in range(6)),
        Path(plan.folder, FITTED),
    ]  # which has a hash of the texts
    assert {file.stat().st_mode & 0o077 for file in files} == {0}
    assert Path(plan.folder).stat().st_mode & 0o077 == 0  # nor the sizes of the models, which tell those of the shards


def test_a_count_that_is_gone_is_not_begun_anew_by_a_fit_that_goes_on(place: Path) -> None:
    """The fit was cut off after its models could answer."""
    plan = plan_of(str(written(place, **FEW)))
    fit(plan)
    folder = Path(plan.folder)
    (folder / FITTED).unlink()
    (folder / "queries.db").rename(place / "elsewhere.db")
    with pytest.raises(LedgerError, match="no count of queries here"):
        fit(plan, resume=True)


@pytest.mark.parametrize("key", ["public", "test"])
def test_what_is_declared_public_is_not_the_private_text(place: Path, key: str) -> None:
    for private, public in (("a.txt", "a.txt"), ("a.txt", "./a.txt"), ("small_texts:letters", "small_texts:letters")):
        with pytest.raises(InputError, match="expected text declared public"):
            plan_of(str(written(place, **{"data": f'"{private}"', key: f'"{public}"'})))


def test_the_error_of_the_users_function_is_not_quoted(place: Path) -> None:
    outcome = run_pmixed(place, "fit", str(written(place, data='"small_texts:broken"')))
    assert outcome.code == 2 and "raised ValueError at small_texts.py" in outcome.err and "a private letter" not in outcome.err


def shards_touched(plan: PmixedPlan, before: OwnedTexts, after: OwnedTexts) -> int:
    return sum(a != b for a, b in zip(shard_texts(plan, before), shard_texts(plan, after), strict=True))


def owned(texts: list[str], units: list[str] | None = None) -> OwnedTexts:
    return OwnedTexts(tuple(texts), tuple(units or texts))


def test_one_change_touches_one_shard(place: Path) -> None:
    """A text that comes, goes or is exchanged; a unit with several texts that comes or goes."""
    texts = [f"text {number}" for number in range(40)]
    free = plan_of(str(written(place)))
    assert shards_touched(free, owned(texts), owned(texts[:7] + texts[8:])) == 1
    placed = plan_of(str(written(place, privacy_adjacency='"replace-one"')))
    for other in ("one", "two", "three", "four"):
        assert shards_touched(placed, owned(texts), owned([*texts[:7], other, *texts[8:]])) == 1
    (place / "blank.txt").write_text("\n".join(texts))
    for adjacency in Adjacency:  # a line that is blanked, or another one
        lines = plan_of(str(written(place, privacy_adjacency=f'"{adjacency.value}"', data='"blank.txt"')))
        other = "" if adjacency is not Adjacency.REPLACE_ONE else "another"
        (place / "blank.txt").write_text("\n".join(texts))
        before = private_texts(lines)
        (place / "blank.txt").write_text("\n".join([*texts[:7], other, *texts[8:]]))
        assert shards_touched(lines, before, private_texts(lines)) == 1
    units = [f"u{number // 5}" for number in range(40)]
    by_unit = plan_of(str(written(place, data='"small_texts:owned"', units='"who"')))
    kept = [number for number in range(40) if units[number] != "u3"]
    assert shards_touched(by_unit, owned(texts, units), owned([texts[k] for k in kept], [units[k] for k in kept])) == 1


def test_where_one_change_could_touch_two_shards_the_file_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="the shards of both change"):
        plan_of(str(written(place, privacy_adjacency='"replace-one"', data='"small_texts:owned"', units='"who"')))
    with pytest.raises(
        InputError, match=r"pmixed\.units: set it to the column that names each text's owner, which max_contributions = 4 needs"
    ):
        plan_of(str(written(place, privacy_unit='"user"', privacy_max_contributions="4")))
    with pytest.raises(InputError, match=r"to the column that names each text's owner, which change = .remove-shard. needs"):
        plan_of(str(written(place, mechanism_change='"remove-shard"')))


def test_where_a_shard_is_a_unit_there_are_as_many(place: Path) -> None:
    keys = {"mechanism_change": '"remove-shard"', "units": '"who"'}
    fit(plan_of(str(written(place, data='"small_texts:shards_of_six"', **keys))))
    with pytest.raises(InputError, match="expected 6 units, as each is a shard that may be added or removed"):
        fit(plan_of(str(written(place, data='"small_texts:owned"', output='"other"', **keys))))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"mechanism": '"other"'},
            "pmixed.mechanism: expected the name of the entry of type pmixed to run, found other of tokens",
        ),
        ({"mechanism_partition": '"region"'}, "expected no partition"),
        ({"public": None}, "expected a text file or module:function, declared public, with model = .ngram., found none"),
        ({"tokenizer": None}, "expected bytes, a path or a name, or module:function with model = .ngram., found none"),
        ({"mechanism_radius": '"calibrate"'}, "dpcli pmixed account FILE --solve radius then finds the largest radius"),
        ({"lora": "{ rank = 4 }"}, "expected no lora with model = .ngram."),
        ({"order": "3"}, None),
        ({"order": "4"}, 'expected this key only with mode = "paper"'),
        ({"projection": '"nearest"'}, "expected one of .clip., .mix."),
        ({"ngram": "4"}, "expected a whole number from 1 to 3"),
        ({"temperature": "0"}, "expected a number > 0"),
        ({"max_tokens": "2000000000"}, "expected fewer than 10"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_tables_are_refused(place: Path, keys: dict[str, Any], message: str | None) -> None:
    path = written(place, **keys)
    if message is None:
        plan_of(str(path))
        return
    with pytest.raises(InputError, match=message):
        plan_of(str(path))


def test_the_examples_of_the_table_state_every_key() -> None:
    stated = {key for example in Pmixed.examples for key in example}
    assert stated == set(members_of(Pmixed)) == {field.name for field in dataclasses.fields(Pmixed)}


def test_a_prompt_that_is_too_long_for_the_model_is_refused(place: Path) -> None:
    """A model of counts looks back on any length: one of the user's own says how far."""
    (place / "short_model.py").write_text(
        "from dataclasses import replace\nfrom dpcli.predict.models.ngram import public_ngram\n"
        "from tests.predict.pmixed.pmixed_files import sentences\nimport small_texts\n"
        "def model():\n    words = small_texts.vocabulary()\n"
        "    found = public_ngram([words.ids(text) for text in small_texts.news()], 2, words.size)\n"
        "    class Short:\n        vocabulary, context = words.size, 12\n        next_token, tune, tuned = "
        "found.next_token, found.tune, found.tuned\n    return Short()\n"
        "def narrow():\n    found = model()\n    wide = found.tuned\n"
        "    def tuned(learnt):\n        other = wide(learnt)\n        class Narrow:\n            vocabulary, context = 3, 12\n"
        "            next_token = other.next_token\n        return Narrow()\n    found.tuned = tuned\n    return found\n"
    )
    path = written(place, model='"short_model:model"', context="12", public=None, **FEW)
    assert run_pmixed(place, "fit", str(path)).code == 0
    outcome = run_pmixed(place, "predict", str(path), "--prompt", " ".join(["w1"] * 9))
    assert outcome.code == 2 and "prompt: expected at most 5 tokens before 8 new ones" in outcome.err
    queries = token_counter(plan_of(str(path)), fitting.read_fit(plan_of(str(path))).session, None)
    assert queries.taken() == 0
    assert run_pmixed(place, "predict", str(path), "--prompt", " ".join(["w1"] * 9), "--max-tokens", "4").code == 0
    other = path.read_text().replace("short_model:model", "short_model:narrow").replace('name = "small"', 'name = "narrow"')
    path.write_text(other)
    books(place).close()
    outcome = run_pmixed(place, "fit", str(path), "--ledger", str(place / "ledger.db"))
    assert outcome.code == 2 and "expected the public model's vocabulary of 14 tokens, found 3" in outcome.err
    with open_ledger(str(place / "ledger.db")) as ledger:
        assert not ledger.state().runs  # before the charge


SIZED = {"mechanism_shards": "80", "mechanism_model_rate": "0.03", "mechanism_radius": "1.3", "mechanism_steps": "1024"}


def test_account_prices_both_changes(place: Path) -> None:
    path = written(place, **SIZED)
    priced = json.loads(run_pmixed(place, "account", str(path), "-f", "json").out)
    by = {(row["change"], row["accountant"]): row["epsilon_upper"] for row in priced["rows"]}
    assert by["replace-shard", "pld"] < by["replace-shard", "rdp"] and by["remove-shard", "pld"] < by["replace-shard", "pld"]
    assert priced["best"]["epsilon_upper"] == by["replace-shard", "pld"]
    assert dpcli.account(dpcli.load(path), ["pld"]).upper == by["replace-shard", "pld"]
    assert run_pmixed(place, "account", str(path), "--target-epsilon", "3").code == 2
    assert run_pmixed(place, "account", str(written(place, **SIZED | {"mechanism_radius": "2.0"}))).code == 1


@pytest.mark.long
@pytest.mark.parametrize(("solve", "step"), [("radius", 1e-6), ("steps", 1)])
def test_account_solves_for_the_last_value_that_meets_the_budget(place: Path, solve: str, step: float) -> None:
    """The next value of seven digits does not."""
    outcome = json.loads(run_pmixed(place, "account", str(written(place, **SIZED)), "--solve", solve, "-f", "json").out)
    best = outcome["best"]
    assert best["change"] == "replace-shard" and best["value"] == max(row["value"] for row in outcome["rows"] if row["stated"])
    for value, meets in ((best["value"], True), (best["value"] + step, False)):
        stated = f"{value:.7g}" if solve == "radius" else f"{value:.0f}"
        at = written(place, **SIZED | {f"mechanism_{solve}": stated})
        assert (dpcli.account(dpcli.load(at), [best["accountant"]]).upper <= 8.0) == meets


@pytest.mark.long
def test_over_budget_says_which_radius_would_pass(place: Path) -> None:
    """The radius that is named passes, the next one of seven digits does not."""
    outcome = run_pmixed(place, "fit", str(written(place, mechanism_radius="2.0")))
    named = re.search(r"radius = (\S+) would pass", outcome.err)
    assert outcome.code == 1 and named is not None
    plan_of(str(written(place, mechanism_radius=named[1]))).require_budget()
    beyond = plan_of(str(written(place, mechanism_radius=f"{float(named[1]) + 1e-6:.7g}")))
    with pytest.raises(Denied):
        beyond.require_budget()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ledger", [True, False])
def test_a_copy_of_a_fit_that_goes_on_has_no_tokens_of_its_own(place: Path, ledger: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied at any model, before the first ends and after: what is charged once is counted once."""
    path, first = written(place, **FEW), place / "runs" / "small"
    kept = fitting.replace_file

    def copying(name: str, *arguments: Any) -> None:
        if name.endswith(".model"):
            shutil.copytree(first, place / f"copy{name[-7]}")
        kept(name, *arguments)

    monkeypatch.setattr(fitting, "replace_file", copying)
    with books(place) if ledger else nullcontext() as outcome:
        fit(plan_of(str(path)), outcome)
        monkeypatch.setattr(fitting, "replace_file", kept)
        for shard in (0, 2):
            plan = plan_of(str(written(place, output=f'"copy{shard}"', **FEW)))
            if outcome is None:
                with pytest.raises(LedgerError, match="a copy of"):
                    fit(plan, outcome, resume=True)
                continue
            taken = token_counter(plan, fit(plan, outcome, resume=True).fit.session, outcome).take()
            assert taken == 1 + (shard > 0)  # all of them are counted in one place


def test_a_copy_of_a_fit_that_was_not_counted_yet_is_the_same_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, first = written(place, **FEW), place / "runs" / "small"
    open_count = AnswerLimit.open

    def copying(*arguments: Any) -> Any:
        if not (place / "copy").exists():
            shutil.copytree(first, place / "copy")
        return open_count(*arguments)

    monkeypatch.setattr(AnswerLimit, "open", copying)
    with books(place, epsilon=100.0) as ledger:
        fits = [fit(plan_of(str(path)), ledger), fit(plan_of(str(written(place, output='"copy"', **FEW))), ledger, resume=True)]
        assert {one.fit.session.run for one in fits} == {*ledger.state().runs} and len(
            ledger.state().runs
        ) == 1  # whose answers it counts


FAILS = """
import warnings
from asyncio import CancelledError
from dpcli.predict.models.model_loading import WordVocabulary
from tests.predict.pmixed.pmixed_files import WORDS
import numpy as np

SECRET = "a private letter"

def letters():
    return [SECRET] * 12

class Words(WordVocabulary):
    def ids(self, text):
        raise ValueError(text)

def words():
    return Words(WORDS)

class Model:
    vocabulary, context = 14, 999
    fails = ""

    def next_token(self, contexts):
        if self.fails == "asked":
            warnings.warn(SECRET)
            raise SystemExit(SECRET)
        if self.fails == "stopped":
            raise KeyboardInterrupt(SECRET)
        return np.log(np.full((len(contexts), 14), 1 / 14))

    def tune(self, records):
        if WHEN == "tune":
            raise KeyError(SECRET)
        return SECRET if WHEN == "kind" else b""

    def tuned(self, content):
        if WHEN in ("tuned", "cancelled"):
            raise (RuntimeError if WHEN == "tuned" else CancelledError)(SECRET)
        found = Model()
        found.fails = WHEN
        return found

def model():
    return Model()
"""


@pytest.mark.sampled(2, 2)
@pytest.mark.parametrize("when", ["ids", "tune", "kind", "tuned", "cancelled", "asked", "stopped"])
def test_whatever_fails_on_private_texts_says_nothing_of_them(place: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "failing_models", raising=False)
    (place / "failing_models.py").write_text(f"WHEN = {when!r}\n" + FAILS)
    tokenizer = '"failing_models:words"' if when == "ids" else '"small_texts:vocabulary"'
    path = written(place, data='"failing_models:letters"', model='"failing_models:model"', tokenizer=tokenizer, public=None, **FEW)
    results = [
        run_pmixed(place, command, str(path), *more) for command, *more in (("fit",), ("predict", "--prompt", "w1"), ("evaluate",))
    ]
    assert all("private letter" not in result.out + result.err for result in results)
    assert all(result.code != 70 for result in results)
    assert (results[1].code == 0) == (when in ("asked", "stopped")), results[1].err


def test_a_vocabulary_without_a_text_for_a_token_is_refused_before_the_charge(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model may draw any of its tokens: the answer would be lost, and stay charged."""
    monkeypatch.delitem(sys.modules, "failing_models", raising=False)
    narrow = "\nwords = lambda: WordVocabulary(WORDS[:9])\nletters = lambda: ['w1 w2'] * 12\n"
    (place / "failing_models.py").write_text(f"WHEN = ''\n{FAILS}{narrow}")
    path = written(
        place,
        data='"failing_models:letters"',
        model='"failing_models:model"',
        tokenizer='"failing_models:words"',
        public=None,
        test='"news.txt"',
    )
    books(place).close()
    refused = run_pmixed(place, "fit", str(path), "--ledger", str(place / "ledger.db"))
    assert refused.code == 2 and "pmixed.tokenizer: token 11 of the model's 14: raised IndexError" in refused.err
    with open_ledger(str(place / "ledger.db")) as ledger:
        assert not ledger.state().runs


def test_no_epsilon_at_delta_zero_is_no_success(place: Path) -> None:
    outcome = run_pmixed(place, "account", str(written(place)), "--delta", "0")
    assert (outcome.code, outcome.out) == (3, "") and "neither accountant certifies a finite epsilon" in outcome.err


def test_a_budget_that_is_overspent_is_so_at_any_delta_that_is_asked_for(place: Path) -> None:
    path = written(place)
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 0.5"))
    for flags in ((), ("--delta", "1e-5"), ("--delta", "1e-7"), ("--delta", "1e-3")):
        outcome = run_pmixed(place, "account", str(path), *flags)
        assert outcome.code == 1 and "over the budget: epsilon" in outcome.err, flags


@pytest.mark.parametrize(
    ("solved", "shown"), [(173_024_182_123.0, "173024182123"), (1e18, "1000000000000000000"), (0.12345678, "0.12345678")]
)
def test_a_solution_is_shown_as_it_was_found(solved: float, shown: str) -> None:
    assert presented._value_text(solved) == shown
