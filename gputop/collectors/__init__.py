"""The sources: each file samples one thing; none knows another."""
