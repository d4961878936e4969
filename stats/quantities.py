"""Numbers and times in words."""


def seconds(value: float | None) -> str:
    """Return a time with three digits and its unit, or nothing."""
    if value is None:
        return ""
    if value < 1e-3:
        return f"{number(value * 1e6)} µs"
    if value < 1:
        return f"{number(value * 1e3)} ms"
    return f"{number(value)} s"


def number(value: float | None) -> str:
    """Return a number with three digits, more if it is 1000 or above, or nothing."""
    if value is None:
        return ""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def of_metric(value: float | None, share: bool) -> str:
    """Return the value of a metric, a share in per cent, or nothing."""
    if value is None:
        return ""
    return f"{value:.2%}" if share else f"{value:.5g}"
