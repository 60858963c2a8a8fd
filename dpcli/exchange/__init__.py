"""Records of a private run in other libraries, as a pipeline, and a pipeline as they keep it."""
