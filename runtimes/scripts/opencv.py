"""OpenCV's dnn module without xbench."""

from collections.abc import Mapping

from xbench.runtimes.scripts import Form

REPRODUCE = """
def run_opencv(given):
    import cv2

    cv2.setNumThreads(THREADS)
    net = cv2.dnn.readNetFromONNX(str(HERE / GRAPH))

    def call():
        for name in INPUTS:
            net.setInput(given[name], name)
        return net.forward(OUTPUTS)

    return dict(zip(OUTPUTS, measured(call)))
"""
DEPLOY = """cv2.setNumThreads($threads)
net = cv2.dnn.readNetFromONNX(str(HERE / "$name.onnx"))
for each, array in zip($inputs, inputs):
    net.setInput(array, each)
outputs = net.forward($outputs)"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return REPRODUCE


def deploy(options: Mapping[str, str]) -> Form:
    return Form((("opencv-python-headless", "opencv-python"), ("numpy",)), "import cv2", DEPLOY, {}, each=3)
