"""The simulator of the package scienceworld: JVMs, and the worlds in them."""
