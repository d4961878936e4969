"""What the commands measure: a comparison, a training, a load, a study; each proves before it times."""
