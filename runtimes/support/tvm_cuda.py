"""TVM's own pipeline for CUDA. A rule that fails on a function leaves it to the next one: `Reduction` of TVM 0.27 fails
on the gradients of biases (`Check failed: block_realize == old_block_realize_`, its rfactor primitive)."""

from typing import Any

import tvm
from tvm.relax.backend.cuda import pipeline as parts
from tvm.s_tir import dlight


class OrNext(dlight.base.ScheduleRule):
    """A rule that schedules nothing if it raises an internal error of TVM."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def apply(self, func: Any, target: Any, tunable: bool) -> Any:
        try:
            return self.rule.apply(func, target, tunable)
        except tvm.error.InternalError:
            return None


def pipeline(target: Any) -> Any:
    """The passes of `tvm.relax.backend.cuda.get_default_pipeline`, whose last to legalize makes the schedules."""
    gpu = dlight.gpu
    rules = (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
    *legalize, _ = parts.legalize_passes(target)
    scheduled = dlight.ApplyDefaultSchedule(*map(OrNext, rules))
    later = parts.dataflow_lower_passes(target) + parts.finalize_passes(target)
    return tvm.transform.Sequential([*parts.library_dispatch_passes(target), *legalize, scheduled, *later])
