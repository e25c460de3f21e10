"""Find, describe, launch and follow the processes looked at."""
