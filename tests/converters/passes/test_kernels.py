"""A kernel cache on disk shortens the first call: the record has the cold time too, or says it was not seen."""

import json
import shutil

from fault_kit import records

WORDS = ("lenet", "--runtime", "torch_compile")


def first_call(shell, own_cache) -> dict:
    options = (*WORDS, "--mode", "forward", "--budget", "0.1", "--rerun", "--out", "out")
    assert shell.run("time", *options, XBENCH_CACHE=str(own_cache)).returncode == 0
    return records(shell.folder / "out")[-1]


def test_a_first_call_that_finds_kernels_is_told_with_the_one_that_made_them(shell, own_cache, monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # PyTorch sets it when it compiles, as in other tests
    (made, again) = (
        json.loads(shell.run("convert", *WORDS, "--oracle", "--compile", "--json", XBENCH_CACHE=str(own_cache)).stdout)
        for _ in range(2)
    )
    assert made[0]["kernels"].keys() == {"forward", "step"} and min(made[0]["kernels"].values()) > 0
    assert again[0]["kernels"] == {"forward": None, "step": None}
    times = first_call(shell, own_cache)["times"]
    assert times["anew_s"] == made[0]["kernels"]["forward"]
    assert 0 < times["first_s"] < times["anew_s"]
    shown = shell.run("show", "--out", "out", "--markdown").stdout
    assert " anew) |" in shown
    (folder,) = own_cache.glob("models/*/kernels")
    shutil.rmtree(folder)
    unknown = first_call(shell, own_cache)
    assert unknown["times"]["anew_s"] is None and "written by none that was measured" in unknown["message"]


def test_what_keeps_nothing_compiles_anew_in_every_process(shell, lenet):
    options = ("--mode", "forward", "--batch", "2", "--budget", "0.1", "--processes", "2", "--out", "out")
    assert shell.run("time", "lenet", "--runtime", "onnxruntime", *options).returncode == 0
    (record,) = records(shell.folder / "out")
    assert record["times"]["anew_s"] == record["times"]["first_s"] > 0
    assert all(process["proof_s"] > 0 for process in record["times"]["processes"])
