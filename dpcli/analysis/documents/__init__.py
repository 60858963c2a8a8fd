"""Results of analysis as documents, which every output format can show."""
