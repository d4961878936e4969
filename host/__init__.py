"""What the machine is and does: its CPUs and GPUs, clocks, energy, memory, and who else uses it."""
