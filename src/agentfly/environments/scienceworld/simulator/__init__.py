"""The package's own simulator: JVMs, and the worlds in them."""
