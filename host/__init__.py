"""Facts and state of the machine: CPUs and GPUs, clocks, energy, memory, and load by others."""
