"""What everything runs on: time, threads, child processes, and calls of a user's functions."""
