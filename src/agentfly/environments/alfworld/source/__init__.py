"""Where games come from: the benchmark's files, or a generator."""
