"""`xbench doctor`: what is installed, in which version, and the exact command that installs what is missing."""

import json
from typing import Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say


def doctor(as_json: options.Json = False) -> None:
    """Look at this machine and environment; imports no framework. Exit code 1 when no runtime is installed."""
    from xbench.converters import cache
    from xbench.experiments.choose import install, installed_versions
    from xbench.host import gpu, machine
    from xbench.runtimes import table

    installed = installed_versions()
    runtimes = [
        {"runtime": name, "version": installed[name], "install": None if installed[name] else install(name)}
        for name, row in table().items()
        if not row.hidden
    ]
    facts: dict[str, Any] = {
        "machine": machine.describe(),
        "cuda": machine.has_cuda(),
        "gpu": gpu.facts() if machine.has_cuda() else None,
        "cache": str(cache.root()),
        "runtimes": runtimes,
        "tools": machine.versions(("xbench", "onnx", "onnx-ir", "onnxscript", "numpy")),
    }
    if as_json:
        say(json.dumps(facts, indent=1))
    else:
        _print(facts)
    raise typer.Exit(0 if any(row["version"] for row in runtimes) else 1)


def _print(facts: dict[str, Any]) -> None:
    about = facts["machine"]
    say(f"CPU       {about['cpu']}, {about['cpus']} usable, {about['memory_bytes'] / 2**30:.0f} GiB of memory")
    say(f"GPU       {_gpu(facts['gpu'])}")
    say(f"system    {about['os']}, Python {about['python']}")
    say(f"tools     {', '.join(f'{name} {version}' for name, version in facts['tools'].items())}")
    say(f"cache     {facts['cache']}")
    for row in facts["runtimes"]:
        state = row["version"] or f"missing: {row['install']}"
        say(f"{'ok' if row['version'] else '--'}        {row['runtime']:14} {state}")


def _gpu(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "none: --device cuda is not possible"
    words = [facts["name"] or "an NVIDIA driver is loaded (pip install nvidia-ml-py tells more)"]
    words += [f"driver {facts['driver']}"] if facts["driver"] else []
    words += [f"{facts['memory_bytes'] / 2**30:.0f} GiB of memory"] if facts["memory_bytes"] else []
    return ", ".join(words)
