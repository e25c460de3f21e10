"""GPUs: one sampler thread asks the driver, through a backend for each kind of driver, and never blocks anybody."""
