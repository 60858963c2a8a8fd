"""The only source of noise and of samples: streams of random words, Gaussian noise, binomial sizes, subsets and orders."""
