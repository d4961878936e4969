"""Answers a question of `xbench ask` with ONNX Runtime, without xbench: python answer.py QUESTION ANSWERS"""

import json
import os
import sys

import numpy as np
import onnxruntime

question, answers = sys.argv[1:]
with open(f"{question}/question.json") as file:
    inputs = json.load(file)["inputs"]
session = onnxruntime.InferenceSession(f"{question}/model.onnx", providers=["CPUExecutionProvider"])
for place in sorted(name for name in os.listdir(question) if name.startswith("test_data_set_")):
    with np.load(f"{question}/{place}/inputs.npz") as arrays:
        values = session.run(None, {each["name"]: arrays[each["key"]] for each in inputs})
    os.makedirs(f"{answers}/{place}", exist_ok=True)
    for number, value in enumerate(values):
        np.save(f"{answers}/{place}/output_{number}.npy", value)
