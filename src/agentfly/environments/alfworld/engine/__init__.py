"""The games: problems, states, actions, texts, and the two engines."""
