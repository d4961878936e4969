"""The word error rate: wrong, missing and added words over the words of the labels (jiwer, which aligns them)."""

from collections.abc import Sequence
from typing import Any

import jiwer
import numpy as np

from xbench.metrics import Answered, Kept, Misfit


def keep(given: Answered) -> dict[str, np.ndarray]:
    """
    Raises:
        Misfit: the outputs or labels are no texts, or a label has no word.
    """
    said, true = _texts(given.outputs), _texts(given.labels)
    if said is None:
        raise Misfit("word-error compares texts: --post names the function that makes one of each output")
    if true is None:
        raise Misfit("word-error compares texts: give the right ones with --labels")
    if (empty := next((n for n, text in enumerate(true) if not text.split()), None)) is not None:
        raise Misfit("the label has no word", empty)
    found = [jiwer.process_words(one, other) for one, other in zip(true, said, strict=True)]
    errors = [each.substitutions + each.deletions + each.insertions for each in found]
    words = [each.hits + each.substitutions + each.deletions for each in found]
    texts = {"answer": np.array(said, str), "label": np.array(true, str)}
    return texts | {"errors": np.array(errors), "words": np.array(words)}


def _texts(given: Any) -> list[str] | None:
    """One text for each sample; None if they are something else."""
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if isinstance(given, Sequence) and all(isinstance(each, str) for each in given):
        return [str(each) for each in given]
    return None


def score(kept: Kept) -> float:
    return float(kept["errors"].sum() / kept["words"].sum())
