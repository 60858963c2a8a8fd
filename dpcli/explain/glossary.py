"""The words of differential privacy as dpcli uses them, and the symbols of papers."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "private-prediction": (
        "Answers of models that saw private data are released, each with noise, and never the models: PATE for labels, PMixED "
        "for the next word. The cost grows with every answer, so that their number is fixed beforehand."
    ),
    "secure-aggregation": (
        "Clients send masked updates from which the server learns their sum alone. Noise that each adds a share of is in that sum; what "
        "drops out with a client, or is known to one that works with the server, hides nothing. The server knows who takes part, so that "
        "sampling amplifies nothing against it. See explain federated."
    ),
    "local-dp": (
        "Each person's data get their noise before they leave the device, and nobody is trusted: every message is private by itself. What "
        "a server does afterwards, such as drawing who is asked, adds no privacy against it. See explain federated."
    ),
    "pate": (
        "Private aggregation of teacher ensembles: models trained without noise on disjoint shards vote on public, unlabelled "
        "queries; the noisy winner alone is released, and a student learns from it (Papernot et al., arXiv:1610.05755, "
        "arXiv:1802.08908). One unit moves one vote."
    ),
    "pmixed": (
        "Private next-token prediction: models fine-tuned on disjoint shards are each brought near to a public one, a random "
        "few of them are averaged, and a token is drawn (Flemings, Razaviyayn and Annavaram, arXiv:2403.15638). Its published "
        "bound assumes more than it proves; dpcli's mode \"sound\" bounds every token's probability instead."
    ),
    "shard": (
        "One of several disjoint parts of the private data, with a model of its own. All records of a unit are in one shard, "
        "chosen by that unit alone, so that one change of the data retrains one model."
    ),
    "data-dependent": (
        "A bound computed from the private data themselves, such as that of PATE where the teachers agree. It is often far "
        "smaller, and it is itself private: publish it only after smooth sensitivity or not at all. dpcli never gates or "
        "charges by it."
    ),
    "smooth-sensitivity": (
        "A bound on how much a value may change between neighbours near the data at hand, which changes slowly itself, so that "
        "noise in proportion to it is private (Nissim, Raskhodnikova and Smith 2007)."
    ),
    "query-budget": (
        "How many answers a fitted system may give. Their privacy is paid for beforehand; each is counted durably before it is "
        "drawn, and the next one after the last is refused."
    ),
    "exposure": (
        "How likely a model finds a planted secret among all that it might have been: log2 of their number minus log2 of its "
        "rank (Carlini et al., arXiv:1802.08232). A word that is like any other has 1.4 bits on average; the most there is "
        "means that the secret comes first."
    ),
    "plrv": (
        "Privacy-loss random variable: ln(P(output) / Q(output)), where the output is drawn from P, the "
        "mechanism on one of two neighbouring "
        "datasets, and Q is the mechanism on the other. Independent losses add up under composition (Dwork and Rothblum, arXiv:1603.01887)."
    ),
    "ptr": (
        "Propose-test-release: propose a bound on the local sensitivity, test with noise how many units would have to change before it "
        "no longer held, and release with noise for that bound only where that number is large (Dwork and Lei 2009). The answer may be "
        "none. The guarantee has a delta: the probability that the noise lets data pass that are at the edge."
    ),
    "neyman-pearson": (
        "Among all tests with a given false-positive rate, the one that thresholds the likelihood ratio has "
        "the highest true-positive rate. "
        "So a bound on that one test bounds every attack (Neyman and Pearson 1933)."
    ),
    "likelihood-ratio": (
        "How much likelier an output is under one of two neighbouring datasets than under the other. Its "
        "logarithm is the privacy loss; with "
        "delta = 0 it is at most e^epsilon for every output."
    ),
    "hypothesis-test": (
        "The attacker's task: decide from the output which of two neighbouring datasets was used. (epsilon, delta)-DP limits its two error "
        "rates (Wasserman and Zhou, arXiv:0811.2501; Kairouz, Oh and Viswanath, arXiv:1311.0776)."
    ),
    "trade-off": (
        "The smallest false-negative rate at every false-positive rate, over all tests that tell two neighbouring datasets apart "
        "(f-DP: Dong, Roth and Su, arXiv:1905.02383). `dpcli plot trade-off FILE` draws it."
    ),
    "advantage": (
        "The true-positive rate minus the false-positive rate of an attack, at its best threshold: 0 for blind guessing, 1 for certainty. "
        "(epsilon, delta)-DP limits it to (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) (Kairouz, Oh and Viswanath, arXiv:1311.0776)."
    ),
    "amplification": (
        "A mechanism on a secret random sample costs less than on all the data, because a record is mostly absent. It holds only for "
        "samples drawn as stated (Balle, Barthe and Gaboardi, arXiv:1807.01647). dpcli claims none for shuffled or cyclic batches."
    ),
    "subsampling": (
        "Running a mechanism on a random sample of the records: poisson (each record by its own coin), fixed-size, balls-in-bins. See "
        "`dpcli explain amplification`."
    ),
    "mgf": (
        "Moment-generating function of the privacy loss L: E e^(tL). Its logarithm at t = a - 1 is (a - 1) times the Renyi divergence of "
        "order a, and logarithms add up under composition (Abadi et al., arXiv:1607.00133; Mironov, arXiv:1702.07476)."
    ),
    "swap": (
        "Replace-one adjacency: one unit's data is exchanged for another's, and the number of units stays. See `dpcli explain adjacency`."
    ),
    "classical-gaussian": (
        "The textbook noise of a Gaussian release, sigma = sqrt(2 ln(1.25/delta)) sensitivity / epsilon, proved for epsilon < 1 "
        "only (Dwork and Roth 2014, Theorem 3.22). dpcli never uses it. `dpcli explain sigma` has it beside the exact one, in "
        "numbers."
    ),
    "posterior": (
        "What an observer believes after seeing the output: the odds before it times the likelihood ratio. Under pure epsilon, a prior of "
        "1/2 that a unit is in the data ends between 1/(1 + e^epsilon) and e^epsilon/(1 + e^epsilon). `dpcli explain --demo` shows it."
    ),
    "contribution-bounding": (
        "Dropping rows until every unit has at most so many: max_groups groups that it may touch, max_rows in each. A sum moves by what "
        "one unit contributes, so without such a bound no noise is enough. Which rows are kept must depend on that unit's own rows alone; "
        "what is dropped biases the answer, and the noise does not cover that."
    ),
    "clamping": (
        "Moving each value into a declared range [low, high] before it is added, so that the sensitivity is known. The range must not come "
        "from the data. It biases the answer where values lie outside; clamping the sum afterwards bounds nothing. For gradients: clipping."
    ),
    "stability-histogram": (
        "Counts by a key whose possible values nobody lists: each count of at least 1 gets noise, and a key is released only "
        "where the noisy count passes a threshold. The counts cost epsilon. The threshold is set so that a key which one unit "
        "alone holds is released with probability at most delta (over all keys of that unit), which is what the keys cost "
        "(Korolova and others 2009; Bun, Nissim and Stemmer, arXiv:1511.08552). A declared list of keys needs none."
    ),
    "noisy-max": (
        "Add noise to the score of every candidate and release the name of the largest alone, never its score. It costs one "
        "epsilon however many candidates there are (Dwork and Roth 2014, section 3.3; with Gumbel noise it is the exponential "
        "mechanism). In a file: type report-noisy-max."
    ),
    "above-threshold": (
        "The sparse-vector technique: questions of sensitivity 1 are asked in turn, each is compared with a noisy threshold, and only "
        "those that pass, at most `answers` of them, are paid for (Dwork and Roth 2014, section 3.6). Several published variants are not "
        "private (Lyu, Su and Li, arXiv:1603.01699). In a file: type sparse-vector."
    ),
    "local-sensitivity": (
        "How far one change of the data at hand can move the query. It is often far below sensitivity, the most over all data, "
        "but noise in proportion to it is not private, as it depends on the data: see smooth-sensitivity and ptr."
    ),
    "sensitivity-of-a-count": (
        "How many units satisfy a condition: moves by 1 under every adjacency; by max_rows where rows are counted and a unit has "
        "that many. Counts by group form one vector. Where a unit is in one group it moves by 1 under add-remove; under "
        "replace-one by 2 in L1 and sqrt(2) in L2, as one group loses a unit and another gains it."
    ),
    "sensitivity-of-a-sum": (
        "Of values clamped to [low, high], one per unit: max(|low|, |high|) under add-remove and zero-out, high - low under "
        "replace-one. The two are equal where low is 0; for [-100, 100] they are 100 and 200. The number of units makes no "
        "difference and need not be known."
    ),
    "sensitivity-of-a-mean": (
        "Of n values clamped to [low, high], with n public: (high - low)/n under replace-one. The average salary of 1,000 employees in "
        "[0, 200000]: 200000/1000 = 200 (examples/average-salary.toml). Under add-remove n itself changes: the sum divided by a declared "
        "constant moves by max(|low|, |high|) over that constant, but the mean itself moves by up to (high - low)/2 where one unit becomes "
        "two, and the noise has to cover that case as well. Where n is private, release a noisy sum and a noisy count, of sensitivity "
        "max(|low|, |high|) and 1, and divide: 200000 and 1 here."
    ),
    "adjacency": (
        "Which datasets count as neighbours, that is, what one change is. add-remove: one unit more or less. "
        "replace-one: one unit's data "
        "swapped for another's; the number of units is public. zero-out: one unit's data blanked; its place stays. A replacement is a "
        "removal and an addition, so replace-one costs more for the same noise: never compare epsilons across adjacencies."
    ),
    "delta": (
        "By how much an event's probability may exceed e^epsilon times its probability on the neighbouring data. It is not the probability "
        "of a loss above epsilon, which can be larger. Report it well below 1 over the number of units: at delta = 1/n a "
        "mechanism may publish a random record outright and still comply."
    ),
    "epsilon": (
        "The guarantee: with delta = 0, an observer's odds that a given unit is in the data move by a factor of at most e^epsilon, "
        "whatever is released; with delta > 0 they may move further, rarely (`dpcli explain FILE` says how far, how often). At epsilon 1 "
        "odds move by at most 2.7, at 3 by 20, at 10 by 22,026. dpcli prints upper bounds, rounded up."
    ),
    "unit": (
        "What one individual is: an example, a user, a household. A guarantee per example says nothing per user who owns several; "
        "max_contributions bounds how many, and the cost of all of them together is what is then reported."
    ),
    "sigma": (
        "The standard deviation of Gaussian noise. In a file, sigma with sensitivity states it in the query's own units, and "
        "noise_multiplier states it over C, the bound on one record's contribution. Papers on DP-SGD mostly mean noise_multiplier. For how "
        "much of it an epsilon takes see classical-gaussian."
    ),
    "clipping": (
        "Each record's gradient is scaled down to length C at most, so that one record moves the sum by at most C. C itself changes the "
        "noise and the sensitivity alike: epsilon depends on their ratio alone, noise_multiplier."
    ),
    "budget": (
        "The most that may be spent. [budget] is the cap of one file, epsilon at delta, and dpcli gate stops a file that is over it; a "
        "ledger (dpcli budget) has the cap of a dataset, which all of its runs share."
    ),
    "restatement": (
        "A mechanism that was priced by its noise and now states its own cost (pure-dp, zcdp, post-processing, ...). dpcli gate fails it "
        "against a base, because no accountant can tell whether the stated cost is true; a waiver lets it pass."
    ),
    "base": (
        "What dpcli gate compares a file with: the same file at a git revision (--base-ref), or in the json of an earlier gate "
        "(--baseline)."
    ),
    "noise_multiplier": (
        "Noise standard deviation (Gaussian) or scale (Laplace) over C, the bound on ONE RECORD'S contribution. The "
        "adjacency decides the "
        "sensitivity: C under add-remove and zero-out, 2C under replace-one."
    ),
    "sensitivity": (
        "How far one change, under the file's adjacency and for its unit, can move the query: L1 for laplace and discrete-laplace, "
        "L2 for gaussian, and for discrete-gaussian how far one integer moves (a vector of integers states l2_sensitivity). Taken as "
        "stated; dpcli never doubles it. For values in [0, B]: a count moves by 1; a sum by B, under replace-one as well; a mean over "
        "a public number n of records by B/n under replace-one. Where n is not public, release a noisy sum and a noisy count instead "
        "of a mean. More: sensitivity-of-a-count, sensitivity-of-a-sum, sensitivity-of-a-mean."
    ),
    "sampling_rate": (
        "The probability that a given record is in the sample of one step. Amplification by sampling holds for how the records were "
        "really drawn: shuffled batches are not Poisson samples. Every entry draws a sample of its own, unless several state the "
        "same `sample`: what is released from one and the same batch is priced as one mechanism."
    ),
    "sample": (
        'sample = "NAME" on several sampled entries: each of their steps reads one batch, the same for all of them (the gradients of a '
        "step and the share of clipped records, say). A record is in all of their releases or in none, so they add up inside the "
        "sample, before its amplification: they are priced as one mechanism on one sample, which costs more than a sample each. They "
        "must state the same sampling, steps or epochs, and partition. An entry without the key draws a sample of its own; "
        'sample = "own" says so, where lint (DP120) would ask. A composed entry says the same of entries without sampling.'
    ),
    "max_contributions": (
        "The most records that one unit contributes. Noise stated per contribution (noise_multiplier) is charged for all of them; a "
        "sensitivity, and an "
        'epsilon with stated_for = "unit", is taken to cover the whole unit already. With partition = "name" these bound what happens '
        "in one part only, and are charged max_contributions times: a unit's records may lie in as many parts."
    ),
    "stated_for": (
        "Whom a stated epsilon covers: a record (the group theorem is applied for the unit's records) or the unit. "
        "Required where a unit may "
        "own several records: dpcli does not guess."
    ),
    "partition": (
        'Parallel composition. partition = "region": runs once on each disjoint part, at one cost where a unit is one record. Where it may '
        "own max_contributions records, they may lie in as many parts: a stated sensitivity or guarantee is then charged that many "
        "times; noise_multiplier once, for all of them in one part. partition = { of, part }: one of several entries on different parts, "
        "of which the dearest is charged. Parts must be disjoint and assigned record by record."
    ),
    "adaptive": (
        "Whether later parameters depend on earlier outputs. Where they do (adaptive = true), composition theorems for fixed "
        "parameters do not hold; dpcli uses only sums that are valid privacy filters: basic, zcdp, analytic."
    ),
    "releases": "What leaves the private side: the final model, every checkpoint, or outputs. Part of the statement, not of the number.",
    "waiver": (
        "An exception to a rule with an end: [[gate.waiver]] names the rule, a reason, who approved it and when it expires. "
        "Errors that make the number itself untrue cannot be waived; `dpcli explain DP102` says of each rule whether it may "
        "be. A waived finding stays in the report."
    ),
    "user": (
        "The unit of privacy where one person owns several records: every record of a user changes together. State unit and "
        "max_contributions; a guarantee per record grows with the number of records to one per user, and dpcli never "
        "guesses which is meant."
    ),
    "group": (
        "Several units that change together, such as a household: k of them multiply a pure epsilon by k and a Gaussian mu by k, and delta "
        "grows faster still. --group-size K prices a group; max_contributions is the same arithmetic within one unit."
    ),
    "ledger": (
        "What a dataset has spent: the mechanisms of every run in a hash chain, in one SQLite file or in PostgreSQL (dpcli budget). A run "
        "is charged before its noise is drawn, and a privacy filter that was fixed when the ledger was opened says whether it still fits."
    ),
    "filter": (
        "What may be added up where a later run is chosen after looking at an earlier one's output. The ledger's filters are approx-dp "
        "(sums of epsilon and delta), advanced (squares of epsilon), zcdp (rho), rdp (Renyi divergence at ONE order, fixed beforehand) and "
        "gdp (mu squared of Gaussian noise). Two share a name with an accountant and are something else: the accountant rdp takes the "
        "best order afterwards, and the accountant gdp is a limit theorem; neither is a filter."
    ),
    "anchor": (
        "The number and hash of a ledger's last entry, kept where the ledger is not: dpcli budget anchor writes it, verify --anchor and "
        "spend --anchor refuse a ledger that no longer contains it, which is how a restored backup is found."
    ),
    "reservation": (
        "A long run that is charged before it starts: reserve, start (noise is about to be drawn: from here on nothing gives it back), "
        "commit. void gives back a reservation that was not started, with a reason; its key cannot be used again. One that expires "
        "stays charged."
    ),
    "fingerprint": (
        "A hash of the data, computed by whoever opens a ledger: dpcli refuses a second dataset with the same one in the same ledger. "
        "dpcli never sees the data."
    ),
    "policy": (
        "A file of caps, requirements and waivers for many pipelines, which a pull request need not be able to touch: "
        "dpcli gate --policy FILE or REVISION:PATH. Its keys are in dpcli-policy(5)."
    ),
    "horizon": (
        "A schedule fixed in advance: [gate.horizon] says how often the whole pipeline runs on the same data and what all runs together "
        "may spend. Runs decided on after looking at earlier results are no schedule and belong in a ledger."
    ),
    "group_size": "How many units change together: --group-size 2 prices a couple who both opt out.",
    "slack": "delta', the part of delta that advanced and optimal composition spend on the composition itself.",
    "dp-sgd": (
        "Stochastic gradient descent that clips each record's gradient, sums them over a random sample, adds Gaussian noise and "
        "steps (Abadi and others, 2016, arXiv:1607.00133). In a file it is an entry of type gaussian with Poisson sampling."
    ),
    "accountant": (
        "A theorem that says what many mechanisms cost together. dpcli asks each that applies, and the smallest sound bound is the "
        "headline; dpcli account prints them all."
    ),
    "pipeline": (
        "Everything that touches the private data for one release: a TOML file of what is protected and of each mechanism, its "
        "sampling and its steps. `dpcli init` writes one to start from."
    ),
    "membership": (
        "Whether one person's data were used. The guarantee bounds how well anybody can tell from the release: see advantage and "
        "trade-off, and dpcli explain FILE for a pipeline's own numbers."
    ),
    "mu": "Sensitivity over noise of a Gaussian; compositions add up mu squared. Also the parameter of Gaussian DP.",
    "headline": (
        "The first line of an answer: the smallest epsilon that a sound accountant certifies, rounded up, with the delta, unit, "
        "adjacency and sampling that it depends on. An approximation (marked ~) is never the headline."
    ),
    "theorem": (
        "The last column of the table of accountants: the result that the row's bound is proved by. `dpcli -v account FILE` cites the "
        "paper of each; `dpcli explain NAME` says what an accountant consumes."
    ),
    "schedule": (
        "The noise of each step where it changes over a run: one [[mechanism]] with a list of noise_multiplier and of steps, which "
        "`dpcli import schedule` makes of a csv. It must be fixed before the run. In [train], schedule is how the learning rate falls to "
        "zero, which costs no privacy."
    ),
    "tilt": (
        "A detail of the accountant exact: the weight e^(t L) by which the privacy loss L is multiplied before its tail is integrated, so "
        "that the rare large losses which delta is about are computed exactly. The t is shown, to repeat the "
        "computation."
    ),
    "spacing": (
        "A detail of the accountant pld: the distance of neighbouring points of the grid on which the privacy loss is rounded, up for the "
        "upper bound and down for the lower one. A smaller spacing makes the interval narrower; --tolerance asks for one."
    ),
    "share": (
        "The part of the total that one mechanism causes, as the accountant of the headline adds it up. Of a ledger: the part of its "
        "cap that a run takes."
    ),
    "prv": "Another name for pld: privacy random variables, the distribution of the privacy loss composed on a grid.",
    "rho": "The parameter of zero-concentrated DP: the Renyi divergence of every order a is at most rho times a. Rhos add up.",
    "order": "The order a > 1 of a Renyi divergence. dpcli searches all real orders, not a grid, and shows the best one.",
    "privacy_loss": (
        "L = log P(x)/Q(x) at x drawn from P, P and Q being the output with and without the record. Its cumulant generating function "
        "K(z) = log E exp(zL) is the one thing dpcli knows of a mechanism; every accountant is a view of it."
    ),
}

# Symbols and words of papers, and the words that dpcli uses for them; a capital letter may mean something else than a small one.
SYMBOLS: dict[str, str] = {
    "renyi": "rdp",
    "rényi": "rdp",
    "neighbouring": "adjacency",
    "neighboring": "adjacency",
    "neighbours": "adjacency",
    "dpsgd": "dp-sgd",
    "membership inference": "membership",
    "σ": "sigma",
    "ε": "epsilon",
    "ϵ": "epsilon",
    "eps": "epsilon",
    "dp": "epsilon",
    "differential privacy": "epsilon",
    "δ": "delta",
    "μ": "mu",
    "µ": "mu",
    "ρ": "rho",
    "α": "order",
    "alpha": "order",
    "q": "sampling_rate",
    "p": "sampling_rate",
    "batch": "batch_size",
    "lot": "batch_size",
    "B": "batch_size",
    "b": "scale",
    "z": "noise_multiplier",
    "noise": "noise_multiplier",
    "C": "clipping",
    "clip": "clipping",
    "clipping norm": "clipping",
    "Δ": "sensitivity",
    "n": "dataset_size",
    "N": "dataset_size",
    "T": "steps",
    "k": "steps",
    "cap": "budget",
    "privacy random variable": "prv",
    "moments-accountant": "moments",
    "moments accountant": "moments",
    "baseline": "base",
    "propose test release": "ptr",
    "privacy loss random variable": "plrv",
    "privacy-loss-random-variable": "plrv",
    "likelihood-ratio-test": "neyman-pearson",
    "likelihood ratio test": "neyman-pearson",
    "tradeoff": "trade-off",
    "trade-off curve": "trade-off",
    "trade-off function": "trade-off",
    "roc": "trade-off",
    "privacy amplification": "amplification",
    "amplification by subsampling": "amplification",
    "moment generating function": "mgf",
    "moment-generating function": "mgf",
    "substitution": "swap",
    "replace-one": "adjacency",
    "add-remove": "adjacency",
    "zero-out": "adjacency",
    "contribution bound": "contribution-bounding",
    "bounded contribution": "contribution-bounding",
    "clamp": "clamping",
    "partition selection": "stability-histogram",
    "key selection": "stability-histogram",
    "noisy maximum": "noisy-max",
    "svt": "above-threshold",
    "threshold test": "above-threshold",
    "global sensitivity": "sensitivity",
    "sensitivity of counts": "sensitivity-of-a-count",
    "sensitivity of sums": "sensitivity-of-a-sum",
    "sensitivity of means": "sensitivity-of-a-mean",
    "average": "sensitivity-of-a-mean",
    "group privacy": "group",
    "exponential mechanism": "exponential",
    "gaussian mechanism": "gaussian",
    "laplace mechanism": "laplace",
    "classical sigma": "classical-gaussian",
    "analytic gaussian": "classical-gaussian",
    "fdp": "trade-off",
    "f-dp": "trade-off",
}
