"""Web pages for people: the viewer of runs."""
