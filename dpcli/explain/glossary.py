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
    "amplification-by-iteration": (
        "A record that a noisy step used early costs less the more noisy steps follow, where the loss is convex and smooth and no "
        "model but the last is seen (Feldman, Mironov, Talwar and Thakurta, arXiv:1808.06651). dpcli claims none: releases = "
        '"final-model" lowers no number.'
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
        "Privacy-loss random variable: L = ln(P(output) / Q(output)), where the output is drawn from P, the mechanism on one of "
        "two neighbouring datasets, and Q is the mechanism on the other. Independent losses add up under composition; delta at "
        "epsilon is what lies above it: E max(0, 1 - e^(epsilon - L)) (Dwork and Rothblum, arXiv:1603.01887; Bun and Steinke, "
        "arXiv:1605.02065). dpcli's accountants exact and pld compute with its whole distribution."
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
        "delta = 0 it is at most e^epsilon for every output (Neyman and Pearson 1933)."
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
        "A mechanism on a secret random sample costs less than on all the data, because a record is mostly absent. It holds only "
        "for samples drawn as stated (Balle, Barthe and Gaboardi, arXiv:1807.01647). On a Poisson sample of rate q an (epsilon, "
        "delta)-DP mechanism is (ln(1 + q (e^epsilon - 1)), q delta)-DP under add-remove: epsilon = 1 at q = 0.01 becomes 0.0171. "
        "For many steps the accountants do far better than the sum of these. dpcli claims none for shuffled or cyclic batches."
    ),
    "subsampling": (
        "Running a mechanism on a random sample of the records: poisson (each record by its own coin), fixed-size, balls-in-bins. See "
        "`dpcli explain amplification`."
    ),
    "mgf": (
        "Moment-generating function of the privacy loss L: E e^(tL). Its logarithm at t = a - 1 is (a - 1) times the Renyi divergence of "
        "order a, and logarithms add up under composition (Abadi et al., arXiv:1607.00133; Mironov, arXiv:1702.07476)."
    ),
    "cgf": (
        "Cumulant generating function of the privacy loss L: K(z) = ln E e^(z L), the logarithm of its moment-generating function. "
        "K(a - 1) is a - 1 times the Renyi divergence of order a, and the K of all mechanisms add up (Bun and Steinke, "
        "arXiv:1605.02065). The accountant exact integrates it along a contour in the complex plane. See privacy_loss."
    ),
    "privacy-profile": (
        "The least delta at every epsilon, as a curve (Balle, Barthe and Gaboardi, arXiv:1807.01647). dpcli account prints one "
        "point of it; dpcli plot delta-epsilon FILE draws it."
    ),
    "conversion": (
        "From a Renyi curve R to epsilon at a delta, by the best order a > 1: R(a) + ln(1 - 1/a) - (ln delta + ln a)/(a - 1) "
        "(Balle and others, arXiv:1905.09982, Theorem 21). For rho of zCDP, R(a) = rho a; a simpler bound is rho + 2 sqrt(rho "
        "ln(1/delta)) (Bun and Steinke, arXiv:1605.02065). Either loses some epsilon, so that zcdp and rdp print more than exact "
        "does on the same noise. The older conversion: see classic."
    ),
    "cdp": (
        "Concentrated DP: the privacy loss, less its mean, is subgaussian (Dwork and Rothblum, arXiv:1603.01887). "
        "Zero-concentrated DP says nearly the same by Renyi divergences, and survives post-processing (Bun and Steinke, "
        "arXiv:1605.02065): dpcli has that, as zcdp."
    ),
    "tcdp": (
        "Truncated concentrated DP, (rho, omega)-tCDP: the Renyi divergence of order a is at most rho a for orders below omega "
        "only, so that sampling can lower rho (Bun, Dwork, Rothblum and Steinke 2018, STOC). In a file: type rdp, with the orders "
        "and their values."
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
    "stability": (
        "How many units must change before an answer does. An answer that is far from any change is released as it is, or with "
        "little noise, after a noisy test of that distance; the test costs a delta (Dwork and Lei 2009; Thakurta and Smith 2013). "
        "See ptr and stability-histogram."
    ),
    "subsample-and-aggregate": (
        "Compute on disjoint parts of the data without noise, then combine the answers with noise: one unit moves the answer of "
        "one part (Nissim, Raskhodnikova and Smith 2007). PATE's votes are of this kind: see pate and pmixed."
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
        "of which the dearest is charged. Parts must be disjoint and assigned record by record. Under zero-out, where blanking may take "
        "a record out of its part, noise_multiplier is needed."
    ),
    "adaptive-composition": (
        "Each mechanism may be chosen after looking at the outputs of earlier ones. A step of DP-SGD does so, as its gradients "
        "depend on the model before it, and every sound accountant covers that while noise, sampling and steps are fixed "
        "beforehand. Where these too depend on outputs (adaptive = true), only privacy filters hold (Rogers and others, "
        "arXiv:1605.08294): see adaptive and filter."
    ),
    "adaptive": (
        "Whether later parameters depend on earlier outputs. Where they do (adaptive = true), composition theorems for fixed "
        "parameters do not hold; dpcli uses one privacy filter, zcdp (at delta = 0 the sum of epsilons), and what holds is the cap in "
        "[budget], which no output may move."
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
        "grows faster still. --group-size K prices a group; max_contributions is the same arithmetic within one unit. "
        "Its units change in one way: all of them come, or all go. One that comes as another goes is a replacement: price that under "
        "replace-one."
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
    "mu": (
        "Sensitivity over noise of a Gaussian; compositions add up mu squared. Also the parameter of Gaussian DP: a release is "
        "mu-GDP where two neighbouring datasets are at least as hard to tell apart by it as N(0, 1) and N(mu, 1) by one draw "
        "(Dong, Roth and Su, arXiv:1905.02383)."
    ),
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
    "post-processing": (
        "Whatever is computed from a private output, without the data, costs nothing more: no attack on the result beats an "
        "attack on the output (Dwork and Roth 2014, Proposition 2.1). In a file such an entry is free; dpcli gate fails an "
        "entry that becomes one, as no accountant can tell whether it reads the data."
    ),
    "composition": (
        "What several releases from the same data cost together. Epsilons and deltas add up at most (basic composition); "
        "sharper theorems add up squares of epsilon, rhos, Renyi divergences or whole loss distributions. dpcli composes all "
        "mechanisms of a file by every accountant that applies, and the smallest sound bound is the headline (Dwork and Roth "
        "2014, section 3.5; Kairouz, Oh and Viswanath, arXiv:1311.0776)."
    ),
    "parallel-composition": (
        "Mechanisms on disjoint parts of the data cost what the dearest of them costs, and not the sum, where one unit's data "
        "lie in one part (McSherry 2009, SIGMOD). In a file: partition, which charges more where a unit may lie in several "
        "parts."
    ),
    "opacus": (
        "The library for DP-SGD in PyTorch (Yousefpour and others, arXiv:2109.12298). dpcli import opacus makes a pipeline file "
        'of its accountant\'s history, dpcli export opacus writes that history, and [train] engine = "opacus" computes the '
        "gradients of examples with its hooks. Its history does not say how batches were drawn: state it."
    ),
    "dp-accounting": (
        "Google's library of accountants, which TensorFlow Privacy and JAX Privacy use "
        "(github.com/google/differential-privacy). dpcli import dp-accounting, tf-privacy and jax-privacy make pipeline files "
        "of what they keep; dpcli export dp-accounting writes a file as an event of theirs."
    ),
    "opendp": (
        "A library of private measurements with samplers that do not leak through floating-point numbers (opendp.org). dpcli "
        "release draws its noise by OpenDP's samplers; dpcli import opendp makes a pipeline file of a Context's budget."
    ),
    "certified": (
        "Proven for the numbers as they were computed: a certified interval holds the true value with every error of rounding "
        "and truncation counted in, so that epsilon is at least its lower end and at most its upper. dpcli account shows the "
        'lower end as "at least"; where no sound accountant applies, nothing can be certified and the exit code is 3 (Alghamdi '
        "and others, arXiv:2208.09595; Doroshenko and others, arXiv:2207.04380). Proofs: dpcli explain accountants."
    ),
    "rounding": (
        "Upper bounds are printed rounded up and lower bounds down, in the last digit shown; gates and budgets compare the numbers "
        "before rounding, and -f json has them. Rounding inside a computation is counted into a certified interval. The rounding "
        "of floating-point noise is another matter: see DP201."
    ),
    "assumption": (
        "What a number stands on and no computation shows: that batches were sampled as stated, gradients clipped, noise drawn "
        "secretly, and that a unit owns no more records than max_contributions. dpcli report lists what a file states; dpcli "
        "account with flags prints epsilon under other assumptions beside its own; dpcli explain threats says who sees to which."
    ),
    "signing": (
        "Answering for a number with one's name. A headline is an upper bound, so that it may be signed: it fails towards less "
        "privacy claimed. Sign its assumptions with it (dpcli report). dpcli makes no digital signature: dpcli attest writes an "
        "unsigned statement, for a tool such as cosign to sign."
    ),
    "warn_at": (
        "The warning level: the share of a cap above which dpcli account and dpcli gate warn, and pass. 0.8 where [budget] states "
        "no other; warn_at = 1.0 never warns."
    ),
    "bound": (
        "An upper bound on epsilon is a promise: the true value is at most that. A lower bound is evidence: the true value is "
        "at least that, by an attack that was carried out (dpcli audit) or by a certified computation (dpcli account). dpcli "
        "rounds the first up and the second down (Jagielski, Ullman and Oprea, arXiv:2006.07709, on lower bounds by attacks)."
    ),
    "dp-ftrl": (
        "Training that adds correlated noise to the running sums of the gradients, in place of fresh noise to each step, so "
        "that no random sampling is needed (Kairouz and others, arXiv:2103.00039; by matrix factorization: Denisov and others, "
        "arXiv:2202.08312). In a file: tree-aggregation, banded-toeplitz, banded-matrix or buffered-toeplitz; how often a "
        "record takes part, and how far apart, must be enforced."
    ),
    "central-limit-theorem": (
        "A sum of many independent small privacy losses is nearly Normal, so that many weak mechanisms together are nearly one "
        "Gaussian mechanism (Dong, Roth and Su, arXiv:1905.02383, section 3). Nearly is no bound: the true epsilon may be "
        "larger. dpcli shows it as the accountant gdp, marked ~, and never as the headline."
    ),
    "berry-esseen": (
        "How far the distribution of a sum of n independent variables may be from the Normal one: a constant times the third "
        "absolute moments over the variances to the power 3/2, so of the order of 1/sqrt(n) (Berry 1941; Esseen 1942). It "
        "makes the central limit theorem a bound, but one far wider than a delta of 1e-6. dpcli does not use it: it computes "
        "the distribution itself (accountants exact and pld)."
    ),
    "hoeffding": (
        "A sum of independent variables, each within an interval of length c, exceeds its mean by t with probability at most "
        "exp(-2 t^2 / sum of c^2) (Hoeffding 1963; Azuma 1967 where each may depend on those before). Advanced composition "
        "applies it to privacy losses, which lie within [-epsilon, epsilon]: see the accountant advanced."
    ),
    "bernstein": (
        "A sum of independent variables, none of which exceeds its mean by more than b, exceeds its own mean by t with probability "
        "at most exp(-t^2 / (2 (V + b t / 3))), where V is its variance (Boucheron, Lugosi and Massart 2013, section 2.8). Far "
        "below Hoeffding's bound where the variance is small. No accountant uses it: exact and pld compute the distribution itself."
    ),
    "mcdiarmid": (
        "A function of independent variables, each of which moves it by at most c, exceeds its mean by t with probability at most "
        "exp(-2 t^2 / sum of c^2) (McDiarmid 1989); Hoeffding's bound is the case of a sum. No accountant uses it."
    ),
    "markov": (
        "A variable that is never negative exceeds t with probability at most its mean over t (Mitzenmacher and Upfal 2017, "
        "Theorem 3.1). Of e^(s X) it is Chernoff's bound, by which the moments accountant turns moments of the privacy loss into "
        "delta: see chernoff."
    ),
    "chernoff": (
        "A variable exceeds t with probability at most E e^(s X) / e^(s t), for every s > 0 (Chernoff 1952). The moments "
        "accountant is this bound for the privacy loss at its best s; the accountant pld adds it for what leaves its grid."
    ),
    "subgaussian": (
        "A variable whose moment-generating function is at most that of a Normal one, so that its tails are no heavier "
        "(Vershynin 2018, High-Dimensional Probability, section 2.5). rho-zCDP says that of the privacy loss: it is bounded as "
        "if it were Normal with mean rho and variance 2 rho (Bun and Steinke, arXiv:1605.02065). dpcli account prices it as "
        "zcdp."
    ),
    "divergence": (
        "How far apart the outputs on two neighbouring datasets are. The largest loss is the max-divergence, epsilon of pure "
        "DP; the mean loss is the Kullback-Leibler divergence, the Renyi divergence of order 1; total variation is delta at "
        "epsilon 0, the most that an attack's advantage can be (van Erven and Harremoes, arXiv:1206.2459). The hockey-stick "
        "divergence at e^epsilon is the least delta at that epsilon (Balle, Barthe and Gaboardi, arXiv:1807.01647)."
    ),
    "dominating-pair": (
        "Two distributions that are at least as far apart as the outputs on any two neighbouring datasets, by every "
        "hockey-stick divergence (Zhu, Dong and Wang, arXiv:2106.08567). Composing the pairs bounds the composition: dpcli's "
        "accountants exact and pld do so. What has no known pair is told as - with the reason."
    ),
    "odometer": (
        "A bound on what has been spent so far that holds at every time, though nobody fixed beforehand when to stop (Rogers "
        "and others, arXiv:1605.08294). dpcli's ledgers use filters, whose cap is fixed; a run that stops early because of what "
        "was seen is charged for its plan."
    ),
    "trust-model": (
        "Who is trusted with the raw data. Central: a curator who adds the noise. Local: nobody. Shuffle: whoever mixes the "
        "messages (Bittau and others, arXiv:1710.00901). Distributed: enough of several parties. [disclosure] privacy_model "
        "states it, and dpcli report tells it."
    ),
    "nats": (
        "The unit of epsilon, rho and every privacy loss: natural logarithms, so that odds change by a factor of e for each. "
        "One bit is 0.693 of them (Cover and Thomas 2006, Elements of Information Theory)."
    ),
    "union-bound": (
        "The probability that any of several things happens is at most the sum of their probabilities (Boole 1847). So deltas "
        "add up; it is also how a key or a test that one unit reaches in several places is paid for."
    ),
    "verdict": (
        "The answer of a gate, an audit, a check or a budget. pass; warn (warning): it passes, but above warn_at or with a "
        "note; fail (FAIL, OVER BUDGET): no, exit code 1; waived: a no that a waiver lets pass; unknown: nothing can be "
        "certified, which is no pass, exit code 3; invalid: the file cannot be read, exit code 2; error: the ledger, exit code "
        "4. A condition or a check is one thing that is judged; found is what was seen there."
    ),
    "finding": (
        "What a rule says of a file: its place (file:line:column), its severity (error, warning), the rule (DP101), the key "
        "that it is about, and a message. dpcli explain DP101 says what a rule is about; an error makes the exit code 1."
    ),
    "not-stated": (
        "An item of the disclosure on which the file is silent. The statement says so, with the key that would answer it, "
        "instead of leaving the item out; dpcli report --strict then has exit code 1. Items, and who asks for them: Ponomareva "
        "and others, arXiv:2303.00654; NIST SP 800-226."
    ),
    "not-private": (
        "A run whose noise came from a known seed, or which was otherwise not what its guarantee assumes. Nothing that it "
        "prints is protected; it is refused as a private model, and no attestation is written."
    ),
    "detail": (
        "What an accountant found on its way to the number: the best order, rho, mu, the slack, the tilt or the spacing, and "
        '"at least", the lower end of a certified interval.'
    ),
    "runs": (
        "How often a mechanism is charged: its steps, or its passes over the data where each record is in one batch of a pass. "
        "In tables of ledgers and sweeps a run is one execution of a whole file."
    ),
    "entry": (
        "A line of a ledger's hash chain, which nobody changes: its number, its kind (open, spend, reserve, start, commit, "
        "void, amend, retire, quota, propose, refuse, moved, copied, upgrade), the run that it is about and that run's status "
        "(reserved, started, committed, void), the cost, who wrote it and when (UTC), and why. Its body is the canonical "
        "text, its hash chains it to the one before. dpcli budget log shows them."
    ),
    "cost": (
        "What one run takes from a ledger's budget, in the currency of its filter: epsilon and delta, rho, mu squared or a "
        "Renyi divergence. used and share say it as a part of the cap. Of one change in dpcli diff and gate: see change."
    ),
    "used": (
        "The part of a budget's cap that is charged, reservations included, in percent and rounded up; used after is the part "
        "when a planned run is done. Of a ledger in blocks: of its fullest block."
    ),
    "fit": (
        "How many runs of a schedule the budget still pays for; a run that does not fit is shown with the reason. dpcli budget "
        "plan computes it before the first run is made: every is how often, first and last are days."
    ),
    "block": (
        "A part of a dataset with a budget of its own: a day, a week, a region or a part of a hash (dpcli budget init "
        "--blocks). A run names the blocks that it reads, its window, and is charged on all of them or on none."
    ),
    "last-entry": (
        "When a ledger last grew. In the table of dpcli budget overview, to look at names what needs somebody: a budget nearly "
        "spent, a reservation that has expired, a proposal that waits."
    ),
    "change": (
        "A difference between two files, with what was there before and after. Its epsilon is that of the earlier file with "
        "this change alone; its effect, what that adds to the earlier file's epsilon. What changes do together beyond the sum "
        "is their interaction."
    ),
    "cap": (
        "The most that may be spent: [budget] of a file, of a policy, or of a ledger's dataset. before, change and at delta "
        "beside it say what the base cost, how far epsilon rose, and at which delta the cap holds."
    ),
    "up-to": (
        "The largest value that a waiver lets pass. Beside it: the approver, when it expires, the days left, where it is "
        "written in, and the reason. See waiver."
    ),
    "false-positive-rate": (
        'How often an attack says "this unit was in the data" where it was not. The true-positive rate is how often it says so '
        "rightly, what it misses is the false-negative rate. (epsilon, delta)-DP bounds the true positives at each "
        "false-positive rate (Kairouz, Oh and Viswanath, arXiv:1311.0776); dpcli explain FILE shows the bound."
    ),
    "belief": (
        "The probability that an observer gives to a unit being in the data, before the release and after it; the best guess is "
        "right with a probability that is bounded too. See posterior."
    ),
    "confidence": (
        "The probability with which an interval or a lower bound holds, over the randomness of noise and trials. dpcli audit "
        "says it beside everything that was proven; an interval of dpcli release covers the noise alone (Clopper and Pearson "
        "1934, for counts)."
    ),
    "evidence": (
        "What a lower bound of an audit rests on: how many canaries or trials, how many guesses, how many right. A claim below "
        "the lower bound is refuted at the stated confidence; what was found is evidence against it, and a pass is no proof."
    ),
    "power": (
        "How likely an audit finds a violation of a given size. would find (90 %) is the smallest one that it finds nine times "
        "out of ten: a pass says nothing about smaller ones."
    ),
    "claim": (
        "The epsilon that a program is said to have, which an audit tests: claimed: at most. Refuted means that the audit "
        "proved more at its confidence."
    ),
    "noisy-count": (
        "A count plus noise: what is released in place of the count. The demonstration (dpcli explain --demo) tells two of them "
        "apart by a threshold; measured is the share of its simulated trials, and the bound allows is the most that epsilon "
        "lets any test reach."
    ),
    "error-to-expect": (
        "How far the answers of a release will be off, at their confidence, from the noise alone; known before any data are "
        "touched. Beside it, of each query: its measure and mechanism, and why its noise is as large as it is."
    ),
    "interval": (
        "The range that holds the value without noise, with the probability that stands beside it (95 % unless stated). It "
        "covers the noise alone: not rows that were left out or values that were clamped."
    ),
    "value": (
        "One answer of a release, or one number that a key may have. In csv a row has its keys, its value, lower and upper ends "
        "of its interval, and the confidence."
    ),
    "setting": (
        "One choice of the hyperparameters in a sweep. The table has the median of the metric over its runs, the least and the "
        "largest (min, max), the best mark, and the noise that meets the epsilon. Choosing the best by looking costs privacy "
        "too: see DP110."
    ),
    "median": ("The middle one of several numbers: in a sweep, the metric of the middle run of a setting."),
    "domain": (
        "The values that something may have, known without the data. Of numbers, clamped: the sensitivity of a sum that is cut "
        "to them; after a test: that of the sum around the fullest bin, whatever the domain."
    ),
    "query": (
        "One question to the data: of a release, with its answer; of a PATE session, an example that the teachers vote on, "
        "whether or not it is answered. The cost has to be paid for all of them."
    ),
    "classic": (
        "Epsilon by the conversion of the first papers (Mironov, arXiv:1702.07476, Proposition 3), to compare with published "
        "numbers; the column epsilon is by a sharper one."
    ),
    "published": (
        "What a published protocol claims or measured, where dpcli cannot prove it: no guarantee, and never the headline. "
        "models is how many of them were drawn for a token, radius the most that each may differ from the public one. See "
        "pmixed."
    ),
    "what-one-change-does": (
        "replace-shard: one change of the data retrains one model; remove-shard: a whole shard comes or goes. The columns price "
        "it by Renyi divergences and by privacy-loss distributions. See pmixed."
    ),
    "item": (
        "A line of the disclosure: what is asked, by which document (asked by), and the answer, or NOT STATED. Letters stand "
        "for the documents, below the table."
    ),
    "label": (
        "The class that a model or a vote gives to an example. PATE releases labels alone; dpcli predict shows a model's, with "
        "its probability."
    ),
    "doctor": ("dpcli doctor looks at what dpcli needs on this machine: what it looked at, the verdict and what it found."),
    "version": (
        "Of dpcli, of each package that it computes with, and of each format and schema: dpcli version. A statement names "
        "dpcli's, so that its number can be computed again."
    ),
    "file": ("A pipeline file: everything that touches the private data for one release, in TOML. See pipeline."),
    "reason": ("Why something is so, in words: why a row has no number, why a condition fails, why an entry was written."),
    "severity": (
        "How bad a finding is: an error makes the number untrue or the file unusable, and the exit code 1 or 2; a warning is to "
        "be looked at."
    ),
    "total": (
        "All mechanisms of a file together; -f total prints that number alone. On each row, share is a mechanism's part of it."
    ),
    "test-better-from": (
        "dpcli release --compare shows from which size of a domain on a test (propose-test-release) is right more often than "
        "the noisy maximum is. See ptr."
    ),
    "calibration": (
        "Solving for noise, steps or another parameter so that a target is met: an epsilon, rho, mu or what an attack may "
        "reach. The answer errs on the safe side; the next smaller value, shown below it, misses the target. dpcli "
        "calibrate-sigma and dpcli calibrate --solve do it."
    ),
    "attestation": (
        "A statement in the in-toto format of what a model guarantees, with the digests of the model, its statement and its "
        "pipeline file: dpcli attest writes it, --verify checks it. It is not signed: sign it with a tool for that."
    ),
    "perplexity": (
        "e to the mean loss of a token: among how many equally likely tokens a language model hesitates, so that less is better. over "
        "public is the part of the public model's perplexity that is left: below 1 the private texts taught something. A way is a model "
        "or an ensemble that was measured (Jelinek and others 1977)."
    ),
}

# Symbols, words of papers and of tables, and the words that explain them; a capital letter may mean something else than a small one.
SYMBOLS: dict[str, str] = {
    "renyi": "rdp",
    "rényi": "rdp",
    "neighbouring": "adjacency",
    "neighboring": "adjacency",
    "neighbours": "adjacency",
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
    "privacy random variable": "prv",
    "moments-accountant": "moments",
    "baseline": "base",
    "propose-test-release": "ptr",
    "privacy loss random variable": "plrv",
    "likelihood-ratio-test": "neyman-pearson",
    "trade-off curve": "trade-off",
    "trade-off function": "trade-off",
    "roc": "trade-off",
    "privacy amplification": "amplification",
    "amplification by subsampling": "amplification",
    "moment generating function": "mgf",
    "cumulant generating function": "cgf",
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
    "sensitivity of sums and means": "sensitivity",
    "λ": "moments",
    "lambda": "moments",
    "average": "sensitivity-of-a-mean",
    "group privacy": "group",
    "exponential mechanism": "exponential",
    "gaussian mechanism": "gaussian",
    "laplace mechanism": "laplace",
    "classical sigma": "classical-gaussian",
    "analytic gaussian": "classical-gaussian",
    "fdp": "trade-off",
    "sequential composition": "composition",
    "user-level": "user",
    "group-level": "group",
    "record-level": "unit",
    "example-level": "unit",
    "item-level": "unit",
    "final-model": "releases",
    "all-checkpoints": "releases",
    "outputs": "releases",
    "checkpoint": "releases",
    "clt": "central-limit-theorem",
    "azuma": "hoeffding",
    "concentration": "hoeffding",
    "chernoff bound": "chernoff",
    "tail bound": "chernoff",
    "certificate": "certified",
    "certify": "certified",
    "cannot certify": "certified",
    "lower bound": "bound",
    "upper bound": "bound",
    "at least": "bound",
    "at most": "bound",
    "matrix factorization": "dp-ftrl",
    "matrix mechanism": "dp-ftrl",
    "tree mechanism": "dp-ftrl",
    "binary tree": "dp-ftrl",
    "ftrl": "dp-ftrl",
    "kl divergence": "divergence",
    "kullback-leibler": "divergence",
    "max-divergence": "divergence",
    "total variation": "divergence",
    "hockey-stick": "divergence",
    "hockey-stick divergence": "divergence",
    "renyi divergence": "rdp",
    "privacy filter": "filter",
    "privacy budget": "budget",
    "approximate dp": "delta",
    "epsilon-delta": "delta",
    "(epsilon, delta)-dp": "delta",
    "(eps, delta)-dp": "delta",
    "epsilon-dp": "epsilon",
    "eps-dp": "epsilon",
    "mu-gdp": "mu",
    "mu-gaussian dp": "mu",
    "rho-zcdp": "zcdp",
    "zero-concentrated dp": "zcdp",
    "concentrated dp": "cdp",
    "truncated concentrated dp": "tcdp",
    "truncated cdp": "tcdp",
    "ldp": "local-dp",
    "rho to epsilon": "conversion",
    "conversion of rho to epsilon": "conversion",
    "renyi to epsilon": "conversion",
    "rdp to dp": "conversion",
    "zcdp to dp": "conversion",
    "privacy amplification by iteration": "amplification-by-iteration",
    "amplification by shuffling": "amplification",
    "subsampled gaussian": "dp-sgd",
    "bounded differences": "mcdiarmid",
    "premise": "assumption",
    "sign": "signing",
    "signed": "signing",
    "signature": "signing",
    "warning level": "warn_at",
    "above its warning level": "warn_at",
    "above the warning level": "warn_at",
    "gaussian dp": "gdp",
    "renyi dp": "rdp",
    "zero-concentrated": "zcdp",
    "privacy-loss distribution": "pld",
    "central dp": "trust-model",
    "central model": "trust-model",
    "curator": "trust-model",
    "shuffle model": "trust-model",
    "distributed dp": "trust-model",
    "local model": "local-dp",
    "gradient clipping": "clipping",
    "per-example clipping": "clipping",
    "l1": "sensitivity",
    "l2": "sensitivity",
    "l1 sensitivity": "sensitivity",
    "l2 norm": "sensitivity",
    "bounded dp": "adjacency",
    "unbounded dp": "adjacency",
    "neighbouring datasets": "adjacency",
    "neighboring datasets": "adjacency",
    "accuracy": "metric",
    "utility": "error-to-expect",
    "tf-privacy": "dp-accounting",
    "tensorflow privacy": "dp-accounting",
    "jax-privacy": "dp-accounting",
    "randomised response": "randomized-response",
    "exit code": "exit-codes",
    "exit status": "exit-codes",
    "0": "exit-codes",
    "1": "exit-codes",
    "2": "exit-codes",
    "3": "exit-codes",
    "4": "exit-codes",
    "70": "exit-codes",
    "130": "exit-codes",
    "pass": "verdict",
    "passed": "verdict",
    "warn": "verdict",
    "warning": "severity",
    "fail": "verdict",
    "failed": "verdict",
    "unknown": "verdict",
    "waived": "verdict",
    "invalid": "verdict",
    "error": "severity",
    "note": "severity",
    "ledger error": "verdict",
    "over budget": "verdict",
    "within budget": "verdict",
    "refused": "verdict",
    "condition": "verdict",
    "check": "verdict",
    "place": "finding",
    "rule": "finding",
    "key": "finding",
    "message": "finding",
    "statement": "item",
    "disclosure": "item",
    "asked by": "item",
    "answer": "item",
    "silent": "not-stated",
    "expires": "up-to",
    "days left": "up-to",
    "written in": "up-to",
    "approver": "up-to",
    "before": "change",
    "after": "change",
    "effect": "change",
    "interaction": "change",
    "at delta": "cap",
    "kind": "entry",
    "status": "entry",
    "who": "entry",
    "when": "entry",
    "why": "reason",
    "body": "entry",
    "hash": "entry",
    "reserved": "reservation",
    "committed": "entry",
    "void": "reservation",
    "spent": "used",
    "used after": "used",
    "fullest block": "used",
    "cost of one": "cost",
    "every": "fit",
    "first": "fit",
    "last": "fit",
    "day": "fit",
    "to look at": "last-entry",
    "window": "block",
    "false positive": "false-positive-rate",
    "true positive": "false-positive-rate",
    "true-positive-rate": "false-positive-rate",
    "false-negative-rate": "false-positive-rate",
    "missed": "false-positive-rate",
    "missed at least": "false-positive-rate",
    "before the release": "belief",
    "after it": "belief",
    "best guess right": "belief",
    "right without the release": "belief",
    "prior": "posterior",
    "odds": "posterior",
    "claimed": "claim",
    "refuted": "claim",
    "found": "verdict",
    "would find": "power",
    "measured": "noisy-count",
    "the bound allows": "noisy-count",
    "target": "calibration",
    "answered": "query",
    "min": "setting",
    "max": "setting",
    "best": "setting",
    "clamped": "domain",
    "after a test": "domain",
    "domain of numbers": "domain",
    "models": "published",
    "package": "version",
    "of": "version",
    "what": "doctor",
    "together": "group",
    "multiplier": "noise_multiplier",
    "probability": "label",
    "lower": "interval",
    "upper": "interval",
    "at epsilon": "epsilon",
    "moment": "moments",
    "by renyi divergences": "rdp",
    "by privacy-loss distributions": "pld",
    "open": "entry",
    "spend": "entry",
    "reserve": "entry",
    "start": "entry",
    "started": "entry",
    "commit": "entry",
    "amend": "entry",
    "retire": "entry",
    "quota": "entry",
    "propose": "entry",
    "refuse": "entry",
    "moved": "entry",
    "copied": "entry",
    "upgrade": "entry",
    "example": "unit",
    "certified epsilon": "certified",
    "over public": "perplexity",
    "way": "perplexity",
    "base_epsilon": "base",
    "cap_delta": "cap",
    "cap_epsilon": "cap",
    "domain_size": "domain",
    "gap": "test-better-from",
    "high": "interval",
    "low": "interval",
    "increase": "change",
    "line": "finding",
    "sound": "certified",
    "stated": "what-one-change-does",
    "true-positive-rate-bound": "false-positive-rate",
}
