"""For frameworks that compile a network whole: what their compilers cannot take because a shape depends on values, such
as the number of nonzero elements, runs operator by operator, as the framework does without its compiler."""

from collections.abc import Callable
from typing import Any

from xbench.converters import AT_RUN_TIME

NOT_COMPILED = "not compiled"


def compiled(compile: Callable[[], Any], function: Callable[..., Any] | None) -> Any:
    """What `compile` returns, or the function unchanged if a shape in it is only known at run time.

    Raises:
        NotImplementedError: there is no function, or the framework lacks something else.
    """
    try:
        return compile()
    except NotImplementedError as error:
        if function is None or AT_RUN_TIME not in str(error):
            raise
        return function
