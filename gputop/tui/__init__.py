"""The terminal screen; the only part that imports textual and rich."""
