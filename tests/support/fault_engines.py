"""An engine that makes a mistake of several workers, named by a file: `test_scaling` installs a copy as
the third-party module `xbench_fault_engines`. The row is imported by the command, the class by the workers alone."""

import os
import signal
import sys
import time
from pathlib import Path

from xbench.runtimes import Row
from xbench.runtimes.support.row import EngineRow

FILE = "XBENCH_TEST_FAULT"
ENTRY = "xbench_fault_engines:faulty"
fault_engine = Row(
    "xbench.runtimes.torch:Torch", ("torch",), "torch", "native", hidden=True, engine=EngineRow(ENTRY, "torchrun", "")
)


def is_timed():
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "time_act":
            return True
    return False


def faulty(artifact, options):
    from xbench.runtimes.distributed.torch import TorchEngine

    class Faulty(TorchEngine):
        def gradients(self, inputs, labels):
            fault, (rank, world) = Path(os.environ[FILE]).read_text(), self.place()
            if fault == "dies" and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "hangs" and rank == 1:
                time.sleep(1000)
            if fault == "raises" and rank == 1:
                raise RuntimeError("of its own")
            if fault == "never averages" or (fault == "apart when timed" and is_timed()):
                self.alone = True
            loss, grads = super().gradients(inputs, labels)
            if fault == "sums":
                for p in self.parameters:
                    p.grad *= world
            if fault == "one keeps its own" and rank == 1:
                self.alone = True
                loss, grads = super().gradients(inputs, labels)
                self.alone = False
            if fault == "first layer forgotten" and world > 1:
                before, self.alone = [p.grad.clone() for p in self.parameters], True
                loss, grads = super().gradients(inputs, labels)
                self.alone = False
                for p, averaged in zip(self.parameters[1:], before[1:]):
                    p.grad.copy_(averaged)
            return loss, grads

    return Faulty(artifact, options)
