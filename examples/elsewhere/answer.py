"""Answers a question of `xbench ask` with ONNX Runtime, without xbench: python answer.py QUESTION ANSWERS"""

import os
import sys

import numpy as np
import onnxruntime

question, answers = sys.argv[1:]
session = onnxruntime.InferenceSession(f"{question}/model.onnx", providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_outputs()]
for place in sorted(name for name in os.listdir(question) if name.startswith("test_data_set_")):
    with np.load(f"{question}/{place}/inputs.npz") as file:
        values = session.run(names, dict(file))
    os.makedirs(f"{answers}/{place}")
    for number, value in enumerate(values):
        np.save(f"{answers}/{place}/output_{number}.npy", value)
