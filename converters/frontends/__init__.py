"""Converts to ONNX: modules of PyTorch, models of TensorFlow, and the user's own ONNX files."""
