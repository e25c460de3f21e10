"""The screens: the overview, and what opens over it."""
