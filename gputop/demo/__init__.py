"""A built-in image-classification job to look at; needs no GPU."""
