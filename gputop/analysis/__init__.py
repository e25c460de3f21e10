"""Pure functions over a window of the store: states, hot code, verdicts."""
