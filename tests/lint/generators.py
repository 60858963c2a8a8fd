"""For every rule, files that break it and the same files with the least repair: other numbers, names, places and company."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import ceil
from typing import Any

from hypothesis import strategies as st

from tests.lint.toml_text import spelled

Draw = Callable[[st.SearchStrategy[Any]], Any]
Document = dict[str, Any]
Pair = tuple[str, str]

NAMES = st.from_regex(r"[a-z]{3,9}(-[a-z]{3,7})?", fullmatch=True)
NOISE = st.floats(0.3, 60.0)
STEPS = st.integers(101, 10**6)  # fewer may be epochs
RATES = st.floats(1e-6, 0.1)  # more may be a percentage
EPSILONS = st.floats(0.001, 1.0)
PURE = st.one_of(
    st.builds(lambda x: {"type": "pure-dp", "epsilon": x, "stated_for": "unit"}, EPSILONS),
    st.builds(lambda x: {"type": "exponential", "epsilon": x, "stated_for": "unit"}, EPSILONS),
    st.builds(lambda x, s: {"type": "discrete-laplace", "scale": x, "sensitivity": s}, NOISE, st.integers(1, 9)),
    st.just({"type": "post-processing"}),
)


def base(draw: Draw, adjacency: tuple[str, ...] = ("add-remove", "zero-out"), records: int = 1) -> Document:
    """A file without a fault: pure mechanisms of different descriptions, a small delta, everything stated."""
    size = draw(st.integers(1_000, 10**9))
    unit = {"unit": "example"} if records == 1 and draw(st.booleans()) else {"unit": draw(NAMES), "max_contributions": records}
    if unit["unit"] == "example":
        unit = {"unit": "example"}
    privacy = {"adjacency": draw(st.sampled_from(adjacency)), "dataset_size": size, "delta": draw(st.floats(1e-9, 0.09)) / size}
    around = draw(st.lists(PURE, max_size=2))
    mechanisms = [{"name": f"part-{'abc'[i]}", "description": f"part {i}", **entry} for i, entry in enumerate(around)]
    return {"format": 1, "privacy": {**unit, **privacy, "releases": "final-model"}, "mechanism": mechanisms}


def trained(draw: Draw, **keys: Any) -> Document:
    """A mechanism of Poisson-sampled Gaussian noise, some keys replaced."""
    sampling = {"scheme": "poisson", "rate": draw(RATES)}
    return {
        "name": draw(NAMES),
        "type": "gaussian",
        "noise_multiplier": draw(NOISE),
        "steps": draw(STEPS),
        "sampling": sampling,
        **keys,
    }


def stated(draw: Draw, **keys: Any) -> Document:
    """A mechanism whose guarantee is stated."""
    kind = draw(st.sampled_from(["pure-dp", "zcdp", "report-noisy-max", "permute-and-flip", "sparse-vector"]))
    cost = {"rho": draw(EPSILONS)} if kind == "zcdp" else {"epsilon": draw(EPSILONS)}
    return {"name": draw(NAMES), "type": kind, **cost, **({"answers": 3} if kind == "sparse-vector" else {}), **keys}


def joined(draw: Draw, document: Document, *entries: Document, **tables: Any) -> Document:
    """The document with more mechanisms somewhere among its own, and more tables."""
    copy = deepcopy(document)
    for entry in entries:
        copy["mechanism"].insert(draw(st.integers(0, len(copy["mechanism"]))), deepcopy(entry))
    return {**copy, **deepcopy(tables)}


def stating(document: Document, **privacy: Any) -> Document:
    """The document with other keys in [privacy]; None takes a key out."""
    stated = {**document["privacy"], **privacy}
    return {**document, "privacy": {key: value for key, value in stated.items() if value is not None}}


def cased(draw: Draw, key: str) -> str:
    """A key of a free section, in another spelling."""
    return draw(st.sampled_from([key, key, key.replace("_", "-"), key.upper()]))


def in_section(
    bad: st.SearchStrategy[Document],
    good: st.SearchStrategy[Document],
    sections: tuple[str, ...] = ("train", "pate", "pmixed", "prompt", "generate", "federated"),
) -> Callable[[Draw], tuple[Document, Document]]:
    """Settings in a section beside a Poisson-sampled mechanism under add-remove."""

    def pair(draw: Draw) -> tuple[Document, Document]:
        document = joined(draw, base(draw, ("add-remove",)), trained(draw))
        section = draw(st.sampled_from(sections))
        neutral = {"model": "package.module:build", "clipping_norm": draw(NOISE)}
        wrong = {cased(draw, key): value for key, value in draw(bad).items()}
        right = {cased(draw, key): value for key, value in draw(good).items()}
        return {**document, section: {**neutral, **wrong}}, {**document, section: {**neutral, **right}}

    return pair


def settings(keys: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    """One of these keys with one of these values."""
    return st.builds(lambda key, value: {key: value}, st.sampled_from(keys), values)


def words(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*values, *(value.replace("_", "-") for value in values), *(value.upper() for value in values)])


ON = st.one_of(st.just(True), st.integers(1, 9), st.just("yes"))
OFF = st.sampled_from([False, 0, "", "none", "off", "Never"])
RANDOM = st.randoms(use_true_random=False)


def dp001(draw: Draw) -> Pair:
    good = spelled(draw(RANDOM), joined(draw, base(draw), trained(draw)))
    broken = [good + '\nname = "half', good + "\n[train", "\ufeff" + good, good + "\0", good.replace("=", ":", 1), "[" * 40 + good]
    return draw(st.sampled_from(broken)), good


def dp002(draw: Draw) -> tuple[Document, Document]:
    good = joined(draw, base(draw), trained(draw))
    place = draw(st.sampled_from(["top", "privacy", "mechanism"]))
    key = draw(st.sampled_from(["epsilonn", "noise_multipler", "\u0435psilon", "unit_of_privacy", "batchsize"]))
    bad = deepcopy(good)
    {"top": bad, "privacy": bad["privacy"], "mechanism": bad["mechanism"][-1]}[place][key] = draw(st.one_of(NOISE, NAMES))
    return bad, good


def dp003(draw: Draw) -> tuple[Document, Document]:
    entry = trained(draw)
    wrong = {"noise_multiplier": str(entry["noise_multiplier"]), "steps": draw(st.sampled_from([2.5, True, "9"])), "name": 7}
    key = draw(st.sampled_from(list(wrong)))
    document = base(draw)
    return joined(draw, document, {**entry, key: wrong[key]}), joined(draw, document, entry)


def dp004(draw: Draw) -> tuple[Document, Document]:
    entry, document = trained(draw), base(draw)
    wrong = {
        "noise_multiplier": draw(st.sampled_from([0.0, -1.0, float("nan"), float("inf"), -1e-300])),
        "steps": draw(st.sampled_from([0, -3, 10**19])),
        "sampling": {"scheme": "poisson", "rate": draw(st.sampled_from([1.2, -0.1, float("nan")]))},
        "type": draw(st.sampled_from(["gausian", "dp-sgd"])),
    }
    key = draw(st.sampled_from(list(wrong)))
    return joined(draw, document, {**entry, key: wrong[key]}), joined(draw, document, entry)


def dp005(draw: Draw) -> tuple[Document, Document]:
    entry, document = trained(draw), base(draw)
    wrong = [{"epochs": 3.5}, {"sigma": 2.0, "sensitivity": 1.0}, {"sampling": {"scheme": "poisson"}}]
    return joined(draw, document, {**entry, **draw(st.sampled_from(wrong))}), joined(draw, document, entry)


def dp101(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw), trained(draw)
    if draw(st.booleans()):
        keys = st.sampled_from([{"shuffle": True}, {"sampler": "random"}, {"sampler": "cyclic"}, {"poisson_sampling": False}])
        good = st.sampled_from([{"shuffle": False}, {"sampler": "poisson"}, {"poisson_sampling": True}, {}])
        return joined(draw, document, entry, train=draw(keys)), joined(draw, document, entry, train=draw(good))
    rate, shuffled = entry["sampling"]["rate"], draw(st.sampled_from(["shuffle", "cyclic"]))
    other = {"scheme": draw(st.sampled_from(["poisson", "balls-in-bins"])), "rate": rate}
    bad = {**entry, "sampling": {"scheme": shuffled, "rate": rate}}
    return joined(draw, document, bad), joined(draw, document, {**entry, "sampling": other})


def dp102(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw), trained(draw)
    if draw(st.booleans()):
        sampler = draw(words("fixed_size", "without_replacement"))
        return joined(draw, document, entry, train={"sampler": sampler}), joined(
            draw, document, entry, train={"sampler": "poisson"}
        )
    bad = joined(draw, document, {**entry, "sampling": {**entry["sampling"], "scheme": "fixed-size"}})
    return bad, stating(bad, adjacency="replace-one")


def dp103(draw: Draw) -> tuple[Document, Document]:
    document = base(draw, ("add-remove", "zero-out", "replace-one"))
    own = document["privacy"]["adjacency"]
    if own == "add-remove" and draw(st.booleans()):
        answers = joined(draw, document, {"name": draw(NAMES), "type": "randomized-response", "epsilon": draw(EPSILONS)})
        return answers, stating(answers, adjacency=draw(st.sampled_from(["zero-out", "replace-one"])))
    other = draw(st.sampled_from([word for word in ("add-remove", "zero-out", "replace-one") if word != own]))
    entry = {"name": draw(NAMES), "type": "pure-dp", "epsilon": draw(EPSILONS), "steps": draw(STEPS)}
    good = draw(st.sampled_from([entry, {**entry, "adjacency": own}]))
    return joined(draw, document, {**entry, "adjacency": other}), joined(draw, document, good)


def dp104(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw, ("add-remove", "zero-out", "replace-one"), draw(st.integers(2, 500))), stated(draw)
    good = joined(draw, document, {**entry, "stated_for": draw(st.sampled_from(["record", "unit"]))})
    return joined(draw, document, entry), good


def dp105(draw: Draw) -> tuple[Document, Document]:
    document = joined(draw, base(draw), trained(draw))
    size, large = document["privacy"]["dataset_size"], draw(st.floats(0.1001, 50.0))
    if draw(st.booleans()):
        return stating(document, delta=large / size), document
    budget = {"epsilon": draw(NOISE) / 10, "delta": large / size}
    return {**document, "budget": budget}, {**document, "budget": {**budget, "delta": document["privacy"]["delta"]}}


def dp106(draw: Draw) -> tuple[Document, Document]:
    document = base(draw)
    words = draw(st.sampled_from(["Gaussian noise", "classical GAUSSIAN mechanism", "sum + gaussian"]))
    epsilon = draw(st.floats(1.0, 10.0, exclude_min=True))
    entry = {"name": draw(NAMES), "type": "approx-dp", "epsilon": epsilon, "delta": document["privacy"]["delta"] / 3}
    repairs = [{"epsilon": 1.0, "description": words}, {"description": f"analytic {words}"}, {"description": "staircase"}]
    bad = joined(draw, document, {**entry, "description": words})
    return bad, joined(draw, document, {**entry, **draw(st.sampled_from(repairs))})


def dp109(draw: Draw) -> tuple[Document, Document]:
    document = base(draw)
    delta = document["privacy"]["delta"]
    match draw(st.sampled_from(["zero", "spent", "tiny"])):
        case "zero":
            good = joined(draw, document, trained(draw))
            return stating(good, delta=0.0), good
        case "tiny":
            good = joined(draw, document, trained(draw))
            return stating(good, delta=draw(st.floats(1e-307, 9e-301))), good
    entry = {"name": draw(NAMES), "type": "approx-dp", "epsilon": draw(EPSILONS), "delta": delta / draw(st.integers(2, 40))}
    fitting = int(delta / entry["delta"])
    bad, good = {**entry, "steps": fitting + draw(st.integers(2, 99))}, {**entry, "steps": draw(st.integers(1, fitting - 1))}
    return joined(draw, document, bad), joined(draw, document, good)


def dp111(draw: Draw) -> tuple[Document, Document]:
    document = base(draw)
    if draw(st.booleans()):
        entry = stated(draw)
        bad, good = (
            draw(words("data-dependent RDP", "data_dependent bound")),
            draw(words("data-independent", "sanitised, data-dependent")),
        )
        return joined(draw, document, {**entry, "description": bad}), joined(draw, document, {**entry, "description": good})
    key, dependent = draw(st.sampled_from(["accounting", "analysis", "accountant"])), draw(words("data_dependent"))
    repairs = [{key: "data-independent"}, {key: dependent, "sanitise": {"order": 8.0, "beta": 0.01, "sigma": 20.0}}]
    bad, good = {cased(draw, key): dependent}, draw(st.sampled_from(repairs))
    return joined(draw, document, trained(draw), pate=bad), joined(draw, document, trained(draw), pate=good)


def dp112(draw: Draw) -> tuple[Document, Document]:
    good = joined(draw, base(draw), trained(draw))
    return stating(good, adaptive=True), draw(st.sampled_from([good, stating(good, adaptive=False)]))


def dp117(draw: Draw) -> tuple[Document, Document]:
    batch, spare = draw(st.integers(3, 5_000)), draw(st.integers(1, 1_000))
    size, epochs = batch * draw(st.integers(1_000, 9_999)) + spare % (batch - 1) + 1, 1
    document = stating(base(draw), dataset_size=size, delta=0.01 / size)
    entry = trained(draw, sampling={"scheme": "poisson", "batch_size": batch})
    del entry["steps"]
    bad = joined(draw, document, {**entry, "epochs": draw(st.sampled_from([epochs, float(epochs)]))})
    return bad, joined(draw, document, {**entry, "steps": ceil(size / batch)})


def dp122(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw), trained(draw)
    steps = entry.pop("steps")
    return joined(draw, document, entry), joined(draw, document, {**entry, "steps": draw(st.sampled_from([1, steps]))})


def dp119(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw), trained(draw)
    of = draw(st.sampled_from(["region", "country", "ward", "hospital site"]))
    declared = joined(draw, document, {**entry, "partition": {"of": of, "part": draw(NAMES)}})
    good = draw(st.sampled_from([declared, joined(draw, document, entry)]))
    drawn = draw(st.sampled_from(["age-quartile", "K-means", "income decile", "cluster"]))
    bad = [
        joined(draw, document, {**entry, "partition": of}),
        joined(draw, document, {**entry, "partition": {"of": drawn, "part": "1"}}),
        stating(declared, adjacency="replace-one"),
        stating(declared, unit="user", max_contributions=draw(st.integers(2, 99))),
    ]
    return draw(st.sampled_from(bad)), good


def dp120(draw: Draw) -> tuple[Document, Document]:
    """Two releases from one batch; the repairs: one composed entry has the sampling, or their steps are apart."""
    rate, steps, document = draw(RATES), draw(STEPS), base(draw, ("add-remove",))
    sampling = {"scheme": "poisson", "rate": rate}
    first, second = ({**trained(draw), "name": name, "steps": steps, "sampling": sampling} for name in ("gradients", "norms"))
    alone = [{key: value for key, value in entry.items() if key not in ("steps", "sampling")} for entry in (first, second)]
    whole = {"name": "step", "type": "composed", "mechanisms": ["gradients", "norms"], "steps": steps, "sampling": sampling}
    other = draw(st.sampled_from([{**second, "steps": steps + 1}, {**second, "sampling": {**sampling, "rate": 0.5 * rate}}]))
    good = draw(st.sampled_from([joined(draw, document, *alone, whole), joined(draw, document, first, other)]))
    return joined(draw, document, first, second), good


def dp121(draw: Draw) -> tuple[Document, Document]:
    moved, sigma = draw(st.integers(2, 9)), draw(st.floats(1.0, 60.0))
    document, entry = base(draw), {"name": draw(NAMES), "type": "discrete-gaussian", "sigma": sigma, "steps": draw(STEPS)}
    said = [{"sensitivity": moved, "dimension": 1}, {"l2_sensitivity": moved**0.5}, {"sensitivity": 1, "dimension": 1}]
    return joined(draw, document, {**entry, "sensitivity": moved}), joined(draw, document, {**entry, **draw(st.sampled_from(said))})


def dp123(draw: Draw) -> tuple[Document, Document]:
    steps, document = draw(st.integers(2, 30)), base(draw)
    rate = draw(st.floats(1e-6, 0.0999)) / steps
    entry = trained(
        draw, name="train", steps=steps, sampling={"scheme": draw(st.sampled_from(["poisson", "shuffle", "cyclic"])), "rate": rate}
    )
    other = [
        {"sampling": {**entry["sampling"], "rate": min(1.0, draw(st.floats(0.1001, 9.0)) / steps)}},
        {"steps": 1},
        {"steps": 31},
        {"name": draw(st.sampled_from(["warm-up", "fine-tuning", "rounds"]))},
        {"description": "a pilot"},
    ]
    return joined(draw, document, entry), joined(draw, document, {**entry, **draw(st.sampled_from(other))})


def dp307(draw: Draw) -> tuple[Document, Document]:
    """A rate that is a percentage, for which there is not the noise."""
    steps, rate, document = draw(STEPS), draw(st.floats(0.1001, 0.999)), base(draw)
    separation = rate * steps**0.5
    noise, sampling = separation / draw(st.floats(2.01, 5.0)), {"scheme": "poisson", "rate": rate}
    entry = trained(draw, noise_multiplier=noise, steps=steps, sampling=sampling)
    share, enough = {**sampling, "rate": rate / 100}, separation / draw(st.floats(0.1, 1.99))
    good = draw(st.sampled_from([{"noise_multiplier": enough}, {"steps": 100}, {"sampling": share}]))
    return joined(draw, document, entry), joined(draw, document, {**entry, **good})


def dp308(draw: Draw) -> tuple[Document, Document]:
    document, moved = base(draw), draw(st.floats(0.01, 100.0))
    little, enough = draw(st.floats(1e-6, 0.199)), draw(st.floats(0.201, 60.0))
    if draw(st.booleans()):
        entry = trained(draw)
        return joined(draw, document, {**entry, "noise_multiplier": little}), joined(
            draw, document, {**entry, "noise_multiplier": enough}
        )
    entry = {"name": draw(NAMES), "type": "gaussian", "sensitivity": moved, "steps": draw(STEPS)}
    return joined(draw, document, {**entry, "sigma": little * moved}), joined(draw, document, {**entry, "sigma": enough * moved})


def dp309(draw: Draw) -> tuple[Document, Document]:
    """More epochs than the noise hides; whole steps, so that nothing is rounded."""
    document, per_epoch = base(draw), draw(st.integers(10, 10_000))
    document = stating(document, dataset_size=100 * per_epoch, delta=1e-4 / per_epoch)
    epochs = draw(st.integers(max(1_001, 4 * per_epoch), 10**6))
    separation = (epochs / per_epoch) ** 0.5
    entry = trained(draw, noise_multiplier=separation / draw(st.floats(2.01, 10.0)))
    entry = {**entry, "sampling": {"scheme": "poisson", "batch_size": 100}}
    del entry["steps"]
    enough = separation / draw(st.floats(0.1, 1.99))
    good = [{"epochs": 1_000}, {"epochs": epochs, "noise_multiplier": enough}, {"steps": epochs}]
    return joined(draw, document, {**entry, "epochs": epochs}), joined(draw, document, {**entry, **draw(st.sampled_from(good))})


def dp124(draw: Draw) -> tuple[Document, Document]:
    kind, moved = draw(st.sampled_from([("laplace", st.floats(0.1, 50.0)), ("discrete-laplace", st.integers(1, 9))]))
    entry = {"name": draw(NAMES), "type": kind, "scale": draw(NOISE), "sensitivity": draw(moved), "steps": draw(STEPS)}
    document, words = base(draw), draw(st.sampled_from(["L2 sensitivity of {}", "{} clipped to l2 norm 3", "{}, Euclidean bound"]))
    if kind == "laplace" and draw(st.booleans()):
        root = draw(st.sampled_from([2, 3, 5, 6, 7, 8, 10])) ** 0.5
        bad = {
            **entry,
            "sensitivity": draw(st.sampled_from([root, round(root, 5), round(root + 5e-5, 4)])),
            "description": "vectors",
        }
        good = draw(st.sampled_from([{"sensitivity": 2}, {"description": "fees"}, {"description": "vectors of square roots"}]))
        return joined(draw, document, bad), joined(draw, document, {**bad, **good})
    entry = {**entry, "sensitivity": 2, "description": words.format(draw(NAMES))}
    good = draw(st.sampled_from([entry["description"] + ", which is 4 in L1", "sums"]))
    return joined(draw, document, entry), joined(draw, document, {**entry, "description": good})


def dp125(draw: Draw) -> tuple[Document, Document]:
    words = draw(st.sampled_from(["histogram of ages", "Histograms, 7 bins", "a contingency table"]))
    noise, key, two = draw(
        st.sampled_from(
            [
                ({"type": "laplace", "scale": 20.0}, "sensitivity", 2.0),
                ({"type": "discrete-laplace", "scale": 20.0}, "sensitivity", 2),
                ({"type": "gaussian", "sigma": 20.0}, "sensitivity", 1.41422),
                ({"type": "discrete-gaussian", "sigma": 20.0}, "l2_sensitivity", 1.41422),
            ]
        )
    )
    document = base(draw, ("replace-one",))
    entry = {"name": draw(NAMES), **noise, key: 1, "description": words}
    bad = joined(draw, document, entry)
    good = [
        joined(draw, document, {**entry, key: two}),
        joined(
            draw, document, {**entry, "description": draw(st.sampled_from(["a count", "no histogram", "total of a histogram"]))}
        ),
        stating(bad, adjacency="add-remove"),
    ]
    return bad, draw(st.sampled_from(good))


def dp126(draw: Draw) -> tuple[Document, Document]:
    document = joined(draw, base(draw), trained(draw))
    bad = ["{} runs, not counted", "{} trials that were not accounted for", "none of the {} runs is counted"]
    good = [
        "{} runs, counted in steps",
        "{} runs on public data, not counted",
        "not counted here, but charged to the ledger: {} runs",
        "{} runs are not counted twice",
    ]
    runs = draw(st.integers(2, 500))
    wrong, right = (draw(st.sampled_from(texts)).format(runs) for texts in (bad, good))
    return {**document, "disclosure": {"tuning": wrong}}, {**document, "disclosure": {"tuning": right}}


def dp310(draw: Draw) -> tuple[Document, Document]:
    document = joined(draw, base(draw), trained(draw))
    bad = [
        "Patients (exact size confidential)",
        "The number of customers is secret.",
        "Clicks; the count of users is not public, 2025",
    ]
    good = [
        "Patients, whose number is not confidential",
        "60,000 confidential records",
        "The number of patients is confidential, and 60,000 a rounded one",
        "phone number and address are confidential",
        "The number of visits of each patient is confidential.",
        "Clicks of 2025",
    ]
    wrong = {**document, "disclosure": {"data": draw(st.sampled_from(bad))}}
    right = {**document, "disclosure": {"data": draw(st.sampled_from(good))}}
    return wrong, draw(st.sampled_from([right, stating(wrong, dataset_size=None)]))


def dp201(draw: Draw) -> tuple[Document, Document]:
    kind, key = draw(st.sampled_from([("laplace", "scale"), ("gaussian", "sigma")]))
    entry = {"name": draw(NAMES), "type": kind, key: draw(NOISE), "sensitivity": draw(st.integers(1, 9)), "steps": draw(STEPS)}
    document = stating(base(draw), releases="outputs")
    bad = joined(draw, document, entry)
    kept = stating(bad, releases=draw(st.sampled_from(["final-model", "all-checkpoints"])))
    return bad, draw(st.sampled_from([joined(draw, document, {**entry, "type": f"discrete-{kind}", "sensitivity": 1}), kept]))


def dp206(draw: Draw) -> tuple[Document, Document]:
    entry, document = trained(draw), base(draw)
    other = draw(NOISE.filter(lambda x: x != entry["noise_multiplier"]))
    key, section = cased(draw, draw(st.sampled_from(["noise_multiplier", "sigma"]))), "train"
    good = draw(st.sampled_from([{key: entry["noise_multiplier"]}, {}]))
    return joined(draw, document, entry, **{section: {key: other}}), joined(draw, document, entry, **{section: good})


def dp213(draw: Draw) -> tuple[Document, Document]:
    entry = draw(PURE.filter(lambda entry: entry["type"] != "post-processing"))
    document, name = stating(base(draw), releases="outputs"), draw(NAMES)
    again = [
        f"{name}{draw(st.sampled_from(['-', '_', ' ', '.']))}{suffix}" for suffix in ("retry", "again", "copy", "2", "(3)", "RERUN")
    ]
    first = {**entry, "name": name}
    described = {**entry, "name": name, "description": "sign-ups"}, {**entry, "name": f"another {name}", "description": "sign-ups"}
    bad = draw(st.sampled_from([(first, {**first, "name": draw(st.sampled_from(again))}), described]))
    other = [(first, {**first, "name": f"{name}s"}), (described[0], {**described[1], "description": "log-ins"}), (first,)]
    return joined(draw, document, *bad), joined(draw, document, *draw(st.sampled_from(other)))


def dp301(draw: Draw) -> tuple[Document, Document]:
    good = joined(draw, base(draw), trained(draw))
    return stating(good, **draw(st.sampled_from([{"releases": None}, {"unit": None, "max_contributions": None}]))), good


def dp304(draw: Draw) -> tuple[Document, Document]:
    document = base(draw)
    large, small = draw(st.floats(10.0, 1e6, exclude_min=True)), draw(st.sampled_from([10.0, 10, 0.5]))
    if draw(st.booleans()):
        return joined(draw, document, trained(draw), budget={"epsilon": large}), joined(
            draw, document, trained(draw), budget={"epsilon": small}
        )
    entry = {"name": draw(NAMES), "type": draw(st.sampled_from(["pure-dp", "exponential", "permute-and-flip"]))}
    return joined(draw, document, {**entry, "epsilon": large}), joined(draw, document, {**entry, "epsilon": small})


def dp305(draw: Draw) -> tuple[Document, Document]:
    document, entry = base(draw), trained(draw)
    never = {**entry, "sampling": {"scheme": "poisson", "rate": draw(st.sampled_from([0.0, 0, -0.0]))}}
    return joined(draw, document, never), joined(draw, document, entry)


def dp306(draw: Draw) -> tuple[Document, Document]:
    good = joined(draw, base(draw), trained(draw))
    return stating(good, dataset_size=None), draw(st.sampled_from([good, stating(joined(draw, base(draw)), delta=0.0)]))


def dp208(draw: Draw) -> tuple[Document, Document]:
    keys = ["drop_last", "dataloader_drop_last", "skip_empty_batches", "min_batch_size"]
    wrong = st.one_of(settings(keys, ON), settings(["on_empty_batch"], words("skip")))
    bad, good = in_section(wrong, st.one_of(settings(keys, OFF), settings(["on_empty_batch"], words("noise"))))(draw)
    if draw(st.booleans()):
        good = deepcopy(bad)
        for entry in good["mechanism"]:
            entry.pop("sampling", None)
    return bad, good


def dp110(draw: Draw) -> tuple[Document, Document]:
    keys = ["sweep", "grid", "tuning", "search", "grid_search", "param_grid", "optuna"]
    bad, good = in_section(settings(keys, st.sampled_from([True, {"lr": [0.1, 0.3]}, [1, 2]])), settings(keys, OFF))(draw)
    section = next(name for name in ("train", "pate", "pmixed", "prompt", "generate", "federated") if name in bad)
    noted = {**bad, section: {**bad[section], "covers": {"tuning": "all runs are counted"}}}
    trial = next(entry["name"] for entry in bad["mechanism"] if entry["type"] == "gaussian")
    selection = {
        "name": "chosen",
        "type": "repeat-and-select",
        "description": "kept by accuracy on public data",
        "mechanism": trial,
        "trials": {"distribution": "geometric", "mean": 5},
    }
    return bad, draw(st.sampled_from([good, noted, joined(draw, bad, selection)]))


def dp115(draw: Draw) -> tuple[Document, Document]:
    keys = ["normalise", "normalise_by", "normalizer", "divide_by"]
    wrong = st.one_of(
        settings(keys, words("n", "dataset", "actual_batch_size")), settings([*keys, "rate"], st.just("1/len(loader)"))
    )
    bad, good = in_section(wrong, settings(keys, st.one_of(words("expected_batch_size"), st.integers(1, 999))))(draw)
    return bad, draw(st.sampled_from([good, stating(bad, adjacency="zero-out")]))


CHOSEN = st.one_of(
    settings(["early_stopping", "load_best_model_at_end"], st.sampled_from([True, {"patience": 3}])),
    settings(["callbacks"], st.sampled_from([["EarlyStopping", "Checkpoint"], ["ReduceLROnPlateau"]])),
    settings(["norm", "layers"], st.sampled_from(["batch", "BatchNorm2d", "SyncBatchNorm", ["Linear", "batch_norm"]])),
    settings(["batch_norm", "BatchNorm"], ON),
    settings(["validation"], words("private", "train")),
    settings(["clipping", "clip_norm", "max_grad_norm"], words("adaptive", "median")),
    settings(["learning_rate", "lr"], words("auto", "find")),
    settings(["scheduler"], words("plateau", "reduce_on_plateau")),
    settings(["log_loss", "log_gradient_norms"], ON),
)
FIXED = st.one_of(
    st.just({"early_stopping": True, "validation": "public"}),
    st.just({"early_stopping": {"patience": 3}, "covers": {"validation": "noisy count, mechanism stop"}}),
    settings(["norm"], words("group", "layer", "GroupNorm")),
    settings(["batch_norm", "early_stopping", "log_loss"], OFF),
    settings(["clip_norm", "lr"], NOISE),
    settings(["scheduler"], words("cosine", "warmup")),
    st.just({"clipping": "adaptive", "covers": {"clipping": "quantile"}}),
)
SHOWN = ["debug", "log_examples", "log_gradients"]
DOMAIN = ["vocabulary", "tokenizer", "bins", "bin_edges", "classes", "scaler"]

SECTIONS = {
    "DP107": in_section(
        settings(["accountant", "accounting", "analysis"], words("gdp", "clt", "central_limit_theorem")),
        settings(["accountant", "accounting"], words("pld", "rdp", "exact", "moments")),
        ("train", "pate", "pmixed", "prompt", "generate", "audit"),
    ),
    "DP113": in_section(
        settings(["resume", "resume_from", "resume_from_checkpoint"], st.sampled_from([True, "runs/7/last.pt"])),
        st.sampled_from([{"resume": True, "run_id": "7"}, {"resume_from": "a.pt", "ledger": "spent.db"}, {"resume": False}, {}]),
    ),
    "DP116": in_section(
        st.one_of(
            settings(["clip_per", "clip_by"], words("microbatch", "batch", "per_device")),
            settings(["num_microbatches"], st.integers(1, 64)),
        ),
        st.sampled_from([{"clip_per": "example"}, {"num_microbatches": 8, "clip_per": "example"}, {"microbatch_size": 8}]),
    ),
    "DP204": in_section(
        settings(["seed", "noise_seed", "insecure_seed", "manual_seed"], st.one_of(st.integers(0, 2**64 - 1), st.just("0xbeef"))),
        st.one_of(
            settings(["init_seed", "partition_seed"], st.integers(0, 99)), settings(["seed"], st.sampled_from([False, "none"]))
        ),
    ),
    "DP209": in_section(CHOSEN, FIXED),
    "DP210": in_section(
        settings(DOMAIN, words("from_data", "private", "fit", "auto")),
        st.one_of(settings(DOMAIN, words("gpt2", "public", "declared")), settings(DOMAIN, st.just([0, 10, 20]))),
    ),
    "DP211": in_section(settings(SHOWN, ON), settings(SHOWN, OFF)),
}

DOCUMENTS: dict[str, Callable[[Draw], tuple[Document, Document]]] = {
    **{function.__name__.upper(): function for function in (dp002, dp003, dp004, dp005, dp101, dp102, dp103, dp104, dp105, dp106)},
    **{function.__name__.upper(): function for function in (dp109, dp110, dp111, dp112, dp115, dp117, dp119, dp201, dp206, dp208)},
    **{function.__name__.upper(): function for function in (dp123, dp124, dp125, dp126, dp307, dp308, dp309, dp310)},
    **{function.__name__.upper(): function for function in (dp120, dp121, dp122, dp213, dp301, dp304, dp305, dp306)},
    **SECTIONS,
}


def drawn(draw: Draw, code: str) -> Pair:
    """The texts of a file that breaks the rule, and of its repair."""
    if code == "DP001":
        return dp001(draw)
    bad, good = DOCUMENTS[code](draw)
    random = draw(RANDOM)
    return spelled(random, bad), spelled(random, good)


CODES = sorted({"DP001", *DOCUMENTS})
