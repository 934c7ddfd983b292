"""The foundation of all packages: time, threads, processes, HTTP, calls of users' functions."""
