"""The facts without a screen: text and JSON."""
