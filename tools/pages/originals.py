"""Prints docs/originals.md from the output of `xbench check --json`: python tools/pages/originals.py FILE..."""

import json
import sys
from pathlib import Path
from typing import Any

from xbench.host import machine
from xbench.runtimes import RUNTIMES
from xbench.runtimes._environments import RECIPES, find

HEAD = """# The originals

Frameworks that the old studies timed, run again: each in an environment of its own, proved against the same float64
oracle as all other runtimes, timed by the same clock, audited for the same promises.

```
xbench env create mxnet          # or chainer, theano, cntk, caffe2: an old Python of this machine, pinned packages
xbench env list
xbench check lenet --runtime mxnet --mode forward --mode step
xbench time lenet --runtime mxnet,torch
xbench time lenet --runtime keras,keras:backend=jax    # Keras 3 needs no environment: TensorFlow brings it
xbench list runtimes --lineage   # what became of each tool, and what stands for it here
```

They run where they are named: without `--runtime` none of them does, and neither does Keras. Pythons are looked for on
the PATH and in pyenv, never downloaded; where none fits, that is one line and exit code 2. Environments lie in
`$XBENCH_ENVIRONMENTS`, else `~/.local/share/xbench/environments`. An environment counts when its `ready.json` is there,
which is written last.

## Any runtime in another environment
Not only these: a runtime's word (`torch:python=old/bin/python`), or a file of settings, names the interpreter that its
worker is started with. Of a runtime of today that is a Python with xbench installed in it; of an original it is one
with the framework alone.

```toml
# xbench.toml in the working folder, else ~/.config/xbench/config.toml; the first that exists counts
[runtimes.torch]
python = "old/bin/python"        # from the file's folder
```

## How an original is run
xbench needs Python 3.11, CNTK 2.7 has wheels up to 3.6. So the worker holds a `Trainer` (`runtimes/support/remote.py`)
whose work is done by a process of the old Python (`runtimes/originals/host.py`), which has NumPy and the framework, and
of xbench the files of that folder. They speak lines of JSON and the bytes of arrays over two pipes.

- **What is run** is the printed text of the network, the same as everywhere. The table of operators in which it runs is
  the framework's file: `runtimes/originals/mxnet.py` says what `Conv` is in MXNet.
- **What is timed** is told by the clock of that process: from the call to the complete result, so that neither the pipe
  nor the other process is in a time. Loading and the first call are timed outside, with the start of that process.
- **What is audited** is both processes: threads, CPU time and memory are those of the worker's process group
  (`host/process_tree.py`). The host has the worker's CPUs and its settings of threads, is stopped by signal with it,
  and dies with it.
- **The update** is the formula of `converters/autodiff/optimizer.py` for an old Python (`originals/update.py`), on the
  framework's arrays; a test holds the two together, and the gate of parity judges both.

What is run, and what is each one's own:

- `mxnet`: a symbol, run as Gluon runs a hybrid block; `sgd_mom_update` where the rule is momentum. Its running variance
  is the biased one; its rule is linear, so what it keeps is PyTorch's times (n - 1) / n.
- `chainer`: define by run: its functions on NumPy, the graph made anew in every step; `n_step_lstm`.
- `theano`: symbols compiled with g++, whose modules lie in xbench's cache. The BLAS it links is the OpenBLAS in NumPy's
  wheel, which is there wherever the environment is and obeys the number of threads.
- `cntk`: its functions on its batch axis; the update is a learner of its `universal` kind. An LSTM is unrolled: its
  fused layer is for GPUs. It wants Open MPI under an old name: links to the system's, or to Debian's packages unpacked
  inside the environment.
- `caffe2`: operators of a net, as PyTorch 1.8.1's wheel has them; inference only.
- `keras`: a functional model of its own layers, channels last, called by `stateless_call` inside the step that the
  backend's runtime compiles. Its running variance is the biased one; a small subclass of its layer corrects it.

CNTK and Caffe2 copy the inputs of a step into their graphs inside the clock; `xbench plugin test cntk` tells of it.
CNTK's numbers are all float32, labels and words too. An operator that a table lacks is UNSUPPORTED by name.

MXNet's losses are further from float64 than the others': its wheel's oneDNN has a log_softmax whose errors do not
cancel. With `MXNET_MKLDNN_ENABLED=0` before it, `xbench check lenet cifar_vgg --runtime mxnet --mode step` finds 0.4
and 0.7 noise floors instead of what is in the table.

`xbench train` and `xbench load` work, too, but their seconds are those of the worker, with the pipe in them.

## Parity
The worst error of any tensor in units of the float32 noise floor, batch 2, in forward also batch 3; up to 64 passes as
class fp32. A step is two training steps: both losses, all weights, statistics and the arrays of the optimizer behind
them. Every cell that passes also holds the same parameters, by name and bit by bit. Printed by

```
xbench check lenet cifar_vgg alexnet_cifar resnet56_cifar --mode forward --mode step --json > nets.json \\
  --runtime mxnet,chainer,theano,cntk,caffe2,keras,keras:backend=jax \\
  --runtime torch,torch_compile,onnxruntime,openvino,tensorflow,jax
xbench check lstm_ptb imdb_lstm --mode forward --mode step --json > lstm.json \\
  --runtime mxnet,chainer,theano,cntk,caffe2,keras,torch,onnxruntime,openvino,tensorflow,jax
python tools/pages/originals.py nets.json lstm.json > docs/originals.md
```

Times are for a quiet machine: `xbench time lenet cifar_vgg alexnet_cifar resnet56_cifar --mode forward --mode step
--runtime mxnet,chainer,theano,cntk,caffe2,keras,torch,onnxruntime,tensorflow,jax`."""


def cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["status"] == "PASS":
        return f"PASS {row['ratio']:.1f}"
    message = row["message"].removeprefix("operators missing: ")
    return f"{row['status']}: {message}".replace("|", " ")


def table(rows: list[dict[str, Any]], mode: str) -> str:
    """One row per runtime, one column per network."""
    models, runtimes = (list(dict.fromkeys(row[word] for row in rows)) for word in ("model", "runtime"))
    by_cell = {(row["model"], row["runtime"]): row for row in rows if row["mode"] == mode}
    lines = [f"| runtime | {' | '.join(models)} |", f"| --- | {' | '.join('---' for _ in models)} |"]
    lines += [f"| {r} | {' | '.join(cell(by_cell.get((m, r))) for m in models)} |" for r in runtimes]
    return "\n".join(lines)


def versions() -> str:
    """The contents of this machine's environments."""
    words = []
    for name, recipe in RECIPES.items():
        if made := find(name):
            installed = made.versions
            words.append(f"{recipe.framework} (Python {installed['python']}, NumPy {installed['numpy']})")
    return "; ".join(words)


def main() -> None:
    files = [json.loads(Path(each).read_text()) for each in sys.argv[1:]]
    known = [row for rows in files for row in rows]
    order = [name for name in dict.fromkeys(row["runtime"] for row in known) if RUNTIMES[name.partition(":")[0]].named]
    order += [name for name in dict.fromkeys(row["runtime"] for row in known) if name not in order]
    known.sort(key=lambda row: order.index(row["runtime"]))
    print(HEAD)
    for mode, title in (("forward", "Forward"), ("step", "Two training steps")):
        print(f"\n### {title}\n\n{table(known, mode)}")
    print(f"\n{versions()}. {machine.describe()['cpu']}.")


if __name__ == "__main__":
    main()
