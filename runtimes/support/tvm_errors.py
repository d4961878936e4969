"""Finds, among TVM's errors, missing support: operators that it knows, but not for these types or attributes."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tvm

from xbench.runtimes import Unavailable

LACKS = re.compile(r"not supported|only support|should be one of|[Uu]nsupported")
P = ParamSpec("P")
R = TypeVar("R")


def lacking(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which raises Unavailable with TVM's own line if TVM lacks something."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except (TypeError, ValueError, tvm.error.InternalError) as error:
            reason = next((line.strip() for line in str(error).splitlines() if LACKS.search(line)), None)
            if reason is None:
                raise
            raise Unavailable(f"tvm: {reason.rpartition(' is false: ')[2]}") from error

    return call
