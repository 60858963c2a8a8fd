"""Results of `dpcli release` as documents, which every output format can show."""
