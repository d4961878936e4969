"""What an ONNX file holds and which runtimes will take it, before anything is converted."""
