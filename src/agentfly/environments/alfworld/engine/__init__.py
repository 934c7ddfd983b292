"""The games themselves: what is in them, what can be done, what is said."""
