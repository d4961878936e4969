"""What becomes ONNX: modules of PyTorch, models of TensorFlow, and ONNX files that somebody brought."""
