"""Random numbers for noise and samples: streams of random words, Gaussian noise, binomial sizes, subsets and orders."""
