"""Registry of the types of mechanisms and of the sampling schemes.

A name on the left is the `type` of an entry in a pipeline file, or the `scheme` of its sampling table. The class on the right has the keys;
it is imported when a file first names it.
"""

from __future__ import annotations

from dpcli.base.plugin import Plugin

PLUGIN = Plugin(
    mechanisms={
        "gaussian": "dpcli.mechanisms.noise.gaussian_spec:GaussianSpec",
        "gaussian-mixture": "dpcli.mechanisms.noise.gaussian_mixture:GaussianMixtureSpec",
        "laplace": "dpcli.mechanisms.noise.laplace:LaplaceSpec",
        "truncated-laplace": "dpcli.mechanisms.noise.truncated_laplace:TruncatedLaplaceSpec",
        "truncated-discrete-laplace": "dpcli.mechanisms.noise.truncated_discrete_laplace:TruncatedDiscreteLaplaceSpec",
        "discrete-gaussian": "dpcli.mechanisms.noise.discrete_gaussian:DiscreteGaussianSpec",
        "discrete-laplace": "dpcli.mechanisms.noise.discrete_laplace:DiscreteLaplaceSpec",
        "randomized-response": "dpcli.mechanisms.choice.randomized_response:RandomizedResponseSpec",
        "shuffled-reports": "dpcli.mechanisms.choice.shuffled_reports:ShuffledReportsSpec",
        "exponential": "dpcli.mechanisms.choice.exponential:ExponentialSpec",
        "report-noisy-max": "dpcli.mechanisms.choice.noisy_max:ReportNoisyMaxSpec",
        "permute-and-flip": "dpcli.mechanisms.choice.noisy_max:PermuteAndFlipSpec",
        "sparse-vector": "dpcli.mechanisms.choice.noisy_max:SparseVectorSpec",
        "propose-test-release": "dpcli.mechanisms.choice.stability:ProposeTestReleaseSpec",
        "stability-histogram": "dpcli.mechanisms.choice.stability:StabilityHistogramSpec",
        "pure-dp": "dpcli.mechanisms.stated.pure_and_approx:PureSpec",
        "approx-dp": "dpcli.mechanisms.stated.pure_and_approx:ApproxSpec",
        "zcdp": "dpcli.mechanisms.stated.renyi:ZcdpSpec",
        "rdp": "dpcli.mechanisms.stated.renyi:RdpSpec",
        "composed": "dpcli.mechanisms.combined.composed:ComposedSpec",
        "tree-aggregation": "dpcli.mechanisms.noise.correlated:TreeSpec",
        "banded-toeplitz": "dpcli.mechanisms.noise.correlated:ToeplitzSpec",
        "banded-matrix": "dpcli.mechanisms.noise.correlated:BandedSpec",
        "buffered-toeplitz": "dpcli.mechanisms.noise.correlated:BufferedToeplitzSpec",
        "last-iterate": "dpcli.mechanisms.noise.last_iterate:LastIterateSpec",
        "repeat-and-select": "dpcli.mechanisms.choice.repeat_and_select:RepeatAndSelectSpec",
        "gnmax": "dpcli.mechanisms.prediction.votes:GnMaxSpec",
        "confident-gnmax": "dpcli.mechanisms.prediction.votes:ConfidentGnMaxSpec",
        "lnmax": "dpcli.mechanisms.prediction.votes:LnMaxSpec",
        "pmixed": "dpcli.mechanisms.prediction.ensemble:EnsembleMixtureSpec",
        "private-decoding": "dpcli.mechanisms.prediction.private_decoding:PrivateDecodingSpec",
        "post-processing": "dpcli.mechanisms.stated.pure_and_approx:PostProcessingSpec",
    },
    sampling={
        "poisson": "dpcli.mechanisms.sampling.schemes:Poisson",
        "fixed-size": "dpcli.mechanisms.sampling.schemes:FixedSize",
        "balls-in-bins": "dpcli.mechanisms.sampling.schemes:BallsInBins",
        "shuffle": "dpcli.mechanisms.sampling.schemes:OncePerEpoch",
        "cyclic": "dpcli.mechanisms.sampling.schemes:Cyclic",
        "none": "dpcli.mechanisms.sampling.schemes:Unsampled",
    },
)
