"""The name that a tensor of a quantised file had before."""

import re

# What quantisers add: ONNX Runtime's, and its converter's to float16.
ENDS = (
    r"_(?:De)?[Qq]uantizeLinear(?:_(?:Input|Output))?",
    r"_(?:output_)?(?:de)?quantized",
    r"_(?:de)?quantised",
    r"_cast(?:ed)?(?:_output)?",
    r"_fp16",
    r"_(?:DQ_)?Q\d(?:_output)?",
    r"_(?:QuantizeLinear|DequantizeLinear)_(?:Input|Output)",
)
END = re.compile(rf"(?:{'|'.join(ENDS)})(?:_\d{{1,9}})?$")
LONGEST = 4096  # characters of a name that is looked at


def stems(name: str) -> list[str]:
    """The name, and what is left of it when one after the other of those ends is taken off."""
    found = [name]
    while len(name) <= LONGEST and (match := END.search(name)) and match.start() > 0:
        name = name[: match.start()]
        found.append(name)
    return found
